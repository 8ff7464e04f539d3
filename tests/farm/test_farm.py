# SPDX-License-Identifier: Apache-2.0
"""presil regress --farm: the same outcomes as here, whichever worker or client dies; artifacts once a machine; the
farm as it was afterwards."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest

from regress.test_runner import ENDS
from torch_presil.regress import exit_codes

from .conftest import HERE, Cluster, cases_below, lines, wait_for

MODELS = HERE.parent / "regress" / "models.py"


def outcomes(place) -> dict:
    return {r["key"]: (r["status"], r["seed"], r.get("unit"), r["signature"]) for r in place.last.records()}


def test_every_end_is_as_here(place, cluster):
    place.suite("ends", {name: way for name, (way, _, _) in ENDS.items()})
    assert place.go("ends", farm=cluster.farm) == exit_codes.MISMATCH
    far = outcomes(place)
    assert all(r["host"] == os.uname().nodename for r in place.last.records())
    assert place.go("ends", jobs=4) == exit_codes.MISMATCH
    assert far == outcomes(place) and {status for status, *_ in far.values()} == {s for _, s, _ in ENDS.values()}


def test_reports_and_files_come_back(place, cluster):
    place.suite("one", {"bundle": "bundle", "unit": "unit", "moved": "cycles"})
    junit = place.folder / "j.xml"
    assert place.go("one", farm=cluster.farm, junit=str(junit)) == 1
    found = place.found()
    (link,) = found["bundle"]["bundles"]
    assert (place.last.path / link).read_bytes() == b"PRESILB\n"
    assert "first difference" in found["unit"]["message"] and found["moved"]["cycles"] == 100
    assert "seed" in (place.last.path / found["unit"]["log"]).read_text()
    text = junit.read_text()
    assert 'name="host"' in text and "store" in text and (place.last.path / "report.html").exists()


def test_what_a_case_is_told_is_of_the_worker(place, cluster):
    place.suite("one", {"case": ("environment", 'env = { MINE = "1" }')})
    assert place.go("one", farm=cluster.farm, chips=["tiny"], builds=["check"]) == 0
    told = json.loads((place.last.path / place.found()["case"]["log"]).read_text().splitlines()[-1])
    assert told["MINE"] == "1" and told["PRESIL_BUILD"] == "check"
    for name in ("PRESIL_BUILD_DIR", "PRESIL_REGRESS_DIR", "PRESIL_REGRESS_RESULT", "PYTHONPATH"):
        assert told[name].startswith(str(cluster.cache)), name


def test_local_survives_a_killed_worker(place, monkeypatch, tmp_path):
    """Two workers, of which one dies in mid-run with the case that it has."""
    monkeypatch.setenv("FAKE_SECONDS", "1.5")
    monkeypatch.setenv("PRESIL_FARM_CACHE", str(tmp_path / "cache"))
    place.suite("slow", {"case": ("slow", "reseed = 6")})
    runner = place.start("slow", "--farm", "local", "-j", "2", start_new_session=True)
    wait_for(lambda: len(set(cases_below(tmp_path / "cache").values())) == 2)
    case, worker = sorted(cases_below(tmp_path / "cache").items())[0]
    os.kill(worker, signal.SIGKILL)
    out, _ = runner.communicate(timeout=200)
    assert runner.returncode == 0, out
    assert [r["status"] for r in place.last.records()] == ["passed"] * 6, out
    assert not cases_below(tmp_path / "cache")


def command_case(place, suite: str, words: str) -> None:
    (place.folder / f"{suite}.toml").write_text(f'[case.one]\nkind = "command"\ncommand = {words}\n')


def test_a_case_that_ends_its_workers_is_given_up(place, cluster):
    """By itself: what is on a worker that dies is a suspect, too (two deaths here, four as dask is set up)."""
    command_case(place, "killer", '["sh", "-c", "kill -9 $PPID"]')
    assert place.go("killer", farm=cluster.farm) == exit_codes.INTERNAL
    record = place.found()["one"]
    assert record["status"] == "infrastructure" and "workers died" in record["message"]
    command_case(place, "illegal", '["sh", "-c", "kill -ILL $$"]')
    assert place.go("illegal", farm=cluster.farm) == exit_codes.INTERNAL
    record = place.found()["one"]
    assert record["status"] == "infrastructure" and "another processor" in record["message"]


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_ctrl_c_leaves_the_farm_usable(place, cluster, number, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "0.8")
    place.suite("slow", {"bad": "exit1", "case": ("slow", "reseed = 4"), "long": "hang"})
    runner = place.start("slow", "--farm", cluster.farm, start_new_session=True)
    wait_for(lambda: len(lines(place)) >= 2)
    os.killpg(runner.pid, number)
    out, _ = runner.communicate(timeout=100)
    assert runner.returncode == 130, out
    assert "--resume" in out and cluster.farm in out and "not run" in out
    wait_for(lambda: not cases_below(cluster.cache), 10)
    place.suite("next", {"good": "passes"})
    assert place.go("next", farm=cluster.farm) == 0


@pytest.mark.parametrize("early", [False, True], ids=["while-cases-run", "while-the-farm-starts"])
def test_ctrl_c_to_all_processes_of_a_farm_here_ends_with_one_summary(early, place, tmp_path, monkeypatch):
    """A terminal sends it to the workers, too: it is the client that ends them."""
    monkeypatch.setenv("PRESIL_FARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_SECONDS", "0.8")
    place.suite("slow", {"case": ("slow", "reseed = 6"), "long": "hang"})
    runner = place.start("slow", "--farm", "local", "-j", "2", start_new_session=True)
    wait_for(lambda: others_of(runner.pid) if early else len(lines(place)) >= 1)
    os.killpg(runner.pid, signal.SIGINT)
    out, _ = runner.communicate(timeout=100)
    assert runner.returncode == 130 and "Traceback" not in out and "Error" not in out, out
    assert early or out.count("not run;") == out.count("--resume") == 1, out
    wait_for(lambda: not others_of(runner.pid) and not cases_below(tmp_path / "cache"), 20)


def others_of(group: int) -> list[int]:
    """Processes of a process group but its leader."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z" and int(entry.parent.name) != group:
                found.append(int(entry.parent.name))
    return found


