# SPDX-License-Identifier: Apache-2.0
"""Bundles: from a launch that failed to its waveform, its difference, and why it hangs. On `tiny`."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from bundle import Bundle
from tiny_bundles import with_difference, with_wrong_byte
from stub_waves import BUILD, ROOT, VIEW
from waves import replay
from waves.trace import Trace, WavesError
from waves.view import find


def cycles_of(bundle, launch: int) -> int:
    with Bundle(bundle) as file:
        return file.results_of(file.launch(launch))[0].cycles


def markers(path) -> list:
    """Their times in a save file for GTKWave, in order."""
    (zoom,) = re.findall(r"^\*(.*)$", path.read_text(), re.M)
    return [int(float(t)) for t in zoom.split()[2:] if float(t) >= 0]


@pytest.fixture
def wrong(captured, tmp_path):
    """(bundle, the bytes that the RTL writes where the bundle has others)"""
    return with_wrong_byte(captured / "good.presil", tmp_path / "wrong.presil", 1, 200)


@pytest.fixture
def begin(wrong, monkeypatch):
    """The cycle 33 before that in which they are written."""
    monkeypatch.setenv("PRESIL_BUILD_DIR", str(BUILD))
    (launch,) = replay.run(replay.choose(wrong[0], 1), quiet=True)["launches"]
    return launch["difference"]["cycle"] - 33


def written_at(trace: Trace, time: int) -> bytes | None:
    """The beat on the bus that the edge at `time` takes."""
    data, valid, ready = (trace.signal(f"{find(trace).root}.m_axi_w{n}") for n in ("data", "valid", "ready"))
    if valid.at(time - 1) & ready.at(time - 1) == 0:
        return None
    return data.at(time - 1).to_bytes(data.width // 8, "little")


def test_the_marker_is_on_the_wrong_beat(wrong, waves, tmp_path):
    path, word = wrong
    done = waves(path, "--launch", 1, "--json", "r.json")
    assert "mismatch" in done.text and "wrong-1.fst" in done.text
    result = json.loads((tmp_path / "r.json").read_text())
    assert (
        result["launch"] == 1 and result["cycles"] == cycles_of(path, 1) and result["replay"]["outcome"] == "mismatch"
    )
    trace = Trace(tmp_path / "wrong-1.fst")
    doorbell, difference = markers(tmp_path / "wrong-1.gtkw")
    assert word in written_at(trace, difference)
    assert difference == doorbell + 1000 * result["marks"]["first difference"]
    commands = (tmp_path / "wrong-1.sucl").read_text().splitlines()
    assert f"marker_set first_difference {difference}" in commands


def test_a_window_has_the_same_cycles(wrong, begin, waves, tmp_path):
    path, word = wrong
    waves(path, "--launch", 1)
    whole = markers(tmp_path / "wrong-1.gtkw")
    waves(path, "--launch", 1, "--window", f"{begin}:{begin + 50}", "--json", "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    trace = Trace(tmp_path / "wrong-1.fst")
    clock = trace.signal(f"{find(trace).root}.clk")
    assert clock.times[0] == whole[0] + 1000 * begin and clock.times[-1] < whole[0] + 1000 * (begin + 52)
    assert list(result["marks"]) == ["first difference"], "the doorbell is not in it"
    assert markers(tmp_path / "wrong-1.gtkw") == whole[1:] and word in written_at(trace, whole[1])
    waves(path, "--launch", 1, "--window", f"{begin}:{begin + 50}", "--svg", "p.svg")
    (last,) = re.findall(rf"cycles {begin} to (\d+)<", (tmp_path / "p.svg").read_text())
    assert begin + 49 <= int(last) <= begin + 51


def test_the_launch_that_failed_is_chosen(captured, waves, tmp_path):
    path = with_difference(captured / "good.presil", tmp_path / "fixed.presil", 1, 700)
    waves(path, "--json", "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["launch"] == 1 and result["replay"]["outcome"] == "pass"
    assert result["marks"] == {"doorbell": 0, "first difference": 700}, "this run has none: the recorded one"
    unknown = with_difference(captured / "good.presil", tmp_path / "unknown.presil", 1, 2**64 - 1)
    assert replay.choose(unknown, None).cycle is None and replay.choose(unknown, None).number == 1
    assert replay.choose(captured / "good.presil", None).number == 0
    assert replay.choose(captured / "hung.presil", None).status < 0


def test_a_launch_that_hangs_has_a_waveform(captured, waves, tmp_path):
    shutil.copy(captured / "hung.presil", tmp_path)
    assert "hung" in waves("hung.presil").text
    assert (tmp_path / "hung-0.gtkw").exists() and Trace(tmp_path / "hung-0.fst").variables


def test_a_trace_without_a_doorbell(wrong, begin, waves, tmp_path):
    path, _ = wrong
    waves(path, "--launch", 1, "--window", f"{begin}:{begin + 50}", "--out", "bundle")
    waves(path, "--launch", 0, "--window", f"{begin}:{begin + 50}")
    done = waves("wrong-1.fst", "--mark", "here=33", "--json", "r.json")
    note = "wrong-1.fst: u_command.busy never rises: cycles count from the beginning of the trace"
    assert note in done.text and done.stdout.count("\n") == 3
    (difference,) = markers(tmp_path / "bundle.gtkw")
    assert markers(tmp_path / "wrong-1.gtkw") == [difference], "cycle 33 of the trace"


def test_traces_without_a_doorbell_are_compared_from_their_beginning(wrong, begin, waves, tmp_path):
    path, _ = wrong
    for launch in (0, 1):
        waves(path, "--launch", launch, "--window", f"{begin}:{begin + 50}")
    done = waves("wrong-1.fst", "--against", "wrong-0.fst", "--json", "r.json", "--top-n", 5000, status=1)
    assert "cycles count from the beginning of each trace" in done.text
    result = json.loads((tmp_path / "r.json").read_text())
    (cycle,) = (row["cycle"] for row in result["first"] if "m_axi_wdata" in (row["signal"], *row["aliases"]))
    assert 0 < cycle < 33, "the first beat that is another goes before the wrong one"
    replay.trace(replay.choose(path, 1), tmp_path / "whole.fst", None)
    text = waves("wrong-1.fst", "--against", "whole.fst", status=2).text
    assert "wrong-1.fst: u_command.busy never rises, in whole.fst it does" in text


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["good.presil", "--launch", "2"], "has 2 launches, counted from 0: --launch 2 is none"),
        (["good.presil", "--launch", "-1"], "--launch -1 is none"),
        (["good.presil", "--window", "50000:60000"], r"is empty, since the last launch ends in cycle \d{4}: choose"),
        (["good.presil", "--window", "-5:9"], "--window -5:9: A:B expected"),
        (["torn.presil"], "is no bundle|is damaged|has 0 launches"),
        (["other.toml", "--launch", "0"], "--launch is of a bundle, other.toml is none"),
    ],
)
def test_errors_of_bundles(captured, waves, tmp_path, arguments, text):
    shutil.copy(captured / "good.presil", tmp_path)
    (tmp_path / "torn.presil").write_bytes((tmp_path / "good.presil").read_bytes()[:50])
    shutil.copy(VIEW, tmp_path / "other.toml")
    done = waves(*arguments, status=2)
    assert re.search(text, done.text) and "Traceback" not in done.text, done.text


def test_the_start_script_is_told_the_configurations(captured, tmp_path):
    def said(path):
        command = [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / "waves" / "configs.py"), str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    (tmp_path / "torn.presil").write_bytes((captured / "good.presil").read_bytes()[:50])
    assert said(captured / "good.presil") == "tiny\n"
    assert said(tmp_path / "torn.presil").strip() == "" and said(tmp_path / "missing.presil") == ""


def test_without_the_trace_library_the_tool_says_what_to_build(captured, waves, tmp_path):
    shutil.copy(captured / "good.presil", tmp_path)
    (tmp_path / "b" / "bin").mkdir(parents=True)
    (tmp_path / "b" / "lib").mkdir()
    shutil.copy(BUILD / "bin" / "presil-replay", tmp_path / "b" / "bin")
    for library in (BUILD / "lib").glob("libpresil.so*"):
        shutil.copy(library, tmp_path / "b" / "lib")
    done = waves("good.presil", status=2, PRESIL_BUILD_DIR=str(tmp_path / "b"), PRESIL_LIBRARY_PATH="")
    assert "cmake target presil_sim_tiny_trace" in done.text


def test_without_presil_replay(monkeypatch, tmp_path):
    monkeypatch.setattr(replay, "SOURCE_TREE", tmp_path)
    monkeypatch.setattr(replay, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PRESIL_LIBRARY_PATH", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PRESIL_BUILD_DIR", str(tmp_path))
    with pytest.raises(WavesError, match="presil-replay is neither in PRESIL_BUILD_DIR.*./presil build makes it"):
        replay.program("tiny")
    (tmp_path / "package" / "bin").mkdir(parents=True)
    (tmp_path / "package" / "bin" / "presil-replay").touch(0o755)
    assert replay.program("tiny") == f"{tmp_path}/package/bin/presil-replay", "of an installed package"
    (tmp_path / "build" / "one" / "bin").mkdir(parents=True)
    (tmp_path / "build" / "two" / "lib").mkdir(parents=True)
    (tmp_path / "build" / "two" / "bin").mkdir()
    for name in ("one", "two"):
        tool = tmp_path / "build" / name / "bin" / "presil-replay"
        tool.touch(0o755)
    assert replay.program("tiny").split("/")[-3] == "one"
    (tmp_path / "build" / "two" / "lib" / "libpresil_sim_tiny_trace.so").touch()
    assert replay.program("tiny").split("/")[-3] == "two"


def test_why_has_the_whole_answer(captured, why, tmp_path):
    done = why(captured / "hung.presil", "--json", "w.json", status=3)
    lines = done.stdout.splitlines()
    assert lines[0].endswith("no progress for 3000 cycles: hung") and lines[0].startswith("launch 0: ")
    with Bundle(captured / "hung.presil") as bundle:
        (recorded,) = bundle.results()
    rows = [line.removeprefix("  ") for line in lines[1:]]
    # The error's text when it was captured has names and places around it.
    assert "; ".join(rows) in recorded.error
    assert rows[-1].startswith("oldest open: read of 0x") and any("it never answers" in row for row in rows)
    assert json.loads((tmp_path / "w.json").read_text())["exit"] == 3


def test_why_a_launch_that_does_not_hang(captured, wrong, why):
    done = why(captured / "good.presil", "--launch", 1)
    cycles = cycles_of(wrong[0], 1)
    assert done.stdout == f"launch 1: not hung: {cycles} cycles, as recorded\n"
    done = why(wrong[0], "--launch", 1, status=1)
    assert done.stdout == f"launch 1: not hung: {cycles} cycles, as recorded; other bits than expected\n"
    assert "a bundle was expected" in why(VIEW, status=2).text
