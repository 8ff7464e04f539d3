# SPDX-License-Identifier: Apache-2.0
"""Each check of level transport that a chip's RTL can break, fails for a fault in the RTL of presil new-chip's project.
One library has all of them; a file says which is on, when a model begins."""

import re
import subprocess
from pathlib import Path

import pytest
from conform_runs import check, conform, new_chip

from conform.checks import CHECKS
from conform.register import load

# The table, options, and the host's way to memory: no RTL is behind them (their faults: test_planted.py).
OF_THE_LIBRARY = {
    "table", "identity", "older-caller", "bad-options", "regions", "memory", "memory-mapped", "memory-bounds",
    "bad-offset", "two-devices",
}  # fmt: skip

# What faults need beside the template's RTL. «Marked» is what is right; stray: a write that nobody asked for.
MORE = """
    integer file;
    logic [31:0] fault, awake, quiet, starts, reads, drained, late, jitter, k_last, k_before;
    logic wrote, gap, stray, gives_up;
    initial begin
        file = $fopen("FILE", "r");
        if ($fscanf(file, "%d", fault) != 1) $fatal;
        $fclose(file);
    end
    assign stray = «1'b0»;
    assign gives_up = «1'b0»;
    assign late = «32'd0»;  // cycles by which a job ends later
    always_ff @(posedge clk) begin
        awake <= rst ? 0 : awake + 1;
        quiet <= rst || take || !busy ? 0 : quiet + 1;
        reads <= reads + 32'(read);
        drained <= state == DRAIN && open_writes == 0 ? drained + 1 : 0;
        gap <= (gap || (state == LOAD && beat != 0 && !m_axi_rvalid)) && busy;
        if (write || read) wrote <= write;
        if (start) {starts, k_last, k_before, jitter} <= {starts + 1, k, k_last, 22'd0, 10'($urandom)};
    end
"""
HOOKS = [
    ("    // ---- reads: rows of A or B", MORE + "\n    // ---- reads: rows of A or B"),
    (
        "if (state == DRAIN && open_writes == 0)",
        "if ((state == DRAIN && open_writes == 0 && drained >= late) || gives_up)",
    ),
    (
        "        if (rst) begin\n            state <= IDLE;\n            {busy, done,",
        "        if (stray) {m_axi_awvalid, m_axi_wvalid} <= 2'b11;\n"
        "        if (stray) {m_axi_awaddr, m_axi_wstrb} <= {40'h1000_1000, 16'hffff};\n"
        "        if (rst) begin\n            state <= IDLE;\n            busy <= «1'b0»;\n            {done,",
    ),
]

# check -> (text of the RTL with what is right «marked», what stands there instead)
FAULTS = {
    "register-reset": ("regs[i] <= «'0»;", "32'(i == 7)"),
    "register-reserved": ("<= «s_axil_wdata[8*b+:8]»;", "s_axil_wdata[8*b+:8] & {b != 3, 7'h7f}"),
    "register-back-to-back": ("if («s_axil_wstrb[b]»)", "s_axil_wstrb[b] && !wrote"),
    "register-many": ("s_axil_rdata <= «cycles»;", "cycles + reads"),
    "register-absent": ("s_axil_rresp <= «s_axil_araddr > 12'h040» ?", "1'b0"),
    "register-idle": ("assign stray = «1'b0»;", "read && s_axil_araddr == 12'h03c"),
    "deadline": ("assign irq = «done»;", "done || awake > 1000"),
    "cancel": ("assign irq = «done»;", "done || awake > 100000"),
    "hang": ("assign stray = «1'b0»;", "awake[10:0] == 1"),
    "stopped": ("assign stray = «1'b0»;", "awake == 3"),
    "job": ("m_axi_wstrb <= «keep»;", "last ? keep & 16'hfffe : keep"),
    "job-strobes": ("m_axi_wstrb <= «keep»;", "16'hffff"),
    "memory-models": ("buffer[beat[7:0]] <= «m_axi_rdata»;", "m_axi_rdata ^ 128'(gap)"),
    "bus-errors": ("if («m_axi_rresp != 0»)", "1'b0"),
    "reset-anywhere": ("busy <= «1'b0»;", "busy"),
    "hang-of-memory": ("assign gives_up = «1'b0»;", "quiet == 15000"),
    "repetition": ("assign late = «32'd0»;", "{30'd0, starts[1:0]}"),
    "shuffled": ("assign late = «32'd0»;", "{29'd0, k_before[2:0]}"),
    "other-addresses": ("assign late = «32'd0»;", "{30'd0, a[13:12]}"),
    "interleaved": ("assign late = «32'd0»;", "jitter"),
}


def with_faults(rtl: str, file: Path) -> str:
    """The RTL, in which fault n (from 1) is on where the file says n."""
    for old, new in HOOKS:
        assert rtl.count(old) == 1, f"{old!r} stands {rtl.count(old)} times in the template"
        rtl = rtl.replace(old, new)
    for place in dict.fromkeys(place for place, _ in FAULTS.values()):
        before, right, behind = re.split("[«»]", place)
        assert rtl.replace("«", "").replace("»", "").count(before + right + behind) == 1, place
        wrong = [f"fault == {n} ? {new} : " for n, (at, new) in enumerate(FAULTS.values(), 1) if at == place]
        rtl = rtl.replace(place, before + right + behind)
        rtl = rtl.replace(before + right + behind, f"{before}({''.join(wrong)}{right}){behind}")
    return rtl.replace("FILE", str(file))


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """faulty(n) -> the library, with fault n on; 0: none."""
    folder = tmp_path_factory.mktemp("rtl") / "mine"
    new_chip("mine", folder)
    top, file = folder / "rtl/mine_top.sv", folder / "fault"
    top.write_text(with_faults(top.read_text(), file))
    for command in ("cmake -G Ninja -B build", "cmake --build build --target presil_sim_mine_fast"):
        done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def on(fault: int) -> Path:
        file.write_text(f"{fault}\n")
        return folder / "build/libpresil_sim_mine_fast.so"

    return on


def test_every_check_of_a_transport_has_a_fault():
    load()
    names = {check.name for check in CHECKS.values() if check.level == "transport"}
    assert names == set(FAULTS) | OF_THE_LIBRARY and not set(FAULTS) & OF_THE_LIBRARY


def test_without_a_fault_all_is_well(faulty):
    run = conform(faulty(0), "--level", "transport")
    assert run["counts"]["passed"] == len(FAULTS) + len(OF_THE_LIBRARY), run["output"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_rtl_is_found(name, faulty):
    library = faulty(1 + list(FAULTS).index(name))
    found = check(name, library, library.with_name("mine.conform.toml"))
    assert found["status"] == "failed" and found["text"], found
    print(f"{name}: {found['text']}")
