# SPDX-License-Identifier: Apache-2.0
"""What a simulator library writes of its coverage: the build `check`, which has the covers of rtl/."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench.chip import Chip, TransportError, library
from torch_presil.regress import coverage

HERE = Path(__file__).resolve().parent
KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from bench.rtl import Rtl
from oracle.layout import encode
rtl = Rtl("tiny", "check")
assert not rtl.launch([encode("NOP")]).code
print("launched", flush=True)
sys.stdin.read()
"""


def reached(folder: Path) -> list[set]:
    reader = coverage.Reader()
    return [coverage.covers(reader.read(path).items) for path in coverage.files(folder)]


def test_a_killed_process_leaves_what_it_had(tmp_path):
    environment = {**os.environ, "PRESIL_COVERAGE": str(tmp_path / "coverage")}
    environment.pop("PRESIL_TEST_BUILD", None)
    command = [sys.executable, "-c", KILLED, str(HERE.parent)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"launched\n"
        process.send_signal(signal.SIGKILL)
    (found,) = reached(tmp_path)
    assert "presil_command.c_nop" in found
    assert "presil_top.c_load_matrix" not in found


def test_each_transport_has_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PRESIL_COVERAGE", str(tmp_path / "coverage"))
    path = library("tiny", "check")
    with Chip(path) as one, Chip(path) as two:
        one.read("STATUS")
        two.reset()
    assert [p.name for p in coverage.files(tmp_path)] == ["coverage.1", "coverage.2"]
    assert len(list(tmp_path.glob("coverage.points-*"))) == 1


def test_a_path_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PRESIL_COVERAGE", str(tmp_path / "none" / "coverage"))
    with pytest.raises(TransportError, match="none/coverage.points-.* can't be written: No such file"):
        Chip(library("tiny", "check"))


def test_a_full_disk_ends_coverage_and_nothing_else(tmp_path, monkeypatch):
    """/dev/full behind the file: every launch is as before."""
    from bench.rtl import Rtl
    from oracle.layout import encode

    monkeypatch.setenv("PRESIL_COVERAGE", str(tmp_path / "coverage"))
    rtl = Rtl("tiny", "check")
    number = next(
        n for n in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{n}").endswith("coverage.1")
    )
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, int(number))
    os.close(full)
    for _ in range(3):
        assert not rtl.launch([encode("NOP")]).code
    rtl.chip.close()
    assert len(reached(tmp_path)) == 1
