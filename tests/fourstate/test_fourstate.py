# SPDX-License-Identifier: Apache-2.0
"""The whole chip in a four-state simulator (Icarus), as Yosys elaborates it: every register and memory begins unknown,
and no control output, register or result may be.

Icarus 11 does not read the RTL itself (typed localparams, packages in module headers); it reads Yosys' netlist, in
which X spreads like behind synthesis: a multiplexer with an unknown select gives X where its inputs differ."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lint"))
from files import BUILD, sources  # noqa: E402

from .program import OUT, OUT_WORDS, WORD, descriptors, expected, image  # noqa: E402

HERE = Path(__file__).parent
COUNTERS, COUNTER_WORDS = 0x400, 180
CAUSES, CYCLES, LAUNCHES = 16, 80, 86


@pytest.fixture(scope="module")
def simulator():
    """tiny, compiled."""
    assert shutil.which("iverilog"), "Icarus Verilog is missing: apt-get install iverilog"
    place = BUILD / "fourstate"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    files = " ".join(Path(shutil.copy(file, place)).name for file in sources("tiny"))
    # Of one module for all Icarus takes 40 s to compile, of the modules as they are 3.
    script = f"read_slang --keep-hierarchy --threads 1 --no-proc --top presil_top {files}; "
    script += "hierarchy -check -top presil_top; proc; opt_clean; bwmuxmap; write_verilog -noattr chip.v"
    yosys = [sys.executable, str(HERE.parent / "bench" / "one_yosys.py")]
    for command in (
        [*yosys, "-q", "-p", script],
        ["iverilog", "-g2012", "-o", "chip.vvp", "-s", "bench", str(HERE / "bench.v"), "chip.v"],
    ):
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return place


def test_nothing_that_matters_is_unknown(simulator):
    dram = image(1)
    rows = (dram[at : at + WORD][::-1].hex() for at in range(0, len(dram), WORD))
    (simulator / "image.hex").write_text("\n".join(rows))
    options = [f"+descriptors={len(descriptors())}", f"+out={OUT:x}", f"+out_words={OUT_WORDS}"]
    done = subprocess.run(["vvp", "chip.vvp", *options], cwd=simulator, capture_output=True, text=True, timeout=300)
    said = done.stdout
    assert "END 0" in said, [line for line in said.splitlines() if "UNKNOWN" in line or "END" in line]
    start, measured = said.split("MEASURED")
    registers = [dict(re.findall(r"REG (\S+) (\S+)", part)) for part in (start, measured)]
    assert len(registers[0]) > 200 and not re.search("REG .*[xz]", said)
    counts = [[int(r[f"{COUNTERS + 4 * i:03x}"], 16) for i in range(0, COUNTER_WORDS, 2)] for r in registers]
    assert not any(counts[0])  # before the first snapshot
    assert counts[1][LAUNCHES] == 2 and counts[1][CYCLES] > 200
    for engine in range(5):
        assert sum(counts[1][CAUSES * engine : CAUSES * (engine + 1)]) == counts[1][CYCLES]
    assert re.findall(r"REG 04c (\S+)", start)[1:] == ["00000001"] * 2  # IRQ_STATUS of both launches
    out = b"".join(bytes.fromhex(word)[::-1] for word in re.findall(r"OUT (\S+)", measured))
    assert out == expected(dram)
