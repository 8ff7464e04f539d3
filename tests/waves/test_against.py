# SPDX-License-Identifier: Apache-2.0
"""A bundle's launch on two simulators: which signals part first, and where. On `tiny`."""

import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stub_waves import BUILD, ROOT
from test_bundles import cycles_of
from waves import against, replay, search
from waves.trace import Trace, WavesError

OURS = BUILD / "lib" / "libpresil_sim_tiny_trace.so"


@pytest.fixture
def good(captured, tmp_path):
    return Path(shutil.copy(captured / "good.presil", tmp_path))


def test_equal_simulators_agree(good, waves, tmp_path):
    done = waves("good.presil", "--launch", 1, "--against", OURS, "--json", "r.json")
    assert "signals agree from the doorbell on" in done.text
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["traces"] == [] and result["compared"] > 1000 and result["build_seconds"] == 0
    assert [r["launches"][0]["cycles"] for r in result["replays"]] == [cycles_of(good, 1)] * 2
    assert not list(tmp_path.glob(".waves-*"))
    done = waves("good.presil", "--window", "100:200", "--against", OURS, "--json", "r.json")
    assert "signals agree from cycle 100 on" in done.text
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["traces"] == ["good-0.fst", "good-0-against.fst"] and result["compared"] > 1000


RIGHT = "row_first <= first && cb == 16'd0 && ky == 8'd0 && kx == 8'd0;"
WRONG = "row_first <= 1'b1;"  # each row begins its sum anew


def test_a_planted_fault_is_the_first_line(good, waves, tmp_path):
    """A folder of RTL is built; what parts first is what the fault changed, with both lines."""
    folder = tmp_path / "other"
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "rtl" / "presil_agen.sv"
    assert file.read_text().count(RIGHT) == 1
    file.write_text(file.read_text().replace(RIGHT, WRONG))
    done = waves("good.presil", "--launch", 1, "--against", folder, "--json", "r.json", "--top-n", 3, status=1)
    result = json.loads((tmp_path / "r.json").read_text())
    first = result["first"][0]
    assert first["signal"] == "u_matrix.u_agen.row_first" and sum(first["values"]) == 1, result["first"]
    assert {d["text"] for d in first["other_drivers"]} - {d["text"] for d in first["drivers"]} == {WRONG}
    (place,) = {d["place"] for d in first["other_drivers"] if d["text"] == WRONG}
    assert place.startswith("other/rtl/presil_agen.sv:") and "+ other/rtl/presil_agen.sv" in done.text
    assert "mismatch" in done.text
    assert result["modules"][0] == {"module": "u_matrix.u_agen", "cycle": first["cycle"], "signal": first["signal"]}
    assert all(row["signal"].rpartition(".")[0] == row["module"] for row in result["modules"])
    for path in result["traces"]:
        trace = Trace(tmp_path / path)
        assert len(trace.signal("presil_top.clk").times) < 4 * (search.STEP + search.BEFORE + search.BEHIND)
        assert (tmp_path / path).with_suffix(".gtkw").exists()
    again = waves("good.presil", "--launch", 1, "--against", folder, "--json", "r.json", status=1)
    assert (
        "built the simulator" not in again.text and json.loads((tmp_path / "r.json").read_text())["first"][0] == first
    )

    the_way_of_its_data(waves, folder, tmp_path)


def the_way_of_its_data(waves, folder, tmp_path):
    """On the same simulator, against the model alone: from the row of sums to the bus."""
    library = against.resolve(str(folder), "presil", "tiny", None, Console(file=io.StringIO())).library
    done = waves(
        "good.presil", "--launch", 1, "--way", "--json", "w.json", status=1, PRESIL_LIBRARY_PATH=library.parent
    )
    result = json.loads((tmp_path / "w.json").read_text())
    steps = result["way"]["way"]
    assert [step["memory"] for step in steps][0] == "accumulators half" and steps[-1]["memory"] == "output"
    assert result["way"]["name"].startswith("MATRIX, tile ") and "of " in done.text and "MATRIX, tile " in done.text
    assert result["marks"]["first difference"] == result["way"]["bus"]["cycle"]
    assert f"written in cycle {result['way']['bus']['cycle']}" in " ".join(done.text.replace("│", " ").split())


def test_the_way_where_nothing_is_wrong(good, waves, tmp_path):
    done = waves("good.presil", "--way", "--json", "w.json")
    assert "no command differs" in done.text
    assert json.loads((tmp_path / "w.json").read_text())["way"]["command"] is None
    assert "--way is of a bundle's launch" in waves("good.presil", "--way", "--against", OURS, status=2).text


@given(st.integers(1, 200_000), st.data())
def test_the_window_has_the_first_difference(last, data):
    """Whatever differs behind it, and agrees again."""
    cycles = data.draw(st.lists(st.integers(0, last - 1), max_size=4))
    asked = []

    def differs(low, high):
        assert 0 <= low < high <= last and high - low <= search.CHUNK
        asked.append(low)
        return any(low <= cycle < high for cycle in cycles)

    found = search.narrow(differs, last)
    assert (found is None) == (not cycles)
    if found:
        assert found[0] <= min(cycles) < found[1] and found[1] - found[0] <= search.STEP
    assert len(asked) <= last // search.CHUNK + 12


