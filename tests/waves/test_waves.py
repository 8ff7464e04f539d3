# SPDX-License-Identifier: Apache-2.0
"""Save files and pictures of a trace: what they name is in the trace, values and times are the chip's."""

import json
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pylibfst
import pytest

from stub_waves import BEATS, ROOT, VIEW
from waves import draw
from waves.trace import Cycles, Signal, Trace, WavesError, plain
from waves.view import find, load, text_of

SVG = "{http://www.w3.org/2000/svg}"


def names_in(path) -> set:
    """As GTKWave's own reader has them."""
    fst = pylibfst.lib.fstReaderOpen(str(path).encode())
    _, signals = pylibfst.get_scopes_signals2(fst)
    found = {name.replace(" ", "") for name in signals.by_name}
    pylibfst.lib.fstReaderClose(fst)
    return found


def test_gtkwave_gets_names_that_the_file_has(stub_trace, waves, tmp_path):
    path = stub_trace("plain")
    waves(path, "--view", VIEW, "--out", "o/stub", "--mark", "first difference=40")
    lines = (tmp_path / "o" / "stub.gtkw").read_text().splitlines()
    traces = [line.split("} ", 1)[1] for line in lines if line.startswith("+{")]
    assert "presil_stub_top.buffer.buffer[1][127:0]" in traces and "presil_stub_top.m_axi_araddr[39:0]" in traces
    assert set(traces) <= names_in(path), set(traces) - names_in(path)
    assert [line for line in lines if line.startswith("-")] == ["-state", "-state", "-read bus", "-read bus"]
    assert f'[dumpfile] "{path}"' in lines


@pytest.mark.parametrize("viewer, arguments", [("gtkwave", ["o/stub.gtkw"]), ("surfer", ["-c", "o/stub.sucl", "FST"])])
def test_a_viewer_is_opened(stub_trace, waves, tmp_path, viewer, arguments):
    """By its name on PATH; it goes on when the command has ended."""
    path, programs = stub_trace("plain"), tmp_path / "bin"
    programs.mkdir()
    (programs / viewer).write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/new && /bin/mv {tmp_path}/new {tmp_path}/told\n'
    )
    (programs / viewer).chmod(0o755)
    assert f"opened in {viewer}" in waves(path, "--view", VIEW, "--out", "o/stub", "--open", PATH=str(programs)).text
    deadline = time.monotonic() + 60
    while not (tmp_path / "told").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    wanted = [str(path) if word == "FST" else str(tmp_path / word) if "/" in word else word for word in arguments]
    assert (tmp_path / "told").read_text().splitlines() == wanted


def test_no_viewer_is_an_error(stub_trace, waves):
    done = waves(stub_trace("plain"), "--view", VIEW, "--open", status=2, PATH="/nowhere")
    assert "neither gtkwave" in done.text and "apt-get install gtkwave" in done.text
    assert "no --svg" in waves(stub_trace("plain"), "--view", VIEW, "--open", "--svg", "x.svg", status=2).text


def test_markers_are_at_their_cycles(stub_trace, waves, tmp_path):
    path = stub_trace("plain")
    waves(path, "--view", VIEW, "--out", "stub", "--mark", "first difference=40", "--json", "r.json")
    trace = Trace(path)
    bell = next(trace.signal("presil_stub_top.busy").rises())
    (zoom,) = re.findall(r"^\*(.*)$", (tmp_path / "stub.gtkw").read_text(), re.M)
    assert [float(t) for t in zoom.split()[1:4]] == [bell, bell, bell + 40 * 1000]
    commands = (tmp_path / "stub.sucl").read_text().splitlines()
    assert f"marker_set first_difference {bell + 40_000}" in commands and f"marker_set doorbell {bell}" in commands
    # The register says how long the copy took; so does the trace.
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["cycles"] == trace.signal("presil_stub_top.cycles").values[-1] > BEATS


