# SPDX-License-Identifier: Apache-2.0
"""What fails below PyTorch leaves its bundle, too: programs, operators of the sweep, directed tests. Faults planted in
the RTL are named by their module, with waveform and picture; a bundle fails again as it did."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from oracle.layout import encode, to_bytes

from bench import kept
from bench.chip import Chip, library
from planted import bench as planted

from .conftest import CLI

BUGS = {bug.name: bug for bug, _ in planted.bugs()}
# Case, bug, what presil-replay says of each launch of the bundle with the bug.
FOUND = [
    ("smoke/programs", "address generator at a tile edge", ["mismatch"]),
    ("smoke/programs", "reset that misses a counter", ["pass", "pass"]),  # one before it; the difference is a counter
    ("smoke/sweep", "address generator at a tile edge", ["mismatch"]),
    ("ops/directed", "token too early", ["mismatch"]),
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
    words = [sys.executable, CLI, "regress", case, "--runs", tmp_path, "-j", "1"]
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
        to_bytes(encode("LOAD", **step, addr_lo=0x2000, row_bytes=4, signal=1)),
        to_bytes(encode("STORE", **{**step, "addr_lo": 0x3000, "wait": 1, **broken})),
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


def test_what_reaches_outside_of_memory_has_no_bundle(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PRESIL_CAPTURE_FAILURES", str(tmp_path))
    with Chip(library("tiny")) as chip:
        kept.keep(chip, descriptors(addr_hi=0x7F), [], 1 << 26, "far")
    assert "no bundle of far" in capfd.readouterr().out and not list(tmp_path.iterdir())
