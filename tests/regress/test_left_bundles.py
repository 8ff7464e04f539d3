# SPDX-License-Identifier: Apache-2.0
"""What fails below PyTorch leaves its bundle, too: programs, operators of the sweep, directed tests. Faults planted in
the RTL are named by their module, with waveform and picture; a bundle fails again as it did."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from oracle.layout import encode, to_bytes

from bench import kept
from bench.chip import Chip, library
from bench.compare import Pair
from bench.programs import BATCH, program
from planted import bench as planted

from .conftest import CLI

BUGS = {bug.name: bug for bug, _ in planted.bugs()}
# Case, bug, what presil-replay says of each launch of the bundle with the bug.
FOUND = [
    ("smoke/programs", "address generator at a tile edge", ["mismatch"]),
    ("smoke/programs", "reset that misses a counter", ["pass", "pass"]),  # one before it; the difference is a counter
    # A program that is refused as it should be: its counters alone are wrong, left over from the one before it.
    ("ops/programs --case-seed 2350345109", "reset that misses a counter", ["pass", "mismatch"]),
    ("smoke/sweep", "address generator at a tile edge", ["mismatch"]),
    ("ops/directed", "token too early", ["mismatch"]),
    ("ops/directed", "error code lost", ["mismatch"]),  # of bus errors, by reading outside of memory
]


@pytest.fixture(scope="module")
def mutants():
    return planted.library("tiny")


def replay(bundle: Path, *words) -> dict:
    told = bundle.with_suffix(".told")
    program = planted.BUILD / "bin" / "presil-replay"
    subprocess.run([program, bundle, "--json", told, *words], capture_output=True, timeout=200, check=False)
    return json.loads(told.read_text())


@pytest.mark.parametrize(
    ("case", "name", "outcomes"), FOUND, ids=[f"{row[0]}-{row[1].replace(' ', '-')}" for row in FOUND]
)
def test_a_planted_fault_is_named(case, name, outcomes, mutants, tmp_path, monkeypatch):
    bug = BUGS[name]
    monkeypatch.setenv("PRESIL_MUTANT", str(bug.number))
    words = [sys.executable, CLI, "regress", *case.split(), "--runs", tmp_path, "-j", "1", "--against", "none"]
    words += ["--library", mutants, "--good", planted.sound_library("tiny")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    first = planted.FIRST_LINE.search(done.stdout)
    assert first and first.group(2) in bug.units, done.stdout
    run = (tmp_path / "latest").resolve()
    (record,) = [r for r in map(json.loads, (run / "records.jsonl").read_text().splitlines()) if "evidence" in r]
    bundle, waveform, picture = (run / record[what][0] for what in ("bundles", "waveforms", "pictures"))
    assert waveform.stat().st_size > 1000 and "<svg" in picture.read_text()
    rows = replay(bundle, "--library", mutants)["launches"]
    assert [row["outcome"] for row in rows] == outcomes, rows
    if case == "ops/directed":
        assert re.search(r"^  test_\w+\[tiny.*: assert ", done.stdout, re.M), "the test and what it says"


def descriptors(**broken) -> list[bytes]:
    step = dict(n0=1, n1=1, n2=1, n3=1, chunk_bytes=4, word_bytes=4)
    return [
        to_bytes(encode("LOAD", **step, addr=0x2000, row_bytes=4, signal=1)),
        to_bytes(encode("STORE", **{**step, "addr": 0x3000, "wait": 1, **broken})),
    ]


@pytest.mark.parametrize(
    ("broken", "status"),
    [
        ({}, "OK"),
        ({"isa": 3}, "EDESC"),  # refused by decode
        ({"sp_base": 1 << 30}, "EDESC"),  # ends in an error of STORE
        ({"wait": 2}, "EHUNG"),  # for a token that nobody gives
    ],
)
def test_a_list_comes_to_the_same_again(broken, status, tmp_path, monkeypatch):
    """Kept of what a chip was given by its registers, however it ends."""
    monkeypatch.setenv("PRESIL_CAPTURE_FAILURES", str(tmp_path))
    with Chip(library("tiny")) as chip:
        chip.set_ring(0x10000, 4)
        chip.memory_write(0x2000, b"\x11\x22\x33\x44")
        for raw in ([to_bytes(encode("NOP"))], descriptors(**broken)):
            chip.write("IRQ_ENABLE", 1)
            chip.put(raw, chip.head)
            chip.head += len(raw)
            chip.write("RING_TAIL", chip.head)
            chip.wait(2000)
            if len(raw) == 1:
                chip.write("IRQ_CLEAR", 3)
        chip.write("RING_TAIL", chip.head + 17)  # too far: it would refuse it
        chip.given.keep("list")
    assert len(chip.given.raw) == 2
    bundle = tmp_path / "list.presil"
    (row,) = replay(bundle, "--build", "fast")["launches"]
    assert (row["status"], row["recorded_status"]) == (status, status), row


def test_a_bundle_says_which_build_it_was_recorded_with(tmp_path, monkeypatch):
    """Also where the simulator was named as a file; presil-replay --library says its build, too."""
    monkeypatch.setenv("PRESIL_CAPTURE_FAILURES", str(tmp_path))
    sound = planted.sound_library("tiny")
    with Chip(sound) as chip:
        kept.keep(chip, descriptors(), [], 1 << 26, "traced")
    bundle = tmp_path / "traced.presil"
    told = subprocess.run([planted.BUILD / "bin" / "presil-bundle", "info", bundle, "--json"], capture_output=True)
    assert json.loads(told.stdout)["chips"][0]["build"] == "trace"
    assert replay(bundle, "--library", library("tiny"))["build"] == "fast"
    assert replay(bundle, "--library", sound)["build"] == "trace"


def refused(chip, name: str, *raw: bytes, inject: str | None = None, ring: int | None = 4) -> dict:
    """The error of the commands on the chip, then what presil-replay says of the bundle that they left."""
    if ring:
        chip.set_ring(0x10000, ring)
    chip.inject(inject)
    chip.write("IRQ_ENABLE", 3)
    chip.put(list(raw), chip.head)
    chip.head += len(raw)
    chip.write("RING_TAIL", chip.head)
    chip.wait(5000)
    error = chip.error()
    assert chip.given.keep(name).startswith("kept in")
    (row,) = replay(Path(kept.folder()) / f"{name}.presil", "--build", "fast")["launches"]
    assert row["status"] == row["recorded_status"] == "EBUS" and "bus error" in row["error"], row
    return {"code": error.code, "index": error.index, "said": row["error"]}


OUTSIDE = {"addr": 0x7F_0000_3000}, {"addr": 0xFF_0000_0000}, {"addr": 0x0800_0000}


@pytest.mark.parametrize("outside", OUTSIDE, ids=lambda row: "-".join(f"{k}={v:x}" for k, v in row.items()))
def test_what_lies_outside_of_memory_is_refused_by_the_bus_again(outside, tmp_path, monkeypatch):
    monkeypatch.setenv("PRESIL_CAPTURE_FAILURES", str(tmp_path))
    with Chip(library("tiny")) as chip:
        told = refused(chip, "far", *descriptors(**outside))
        assert told["code"] == "WRITE_BUS" and "on a write" in told["said"] and "descriptor 1" in told["said"], told


def test_an_injected_bus_error_comes_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PRESIL_CAPTURE_FAILURES", str(tmp_path))
    with Chip(library("tiny")) as chip:
        told = refused(chip, "injected", *descriptors(), inject=f"slverr@{0x2000}")
        assert told["code"] == "READ_BUS" and "on a read" in told["said"] and "descriptor 0" in told["said"], told
        bisect = [planted.BUILD / "bin" / "presil-replay", tmp_path / "injected.presil", "--bisect"]
        done = subprocess.run(bisect, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 2 and "captured with a fault" in done.stderr
        chip.given.fault = "flip@8"
        assert chip.given.keep("flip").startswith("no bundle of flip: flip@8, which is of the test's own memory")


@pytest.mark.parametrize("before", [0, 3], ids=["at-the-ring's-begin", "over-its-end"])
def test_a_command_that_the_bus_refused_is_refused_again(before, tmp_path, monkeypatch):
    """Its place in the ring is that of the test's list, which begins anywhere; in the driver's a launch begins at 0."""
    monkeypatch.setenv("PRESIL_CAPTURE_FAILURES", str(tmp_path))
    with Chip(library("tiny")) as chip:
        chip.set_ring(0x10000, 2)
        nops = [to_bytes(encode("NOP"))]
        for _ in range(before):
            chip.put(nops, chip.head)
            chip.head += 1
            chip.write("RING_TAIL", chip.head)
            chip.wait(2000)
            chip.write("IRQ_CLEAR", 3)
        chip.given.over = True
        entry = 0x10000 + 128 * ((before + 1) % 4)
        first = chip.head
        told = refused(chip, "fetch", *descriptors(), *nops, inject=f"slverr@{entry + 20}", ring=None)
        assert (told["code"], told["index"]) == ("FETCH_BUS", first + 1), told
        assert "on a descriptor fetch (code 6) in descriptor 1 " in told["said"], told


def test_a_program_whose_fetch_fails_leaves_its_bundle(tmp_path, monkeypatch):
    config = "tiny"
    monkeypatch.setenv("PRESIL_CAPTURE_FAILURES", str(tmp_path))
    pair = Pair(config, "fast")
    number = next(n for n in itertools.count(BATCH) if (e := program(config, n).expected) and e.fetch)
    pair.start_batch()
    for n in range(number - number % BATCH, number + 1):  # so that its place in the ring is not the first
        pair.run(program(config, n))
    assert pair.keep(program(config, number)).startswith("kept in")
    rows = replay(tmp_path / f"program-{number}.presil", "--build", "fast")["launches"]
    at = program(config, number).expected.fetch[0]
    assert (
        rows[-1]["status"] == "EBUS" and f"on a descriptor fetch (code 6) in descriptor {at} " in rows[-1]["error"]
    ), rows


FAILING = """
import pytest
from bench.chip import Chip, library
from bench.compare import Pair
from bench.programs import BATCH, program

