# SPDX-License-Identifier: Apache-2.0
"""Which signals of two traces part first, and which lines drive them."""

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stub_waves import ROOT, VIEW
from waves.drivers import Design
from waves.parting import Part, explain, first_difference, one_of_each_array, one_of_each_net
from waves.trace import Signal, WavesError


@pytest.fixture(scope="module")
def chip():
    return Design([ROOT / "rtl"], "presil_top")


def test_equal_traces_agree(stub_trace, waves):
    path = stub_trace("plain")
    done = waves(path, "--view", VIEW, "--against", stub_trace("again"))
    assert "signals agree from the doorbell on" in done.text


def test_the_first_signals_come_first_with_their_lines(stub_trace, waves, tmp_path):
    """The memory answers a cycle later: its data are the cause, and what hangs on them follows."""
    slow = stub_trace("slow", "latency=101")
    waves(stub_trace("plain"), "--view", VIEW, "--against", slow, "--json", "r.json", status=1)
    result = json.loads((tmp_path / "r.json").read_text())
    first = result["first"]
    assert {"m_axi_rvalid", "m_axi_rdata"} <= {r["signal"] for r in first[:3]}
    assert {r["cycle"] for r in first[:3]} == {100} and [r["cycle"] for r in first] == sorted(r["cycle"] for r in first)
    by_name = {r["signal"]: r for r in first}
    assert by_name["m_axi_rvalid"]["drivers"][0]["text"] == "input m_axi_rvalid of the chip"
    assert by_name["r_left"]["drivers"][0]["text"].startswith("r_left <= r_left - 1")
    assert by_name["r_left"]["drivers"][0]["place"].split("/")[-1].startswith("presil_stub_top.sv:")
    assert by_name["buffer[0]"]["others"] == 31 and "buffer[1]" not in by_name
    assert result["modules"][0] == {"module": "presil_stub_top", "cycle": 100, "signal": first[0]["signal"]}


def naive(left, zero_left, right, zero_right):
    """Every tick from the doorbell on, one by one."""
    a, b = (Signal("s", 8, [t for t, _ in c], [v for _, v in c]) for c in (left, right))
    for since in range(0, 40):
        if a.at(zero_left + since) != b.at(zero_right + since):
            return since, a.at(zero_left + since), b.at(zero_right + since)
    return None


def changes(draw_values):
    """Changes as a file has them: times rise, a value differs from the one before."""
    out, value = [], None
    for time, new in draw_values:
        if new != value:
            out.append((time, new))
            value = new
    return out


ticks = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 2)), max_size=8, unique_by=lambda c: c[0]).map(
    lambda c: changes(sorted(c))
)


@settings(max_examples=1500, deadline=None)
@given(ticks, st.integers(0, 8), ticks, st.integers(0, 8), st.booleans())
def test_the_first_difference_is_what_looking_at_every_tick_finds(left, zero_left, right, zero_right, same):
    if same:
        right, zero_right = [(t + 3, v) for t, v in left], zero_left + 3
    assert first_difference(left, zero_left, right, zero_right) == naive(left, zero_left, right, zero_right)


def test_an_array_has_one_line():
    parts = [Part([n], i, 0, 1) for i, n in enumerate(["a.m[3]", "a.m[1]", "a.v", "b.m[3]", "a.m[0]"])]
    assert [(p.name, p.others) for p in one_of_each_array(parts)] == [("a.m[3]", 2), ("a.v", 0), ("b.m[3]", 0)]


@pytest.mark.parametrize(
    "signal, file, text",
    [
        ("u_matrix.row_take", "presil_matrix.sv", "assign row_take = "),
        (
            "u_matrix.u_array.wgt_valid",
            "presil_matrix.sv",
            ".wgt_valid(arr_wgt_valid",
        ),  # an input: the parent's expression
        ("u_matrix.u_weights.rd_ready", "presil_scratchpad.sv", "wgt_ready"),  # up, across, down
        ("m_axi_wdata[5]", "presil_store_pack.sv", ""),  # an output of a child's child
        ("u_matrix.p1.pad", "presil_matrix.sv", "p1 <= '{pad: row_pad"),  # a member of a structure
        ("cause[1]", "presil_issue.sv", "cause = CAUSE_BUSY;"),  # an element of an array
        ("u_load.rvalid", "presil_axi_read.sv", "load_rvalid"),
        ("clk", "presil_top.sv", "input clk of the chip"),
    ],
)
def test_drivers_are_found_through_ports(chip, signal, file, text):
    found = [(line.file.name, line.text) for line, _ in chip.drivers(signal)]
    assert any(f == file and text in t for f, t in found), found