def test_resume_after_the_client_was_killed(place, cluster, monkeypatch):
    """What it had sent is ended by the workers; what has a record is not run again."""
    monkeypatch.setenv("FAKE_SECONDS", "0.8")
    place.suite("slow", {"case": ("slow", "reseed = 5"), "long": ("hang", "timeout_seconds = 250")})
    runner = place.start("slow", "--farm", cluster.farm, start_new_session=True)
    wait_for(lambda: len(lines(place)) >= 2 and cases_below(cluster.cache))
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    killed, before = time.time(), len(lines(place))
    wait_for(lambda: not cases_below(cluster.cache), 60)
    plan = place.last.plan
    plan["jobs"] = [{**job, "timeout_seconds": 1} if job["case_name"] == "long" else job for job in plan["jobs"]]
    (place.last.path / "run.json").write_text(json.dumps(plan))
    assert place.go(resume=True, farm=cluster.farm) == exit_codes.INTERNAL
    records = place.last.records()
    assert sorted(r["status"] for r in records) == ["infrastructure"] + ["passed"] * 5
    assert sum(r["started"] < killed for r in records) >= before


def test_layers_are_made_there_and_kept_here(place, cluster, monkeypatch):
    """The bundle that a worker made comes here; the next time it goes there, once for both workers."""
    monkeypatch.setenv("PRESIL_REGRESS_BUNDLES", str(place.folder.parent / "bundles"))
    (place.folder / "nets.toml").write_text(
        f'[case.net]\nkind = "layers"\nmodel = "{MODELS}:small_cnn"\nchips = ["tiny"]\nreseed = 1\n'
    )
    assert place.go("nets", farm=cluster.farm) == 0, place.printed
    first = place.found()["net"]
    (bundle,) = Path(place.folder.parent / "bundles").glob("*.presil")
    assert first["cycles"] > 0 and first["checks"] > 0
    assert place.go("nets", farm=cluster.farm, chips=["tiny"], memory=["default", "ideal"]) == 0, place.printed
    again = [r for r in place.last.records() if r["memory"] == ""]
    assert again[0]["cycles"] == first["cycles"] and len(place.last.records()) == 2
    assert place.go("nets") == 0 and place.found()["net"]["cycles"] == first["cycles"]


def test_artifacts_are_fetched_once_a_machine(place, cluster, tmp_path):
    place.suite("two", {"case": ("slow", "reseed = 6")})
    assert place.go("two", farm=cluster.farm) == 0
    before = cluster.served()
    assert before and set(before.values()) == {1}, before
    library = tmp_path / "libpresil_sim_tiny_fast.so"
    library.write_bytes((Path(os.environ["PRESIL_BUILD_DIR"]) / "lib" / library.name).read_bytes() + b"other RTL")
    assert place.go("two", farm=cluster.farm, library=str(library)) == 0
    new = {digest: count for digest, count in cluster.served().items() if digest not in before}
    assert list(new.values()) == [1], "the other library, and nothing else"
    assert place.go("two", farm=cluster.farm) == 0 and sum(cluster.served().values()) == len(before) + 1


def test_a_worker_whose_disk_is_full_leaves_the_work_to_others(place, tmp_path, monkeypatch):
    """Files of one worker end at 64 KB: its first artifact does not fit."""
    small = Cluster(tmp_path / "small", "1", PRESIL_TEST_FILE_LIMIT="65536")
    try:
        monkeypatch.setenv("PRESIL_FARM_PATIENCE", "2")
        place.suite("one", {"case": ("passes", "reseed = 2")})
        assert place.go("one", farm=small.farm) == exit_codes.INTERNAL
        assert "File too large" in place.printed and "MB are free" in place.printed and "2 not run" in place.printed
        assert "--resume" in place.printed
    finally:
        small.end()
    assert place.go(resume=True) == 0 and len(place.last.records()) == 2


def test_beside_a_worker_whose_disk_is_full_all_is_run(place, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "1")
    two = Cluster(tmp_path / "two", "2", PRESIL_TEST_FILE_LIMIT="65536", PRESIL_TEST_LIMITED="1")
    try:
        place.suite("one", {"case": ("slow", "reseed = 6")})
        assert place.go("one", farm=two.farm) == 0, place.printed
        assert [r["status"] for r in place.last.records()] == ["passed"] * 6
        assert place.printed.count("is left out") == 1 and "File too large" in place.printed, place.printed
    finally:
        two.end()