@pytest.mark.parametrize("last", [1, 512, 513, 16384, 40_000])
def test_no_cycle_is_lost_at_an_edge(last):
    """Halves of a window begin where the other ends."""
    for edge in range(0, last, 256):
        for cycle in {max(edge - 1, 0), edge, min(edge + 1, last - 1)}:
            low, high = search.narrow(lambda a, b: a <= cycle < b, last)
            assert low <= cycle < high <= last and high - low <= search.STEP


def test_a_waveform_is_told_by_its_signals_alone(good, tmp_path, monkeypatch):
    monkeypatch.setenv("PRESIL_BUILD_DIR", str(BUILD))
    one, other = (replay.choose(good, launch) for launch in (0, 1))
    for name, launch, window in (("a", one, "0:50"), ("b", one, "0:50"), ("c", one, "0:51"), ("d", other, "0:900")):
        replay.trace(launch, tmp_path / name, window, quiet=True)
    replay.trace(one, tmp_path / "e", "0:900", quiet=True)
    whole = (tmp_path / "b").read_bytes()
    (tmp_path / "b").write_bytes(whole[:215] + b"Xxx Yyy" + whole[222:])  # the date
    a, b, c, d, e = (search.body(tmp_path / name) for name in "abcde")
    assert a == b != c and d != e and len(a) > 1000


def test_a_commit_has_its_own_rtl(tmp_path):
    git = shutil.which("git")
    if not git:
        pytest.skip("git is not installed")
    here, rtl = tmp_path / "tree", tmp_path / "tree" / "rtl"
    rtl.mkdir(parents=True)

    def run(*words):
        identity = ["-c", "user.name=n", "-c", "user.email=e@x"]
        done = subprocess.run([git, *identity, *words], cwd=here, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "-q")
    for text in ("old", "new"):
        (rtl / "a.sv").write_text(text)
        (here / "b").write_text(text)
        run("add", ".")
        run("commit", "-q", "-m", text)
    (rtl / "a.sv").write_text("edited")
    for name, text in (("HEAD~1", "old"), ("HEAD", "new"), (run("rev-parse", "--short", "HEAD~1"), "old")):
        folder = against._commit(name, rtl, tmp_path / "places")
        assert folder.name == "rtl" and [p.name for p in folder.iterdir()] == ["a.sv"]
        assert (folder / "a.sv").read_text() == text
    with pytest.raises(WavesError, match="nowhere: neither a file, nor a folder, nor a commit of .*/rtl"):
        against._commit("nowhere", rtl, tmp_path / "places")


def test_rtl_that_cannot_be_built(tmp_path, monkeypatch):
    monkeypatch.setattr(against, "SOURCE_TREE", tmp_path)
    monkeypatch.setenv("PRESIL_CACHE", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "rtl", tmp_path / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rtl" / "configs.json").write_text("no JSON\n")
    console = Console(file=open(tmp_path / "said", "w"))
    with pytest.raises(WavesError, match=r"(?s)building the simulator of .* failed .*configure.log.*JSONDecodeError"):
        against.resolve(str(tmp_path), "presil", "tiny", None, console)
    with pytest.raises(WavesError, match="RTL of the chip other can't be built: no view says how"):
        against.resolve(str(tmp_path), "other", "tiny", None, console)
    (tmp_path / "text").write_text("no library")
    with pytest.raises(WavesError, match="a simulator library, a folder of RTL or a commit expected"):
        against.resolve(str(tmp_path / "text"), "presil", "tiny", None, console)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WavesError, match="needs git, which is not installed"):
        against.resolve("HEAD", "presil", "tiny", None, console)


def test_ctrl_c_while_building(good, tmp_path):
    """No compiler goes on, and nobody waits for a lock."""
    shutil.copytree(ROOT / "rtl", tmp_path / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rtl" / "presil_top.sv").open("a").write(f"// {tmp_path}\n")  # nobody has built this
    command = [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / "waves"), "good.presil", "--against", "rtl"]
    environment = {**os.environ, "PRESIL_BUILD_DIR": str(BUILD)}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        place = ROOT / "build" / "against" / f"tiny-{against._hash(tmp_path / 'rtl')}"
        deadline = time.monotonic() + 60
        while not (place / "build.log").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=100)[0]
        assert process.returncode == 130 and "interrupted" in said, said
        left = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(place).encode() in read(p)]
        assert not left, left
        with open(place / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(place, ignore_errors=True)


def read(path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def test_errors_of_the_command(good, waves, tmp_path):
    fast = BUILD / "lib" / "libpresil_sim_tiny_fast.so"
    done = waves("good.presil", "--against", fast, status=2)
    assert "in its build `trace` was expected (libpresil_sim_tiny_trace.so)" in done.text
    waves("good.presil", "--launch", 1)
    done = waves("good-1.fst", "--against", OURS, status=2)
    assert "a bundle and a simulator library, folder of RTL or commit, expected" in done.text
