# SPDX-License-Identifier: Apache-2.0
"""sim/systemc/examples: a platform of somebody's own, built with find_package(Presil COMPONENTS tlm); its memory
takes whole bursts through b_transport only."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from libraries import BUILD, ROOT, isa, library, speed


def built(source: Path, folder: Path) -> Path:
    for command in (
        ["cmake", "-S", source, "-B", folder, f"-DPresil_DIR={BUILD / 'cmake'}"],
        ["cmake", "--build", folder],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Path:
    return built(ROOT / "sim" / "systemc" / "examples", tmp_path_factory.mktemp("board")) / "board"


def run(board: Path, folder: Path, descriptors: list[bytes]) -> subprocess.CompletedProcess:
    (folder / "list").write_bytes(b"".join(descriptors))
    environment = {**os.environ, "PRESIL_LIBRARY_PATH": str(library("tiny", "systemc").parent)}
    return subprocess.run(
        [str(board), "tiny", str(folder / "list")], capture_output=True, text=True, timeout=60, env=environment
    )


def test_chip_beside_a_peripheral(board, tmp_path):
    word = isa.CONFIGS["tiny"]["word_bytes"]
    copy = [
        speed.load(isa, 0, 1, 0x4000, 0, 1, 64 // word, word),
        speed.descriptor(
            isa,
            "STORE",
            1,
            0,
            addr=0x8000,
            chunk_bytes=64,
            n0=1,
            n1=1,
            n2=1,
            n3=1,
            word_bytes=word,
            ds1=64,
            sp_base=0,
            sw=word,
            ss1=64,
        ),
    ]
    done = run(board, tmp_path, copy)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"copied (\w+), (\d+) reads and (\d+) writes\ntimer: 5\d\d\d ns", done.stdout)
    assert found and found[1] == "yes" and (int(found[2]), int(found[3])) == (2, 1)


def test_an_unaligned_store_leaves_its_neighbours(board, tmp_path):
    """Byte enables: 61 bytes from 0x8001 on can't be the 64 that the board compares."""
    word = isa.CONFIGS["tiny"]["word_bytes"]
    copy = [
        speed.load(isa, 0, 1, 0x4000, 0, 1, 64 // word, word),
        speed.descriptor(
            isa,
            "STORE",
            1,
            0,
            addr=0x8001,
            chunk_bytes=61,
            n0=1,
            n1=1,
            n2=1,
            n3=1,
            word_bytes=word,
            ds1=64,
            sp_base=0,
            sw=word,
            ss1=64,
        ),
    ]
    done = run(board, tmp_path, copy)
    assert done.returncode == 1 and "status 1 " in done.stdout and "copied no" in done.stdout, done.stdout + done.stderr


def test_a_memory_of_whole_bursts_serves_any_of_them(tmp_path):
    """whole/whole.cpp: narrow, unaligned, FIXED and WRAP bursts towards a target without beats."""
    program = built(Path(__file__).parent / "whole", tmp_path) / "whole"
    environment = {**os.environ, "PRESIL_LIBRARY_PATH": str(library("burst", "systemc").parent)}
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0 and done.stdout.startswith("390 bursts\n"), done.stdout[-1000:] + done.stderr[-1000:]