def test_what_follows_from_others_of_its_cycle_comes_behind_them(chip):
    """Through a port, a slice at a port, and an assignment in another module."""
    names = ["fetch_rvalid", "u_axi_read.rid", "m_axi_rid", "m_axi_rvalid", "u_command.fetch_rerror", "m_axi_rresp"]
    parts = [Part([name], 7, 0, 1) for name in names] + [Part(["a_first"], 6, 0, 1)]
    explain(parts, chip)
    order = [p.name for p in parts]
    assert order[0] == "a_first" and set(order[1:4]) == {"m_axi_rid", "m_axi_rvalid", "m_axi_rresp"}, order
    assert {i for _, inputs in chip.drivers("fetch_rvalid") for i in inputs} >= {"u_axi_read.rvalid", "u_axi_read.rid"}


def test_a_signal_of_several_modules_has_one_row(chip):
    """Named as where it is assigned; what only looks alike stays."""
    names = ("u_scratchpad.wgt_valid", "wgt_valid", "u_matrix.u_weights.rd_valid")
    parts = [Part([name], 9, 0, 1) for name in names]
    parts += [
        Part(["u_matrix.wgt_valid"], 9, 1, 0),
        Part(["u_scratchpad.wgt_ready"], 9, 0, 1),
        Part(["wgt_addr"], 9, 1, 2),
        Part(["nowhere"], 9, 0, 1),
    ]
    explain(parts, chip)
    found = {part.name: part.names[1:] for part in one_of_each_net(parts)}
    assert sorted(found.pop("u_matrix.u_weights.rd_valid")) == sorted(set(names) - {"u_matrix.u_weights.rd_valid"})
    assert found == {"u_matrix.wgt_valid": [], "u_scratchpad.wgt_ready": [], "wgt_addr": [], "nowhere": []}


def test_lines_of_the_other_rtl(chip, tmp_path):
    """What the other RTL drives otherwise comes first, with its lines; the same RTL elsewhere has none."""
    shutil.copytree(ROOT / "rtl", tmp_path / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    names = "u_command.busy", "u_matrix.u_agen.cb_addr", "u_matrix.u_agen.row_first"
    parts = [Part([name], 9, 0, 1) for name in names]
    explain(parts, chip, Design([tmp_path / "rtl"], "presil_top"))
    assert [part.theirs for part in parts] == [[]] * 3
    file = tmp_path / "rtl" / "presil_agen.sv"
    file.write_text(file.read_text().replace("cb_addr <= cb_addr + cb_stride;", "cb_addr <= cb_addr + y_stride;"))
    explain(parts, chip, Design([tmp_path / "rtl"], "presil_top"))
    assert parts[0].name == "u_matrix.u_agen.cb_addr" and not parts[1].theirs and not parts[2].theirs
    assert "cb_addr <= cb_addr + y_stride;" in [line.text for line, _ in parts[0].theirs]


def test_an_index_is_a_cause_too():
    """m_axi_wdata = buffer[... w_at ...]: a wrong w_at comes before what it picks."""
    parts = [Part(["m_axi_wdata"], 159_500, 0, 1), Part(["w_at"], 159_500, 10, 9)]
    explain(parts, Design([ROOT / "tests" / "rtl" / "presil_stub_top.sv"], "presil_stub_top"))
    assert [p.name for p in parts] == ["w_at", "m_axi_wdata"] and parts[0].lines[0][0].text.startswith("w_at <= ")


def test_no_rtl_is_an_error(tmp_path):
    with pytest.raises(WavesError, match="no module presil_top in 0 RTL files"):
        Design([tmp_path], "presil_top")
