# SPDX-License-Identifier: Apache-2.0
"""Every assertion of rtl/ is seen to fail: its fault of assertions.toml, planted in the build `check` of tiny, stops
the model with its name."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[0] / "mutants"))
import sheets  # noqa: E402
from bench.chip import Chip, TransportError  # noqa: E402
from bench.compare import Difference, Pair  # noqa: E402
from programs.test_queue import cheap  # noqa: E402

from coverage import plan  # noqa: E402

PROGRAMS, BATCH = 1024, 64
# For which no fault is known that reaches them.
WITHOUT = {
    "presil_epilogue.a_write",  # the scratchpad's answer is a constant
    "presil_load.a_over",  # the four that wait are full before the eight that are held
    # Random programs have neither DMA windows nor records: tests/bits/test_windows.py and
    # tests/programs/test_records.py run the check build, and the proofs of both AXI sides hold the first two.
    "presil_axi_read.a_refused",
    "presil_axi_write.a_refused",
    "presil_windows.a_stay",
    "presil_windows.a_locked",
    "presil_record.a_quiet",
}
FAULTS = tomllib.loads((HERE / "assertions.toml").read_text())["fault"]


def planted() -> list:
    return [
        sheets.Fault(n, row["file"], row["assertion"], row["old"], row["new"], row.get("statement", False), check=True)
        for n, row in enumerate(FAULTS, 1)
    ]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> dict:
    """Fault's number -> its library."""
    out = Path(os.environ.get("PRESIL_ASSERTIONS", tmp_path_factory.mktemp("assertions")))
    texts = {f.file: (sheets.ROOT / "rtl" / f.file).read_text() for f in planted()}
    found = {}
    for number, sheet in enumerate(sheets.split(planted(), texts)):
        library = sheets.build(sheet, texts, "tiny", out / str(number))
        found.update({fault.number: library for fault in sheet})
    return found


def many(path: Path, memory: str) -> None:
    """More bursts than may be outstanding, in either direction, and a LOAD that ends them. The bus is not looked at but
    by the chip's assertions."""
    with Chip(path, options="monitor=0") as chip:
        chip.set_memory_model(memory, 1)
        chip.set_ring(0x100_0000, 6)
        shape = dict(n1=2000, chunk_bytes=16, word_bytes=16, ds1=4096)
        wrong = cheap("LOAD", addr=255 << 32)
        chip.put([cheap("STORE", **shape), cheap("LOAD", row_bytes=16, addr=0x4040, **shape), wrong], 0)
        chip.launch(1)
        chip.write("RING_TAIL", 3)
        chip.wait(200_000)


def first_stop(path: Path, fault: dict) -> str:
    """What stops the model."""
    try:
        if "memory" in fault:
            many(path, fault["memory"])
        else:
            pair = Pair("tiny", path=path)
            for at in range(0, PROGRAMS, BATCH):
                try:
                    pair.batch(range(at, at + BATCH))
                except Difference as difference:
                    if "ssert" in str(difference):
                        return str(difference)
                    pair = Pair("tiny", path=path)  # wrong, but not yet asserted
    except TransportError as error:
        return str(error)
    return f"nothing in {PROGRAMS} programs"


def test_there_is_a_fault_for_each_assertion():
    listed = {f"{module}.{label}" for module, found in plan.labels().items() for label in found["a"]}
    named = [fault["assertion"] for fault in FAULTS]
    assert len(named) == len(set(named)) and set(named) | WITHOUT == listed


@pytest.mark.parametrize("number", range(1, len(FAULTS) + 1), ids=[f["assertion"] for f in FAULTS])
def test_it_fails(number, libraries, monkeypatch):
    monkeypatch.setenv("PRESIL_MUTANT", str(number))
    fault = FAULTS[number - 1]
    said = first_stop(libraries[number], fault)
    assert fault["assertion"].split(".")[1] in said and "ssert" in said, said