def test_surfer_formats_the_rows_that_it_names(stub_trace, waves, tmp_path):
    path = stub_trace("plain")
    waves(path, "--view", VIEW, "--out", "stub")
    rows, formats, names, focus = [], {}, {}, None
    for line in (tmp_path / "stub.sucl").read_text().splitlines():
        verb, _, argument = line.partition(" ")
        if verb in ("divider_add", "variable_add"):
            assert re.fullmatch(r"\S+", argument)
            rows.append(argument)
        elif verb == "item_focus":
            focus = int("".join(f"{ord(c) - ord('a'):x}" for c in argument), 16)
        elif verb == "item_set_format":
            formats[rows[focus]] = argument
        elif verb == "item_rename":
            names[rows[focus]] = argument
    called = {"r_left": "beats to read", "m_axi_arburst": "burst", "buffer.[1]": "buffer[1]"}
    assert names == {f"presil_stub_top.{name}": label for name, label in called.items()}
    assert rows[0] == "state" and "read_bus" in rows and "presil_stub_top.buffer.[1]" in rows
    assert formats["presil_stub_top.r_left"] == "Unsigned"
    assert formats["presil_stub_top.buffer.[1]"] == "Hexadecimal"
    assert formats["presil_stub_top.m_axi_arburst"] == "presil_stub_top_BURST_2"
    widths = {name: v.bitwidth for name, v in Trace(path).variables.items()}
    assert set(formats) == {row for row in rows if widths.get(plain(row), 1) > 1}  # each of them, and no heading
    mapping = tmp_path / ".surfer" / "mappings" / "presil_stub_top_BURST_2.txt"
    assert mapping.read_text().splitlines() == [
        "Name = presil_stub_top_BURST_2",
        "Bits = 2",
        "0 FIXED",
        "1 INCR",
        "2 WRAP",
    ]
    (table,) = re.findall(r"^\^1 (.*)$", (tmp_path / "stub.gtkw").read_text(), re.M)
    assert Path(table).read_text().splitlines() == ["0 FIXED", "1 INCR", "2 WRAP"]


def boxes(svg: str) -> dict:
    """label -> [(value, first cycle, last cycle)] of what the picture says of its boxes."""
    found = {}
    for title in ET.fromstring(svg).iter(f"{SVG}title"):
        if m := re.fullmatch(r"(.*) = (.*), cycles (-?\d+) to (-?\d+) \((\d+)\)", title.text):
            found.setdefault(m[1], []).append((m[2], int(m[3]), int(m[4])))
    return found


def test_the_picture_shows_values_at_their_cycles(stub_trace, waves, tmp_path):
    path = stub_trace("plain")
    waves(path, "--view", VIEW, "--svg", "p.svg", "--html", "p.html", "--window", "90:130", "--mark", "look=120")
    svg = (tmp_path / "p.svg").read_text()
    trace, found = Trace(path), boxes(svg)
    bell = next(trace.signal("presil_stub_top.busy").rises())
    left = trace.signal("presil_stub_top.r_left")
    expected = [str(left.at(bell + 1000 * cycle)) for cycle in range(90, 130)]
    shown = [v for v, first, last in found["beats to read"] for _ in range(first, last + 1)]
    assert shown == expected and len(set(expected)) > 10
    assert found["burst"] == [("INCR", 90, 129)] and found["beats to read"][0][1] == 90
    texts = [t.text for t in ET.fromstring(svg).iter(f"{SVG}text")]
    assert {"state", "read bus", "busy", "look", "INCR", "100"} <= set(texts) and "doorbell" not in texts
    html = (tmp_path / "p.html").read_text()
    assert svg in html and "marker look" in html
    outside = re.findall(r"(?:src|href|url|@import)\b[^>]*", html)
    assert not outside and "<script" not in html, outside