@pytest.fixture
def chip():
    with Chip(library("tiny")) as out:
        yield out

def test_it(chip):
    {lines}
"""
# What a test does last: the unit that its report has.
LOOKS = {
    "assert chip.read('CAP_BANK') == 5": "register CAP_BANK",
    "chip.wait(5); assert chip.error().index == 3, chip.state()": "registers ERROR_CODE to ERROR_ADDR_HI",
    "assert chip.counters()[1]['cycles'] == 7": "register COUNTER",
    "chip.read('ID'); assert chip.memory_read(0, 4) == 1": None,
    "chip.read('ID'); chip.close(); assert not 'closed'": None,
}


@pytest.mark.parametrize("lines", LOOKS)
def test_without_a_launch_the_registers_are_named(lines, tmp_path):
    (tmp_path / "test_one.py").write_text(FAILING.format(lines=lines))
    (tmp_path / "conftest.py").write_text("from bench.failing_test import pytest_runtest_makereport\n")
    told = {"PRESIL_CAPTURE_FAILURES": str(tmp_path), "PRESIL_REGRESS_RESULT": str(tmp_path / "result.json")}
    paths = os.pathsep.join([str(Path(kept.__file__).parents[1]), os.environ["PYTHONPATH"]])
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "test_one.py"],
        env={**os.environ, **told, "PYTHONPATH": paths},
        timeout=100,
        check=False,
    )
    result = json.loads((tmp_path / "result.json").read_text())
    assert result.get("unit") == LOOKS[lines], result
    why = "no chip of the test is open any more" if "close" in lines else "the test gave the chip no command"
    assert result["evidence"] == f"no bundle: {why}"


def test_a_sum_that_is_wrong_is_the_counters_doing():
    from .programs_case import unit_of

    assert unit_of("program 3 (tiny): counter cycles 1414, but 509 from doorbell to interrupt") == "register COUNTER"
    assert unit_of("program 3 (tiny): LOAD's causes add up to 12 of 13 cycles: [1]") == "register COUNTER"
    assert unit_of("program 3 (tiny): STORE has cycles of causes [3]: [1]") == "store"
    assert unit_of("program 3 (tiny): 2 bytes differ, the first at 0x80") is None