def test_a_line_is_high_when_the_signal_is():
    cycles = Cycles(Signal("clk", 1, [0, 500, 1000, 1500, 2000, 2500, 3000], [1, 0, 1, 0, 1, 0, 1]), 1000)
    view = type("V", (), {"enumerations": {}})
    w = draw.Window(cycles, 0, 2)
    signal = Signal("s", 1, [0, 2000], [0, 1])
    (line,) = re.findall(r'points="([^"]*)"', draw._bit(signal, w, 100))
    points = [tuple(map(float, p.split(","))) for p in line.split()]
    left, right = draw.NAMES + draw.GAP, draw.NAMES + draw.GAP + w.width
    low, high = 100 + draw.ROW - 4, 104
    middle = (left + right) / 2
    assert points == [(left, low), (middle, low), (middle, low), (middle, high), (right, high)]
    assert view


def test_what_toggles_faster_than_a_pixel_is_a_band():
    clock = Signal("clk", 1, list(range(0, 4_000_001, 500)), [1, 0] * 4000 + [1])
    w = draw.Window(Cycles(clock, 0), 0, 4000)
    drawn = draw._bit(clock, w, 0)
    assert drawn.count('class="d"') == 1 and len(drawn) < 400_000


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["missing.fst"], "no such file"),
        ([VIEW], "can't be read as FST or VCD"),
        (["{trace}", "--window", "5"], "FIRST:LAST in cycles"),
        (["{trace}", "--svg", "x.svg", "--window", "100000:100010"], "has no cycle of the trace"),
        (["{trace}", "--group", "nothing"], "no group nothing; it has state, read bus"),
        (["{trace}", "--mark", "here"], "NAME=CYCLE"),
    ],
)
def test_errors_say_what_was_expected(stub_trace, waves, arguments, text):
    arguments = [str(stub_trace("plain")) if a == "{trace}" else a for a in arguments]
    done = waves(*arguments, "--view", VIEW, status=2)
    assert text in done.text and "Traceback" not in done.stderr, done.text


def test_a_bundle_is_named_as_one(tmp_path):
    (tmp_path / "x.presil").write_bytes(b"PRESILB\n" + bytes(64))
    with pytest.raises(
        WavesError, match="is a bundle, a waveform was expected: ./presil waves .*x.presil makes its own"
    ):
        Trace(tmp_path / "x.presil")


def test_a_view_that_names_what_is_not_there(stub_trace, waves, tmp_path):
    path = stub_trace("plain")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(VIEW.read_text().replace('"m_axi_rready"', '"m_axi_reddy"'))
    done = waves(path, "--view", wrong, status=2)
    assert re.search(r"no signal presil_stub_top.m_axi_reddy; near: .*presil_stub_top.m_axi_rready", done.text)
    wrong.write_text(VIEW.read_text().replace("presil_stub_top", "other_top"))
    assert "no view is for one of its modules" in waves(path, "--view", wrong, status=2).text
    wrong.write_text(VIEW.read_text().replace("doorbell =", "bell ="))
    assert "missing: ['doorbell']; unknown: ['bell']" in waves(path, "--view", wrong, status=2).text


def test_values_as_they_are_shown(stub_trace):
    view = load(VIEW)
    trace = Trace(stub_trace("plain"))
    assert find(trace, VIEW).root == "presil_stub_top"
    row = next(r for _, rows in find(trace, VIEW).rows(trace) for r in rows if r.label == "burst")
    assert [text_of(row, v, view.enumerations) for v in (1, 3, "xx", None)] == ["INCR", "3", "xx", ""]
    signed = type(row)("n", "n", 4, "signed")
    assert [text_of(signed, v, {}) for v in (7, 8, 15)] == ["7", "-8", "-1"]


def test_the_code_knows_no_chip():
    words = set()
    for view in (ROOT / "waveforms").glob("*.toml"):
        data = load(view)
        words |= {data.top} | {n for e in data.enumerations.values() for n in e.values()}
    words = {w for w in words if len(w) > 3}
    assert "presil_top" in words and "EPILOGUE" in words
    for path in (ROOT / "torch_ext" / "torch_presil" / "waves").glob("*.py"):
        found = {w for w in words if re.search(rf"\b{re.escape(w)}\b", path.read_text())}
        assert not found - {"next", "check", "queue"}, f"{path.name} knows {found}"
