# SPDX-License-Identifier: Apache-2.0
"""Every way in which a case can end, next to others that it must not touch; kill -9 of the runner, Ctrl-C, and going
on."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from .conftest import alive
from torch_presil.regress import exit_codes, failing_launch, history, outcome, records
from torch_presil.regress.run_list import Choice, Job, expand
from torch_presil.regress.suite import Loader

ENDS = {
    "passes": ("passes", "passed", 0),
    "mismatch": ("exit1", "failed", 1),
    "wrong-call": ("exit2", "unusable", 2),
    "hung": ("exit3", "hung", 3),
    "internal": ("exit4", "error", 4),
    "moved": ("exit5", "cycles", 5),
    "skipped": ("exit77", "skipped", 77),
    "unknown-code": ("exit9", "failed", 1),
    "crash": ("crash", "crashed", 4),
    "shell-crash": ("exit139", "crashed", 4),
    "assertion": ("assertion", "crashed", 4),
    "killed": ("killed", "infrastructure", 4),
    "shell-killed": ("exit137", "infrastructure", 4),
    "full": ("full", "infrastructure", 4),
    "compares-nothing": ("nothing", "failed", 1),
    "cycles-limit": (("timeout", "timeout_cycles = 999"), "hung", 3),
    "cycles-in-time": (("timeout", "timeout_cycles = 1000"), "passed", 0),
    "wall": (("hang", "timeout_seconds = 1"), "infrastructure", 4),
    "stubborn": (("stubborn", "timeout_seconds = 1"), "infrastructure", 4),
    "torn-result": ("torn", "passed", 0),
}


def test_a_relative_python_path_leads_where_it_did(place, monkeypatch):
    """A case has a folder of its own to run in."""
    monkeypatch.chdir(place.folder.parent)
    monkeypatch.setenv("PYTHONPATH", f"{place.folder.name}/own:{os.environ['PYTHONPATH']}")
    (place.folder / "own").mkdir()
    (place.folder / "own" / "here.py").write_text("")
    words = '["{python}", "-c", "import here, torch_presil"]'
    (place.folder / "one.toml").write_text(f'[case.one]\nkind = "command"\ndirectory = "/"\ncommand = {words}\n')
    assert place.go("one") == 0, place.found()["one"]["message"]


def test_every_end_is_told_apart_and_touches_no_other(place):
    place.suite("ends", {name: way for name, (way, _, _) in ENDS.items()})
    assert place.go("ends", jobs=4) == exit_codes.MISMATCH
    found = place.found()
    assert {name: r["status"] for name, r in found.items()} == {name: status for name, (_, status, _) in ENDS.items()}
    assert found["crash"]["message"].startswith("SIGSEGV")
    assert "p_no_overflow" in found["assertion"]["message"] and "SIGABRT" in found["assertion"]["message"]
    assert "timeout_seconds" in found["wall"]["message"] and found["wall"]["seconds"] < 100
    assert "1,000 simulated cycles" in found["cycles-limit"]["message"]


@pytest.mark.parametrize("name", ENDS)
def test_exit_code_of_a_run_with_one_end(place, name):
    way, _, code = ENDS[name]
    place.suite("one", {"case": way})
    assert place.go("one") == code


def test_a_system_without_git(place, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    place.suite("one", {"case": "passes"})
    assert place.go("one") == 0


def test_exit_code_is_the_gravest():
    assert exit_codes.exit_code(["passed", "cycles", "hung", "crashed", "failed"]) == 1
    assert exit_codes.exit_code(["passed", "cycles", "hung", "crashed"]) == 3
    assert exit_codes.exit_code(["passed", "cycles", "unusable", "infrastructure"]) == 4
    assert exit_codes.exit_code(["cycles", "unusable"]) == 2 and exit_codes.exit_code(["cycles", "skipped"]) == 5
    assert exit_codes.exit_code(["passed", "skipped"]) == 0 and exit_codes.exit_code(["skipped"]) == 77


def test_a_record_has_the_line_that_repeats_it(place):
    place.suite(
        "one", {"case": ("unit", 'stress = ["heavy"]\nmemory = ["ideal"]\nchips = ["odd"]\nbuilds = ["check"]')}
    )
    assert place.go("one", seed=5) == 1
    record = place.found()["case"]
    line, _, versions = record["again"].partition("  # ")
    words = line.split()
    assert words[:3] == ["./presil", "regress", "one/case"] and "torch" in versions and "presil" in versions
    for name, value in (("seed", record["seed"]), ("chip", "odd"), ("build", "check")):
        assert words[words.index("--case-seed" if name == "seed" else f"--{name}") + 1] == str(value)
    assert place.go("one/case", case_seed=record["seed"], chips=["odd"], builds=["check"], memory=["ideal"]) == 1
    assert place.found()["case"]["message"] == record["message"] and record["unit"] == "store"


def test_what_a_case_is_told(place):
    place.suite("one", {"case": ("environment", 'env = { MINE = "1" }\nthreads = 2\ntimeout_cycles = 7')})
    assert (
        place.go("one", chips=["odd"], builds=["check"], memory=["ideal"], stress=["heavy+commit=b"], case_seed=9) == 0
    )
    log = (place.last.path / place.found()["case"]["log"]).read_text()
    told = json.loads(log.splitlines()[-1])
    wanted = {
        "PRESIL_CHIP": "odd",
        "PRESIL_BUILD": "check",
        "PRESIL_MEMORY_MODEL": "ideal,pressure=heavy,commit=b",
        "PRESIL_SEED": "9",
        "PRESIL_CAPTURE_FAILURES": told["PRESIL_REGRESS_DIR"],
        "PRESIL_REGRESS_TIMEOUT_CYCLES": "7",
        "OMP_NUM_THREADS": "2",
        "MINE": "1",
    }
    assert {name: told[name] for name in wanted} == wanted


def test_a_case_leaves_no_process_behind(place):
    place.suite("one", {"case": "grandchild", "other": ("hang", "timeout_seconds = 1")})
    place.go("one")
    folder = Path(place.last.path / place.found()["case"]["log"]).parent
    assert not alive(int((folder / "child").read_text()))


def test_programs_that_are_missing_say_so(place):
    (place.folder / "one.toml").write_text(
        '[case.none]\nkind = "command"\ncommand = ["no-such-program-here"]\n'
        '[case.needs]\nkind = "command"\ncommand = ["true"]\nneeds = ["no-such-thing"]\n'
        '[case.module]\nkind = "command"\ncommand = ["true"]\nneeds = ["python:no_such_module"]\n'
        '[case.field]\nkind = "command"\ncommand = ["echo", "{nosuch}"]\n'
    )
    assert place.go("one") == exit_codes.USAGE
    found = place.found()
    assert {name: r["status"] for name, r in found.items()} == {
        "none": "unusable",
        "needs": "skipped",
        "module": "skipped",
        "field": "unusable",
    }
    assert "no-such-program-here" in found["none"]["message"] and "nosuch" in found["field"]["message"]


def test_a_program_lies_beside_its_suite(place):
    """Before one of that name on PATH; a file that can't be run is told apart from none."""
    for name, mode in (("true", 0o755), ("closed", 0o644)):
        (place.folder / name).write_text("#!/bin/sh\necho beside\nexit 77\n")
        (place.folder / name).chmod(mode)
    (place.folder / "one.toml").write_text(
        "".join(f'[case.{n}]\nkind = "command"\ncommand = ["{n}"]\n' for n in ("true", "closed"))
    )
    place.go("one")
    found = place.found()
    assert (found["true"]["status"], found["closed"]["status"]) == ("skipped", "unusable")
    assert "not executable" in found["closed"]["message"]


def test_bundles_are_run_by_presil_replay(place, monkeypatch, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    (place.folder / "one.toml").write_text('[case.b]\nkind = "bundle"\nfile = "x.presil"\n')
    (place.folder / "x.presil").write_bytes(b"PRESILB\n")
    monkeypatch.setenv("PRESIL_BUILD_DIR", str(tmp_path))
    if not any((Path(p) / "presil-replay").exists() for p in os.environ["PATH"].split(":")):
        assert place.go("one") == exit_codes.SKIP
        assert "presil-replay" in place.found()["b"]["message"]
    outcome = tmp_path / "outcome.json"
    replay = tools / "presil-replay"
    replay.write_text(
        f'#!/bin/sh\necho "$@"\nwhile [ "$1" != --json ]; do shift; done\n'
        f'cp {outcome} "$2"\nexit $(cat {outcome}.exit)\n'
    )
    replay.chmod(0o755)
    launch = {"label": "mm", "module": "fc", "outcome": "pass", "error": "", "cycles": 7, "recorded_cycles": 7}
    launch |= {"compared_bytes": 64, "difference": None}
    difference = {"where": "out[0, 3]", "address": 4660, "bytes": 2, "cycle": 5, "expected": 1, "found": 255}
    for code, status, rows, unit, message in (
        (0, "passed", [launch, launch], None, ""),
        (
            1,
            "failed",
            [launch, {**launch, "outcome": "mismatch", "difference": difference}],
            "fc",
            "out[0, 3], at 0x1234",
        ),
        (3, "hung", [{**launch, "outcome": "hung", "cycles": None, "error": "EHUNG: the reader waits"}], "fc", "EHUNG"),
        (5, "cycles", [{**launch, "outcome": "cycles changed", "cycles": 9, "module": ""}], "mm", "7 -> 9 cycles"),
    ):
        outcome.write_text(json.dumps({"chip": "x", "outcome": "…", "exit": code, "launches": rows}))
        outcome.with_name("outcome.json.exit").write_text(str(code))
        assert place.go("one", memory=["ideal"]) == code
        record = place.found()["b"]
        assert (record["status"], record.get("unit"), record["checks"]) == (status, unit, 64 * len(rows))
        assert message in record["message"]
    assert record["cycles"] == 9 and record["launches"] == {"mm": {"cycles": 9, "stalls": {}}}
    said = (place.last.path / record["log"]).read_text()
    assert "x.presil --json" in said and "--build fast --memory ideal --mode rtl" in said


def test_of_several_launches_the_first_of_the_gravest_is_told(tmp_path):
    """After a hang the hangs behind it may be its doing; a wrong bit is not, and it is what the exit status says."""
    row = {"compared_bytes": 64, "difference": None, "error": "", "cycles": 7, "recorded_cycles": 7, "module": ""}
    right, other = {**row, "label": "a", "outcome": "pass"}, {**row, "label": "b", "outcome": "cycles changed"}
    hangs = [{**row, "label": name, "outcome": "hung", "error": f"EHUNG: {name} waits"} for name in ("c", "d")]
    wrong = {**row, "label": "e", "outcome": "mismatch", "error": "EBUS: no such address"}
    for rows, unit, message in (
        ([right, right], None, None),
        ([right, other, *hangs], "c", "c: EHUNG: c waits"),
        ([right, other, *hangs, wrong], "e", "e: EBUS: no such address"),
        ([right, {**other, "cycles": 9}], "b", "b: 7 -> 9 cycles"),
    ):
        (tmp_path / "result.json").write_text(json.dumps({"launches": rows}))
        told = outcome.told_by(tmp_path)
        assert (told.get("unit"), told.get("message"), told["checks"]) == (unit, message, 64 * len(rows))


def test_it_is_said_which_of_several_failing_launches_is_looked_at(tmp_path):
    told = (("pass", 10), ("mismatch", 900), ("pass", 10), ("mismatch", 50))
    rows = [{"launch": n, "label": f"layer{n}", "outcome": o, "cycles": c} for n, (o, c) in enumerate(told)]
    (tmp_path / "result.json").write_text(json.dumps({"launches": rows}))
    said = "looked at in layer3, the shortest of 2 launches that are not as they should be"
    assert failing_launch.choice({"changes": []}, tmp_path) == said
    (tmp_path / "result.json").write_text(json.dumps({"launches": rows[:3]}))
    assert failing_launch.choice({"changes": []}, tmp_path) == ""


def test_as_many_at_once_as_asked(place):
    place.suite("slow", {"case": ("slow", "reseed = 6")})
    for jobs in (1, 2):
        assert place.go("slow", jobs=jobs) == 0
        records = place.last.records()
        spans = [(r["started"], r["started"] + r["seconds"] - 0.1) for r in records]  # (rounded; each takes 0.5 s)
        assert max(sum(a <= at < end for a, end in spans) for at, _ in spans) == jobs


def test_the_long_ones_begin_first_also_where_nothing_ran_before(place):
    place.suite("mixed", {"quick": "passes", "slow": "passes", "new": "passes"}, "[suite]\ndefaults = { reseed = 2 }\n")
    jobs = expand(Loader([place.folder]).load(["mixed"]), Choice(default_chip="base"))
    model = Job.from_dict({**jobs[0].as_dict(), "case_name": "model", "kind": "cosim"})
    earlier = {"mixed/quick[base,fast]#0": 1.0, "mixed/slow[tiny,fast]#0": 7.0, "mixed/slow[base,fast]#0": 3.0}
    order = [f"{job.case_name}{job.index}" for job in history.longest_first([*jobs, model], earlier)]
    assert order == ["model0", "new0", "new1", "slow1", "slow0", "quick0", "quick1"]


def test_a_terminal_shows_what_runs_and_how_far_it_is(place, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "0.8")
    place.suite("slow", {"case": ("slow", "reseed = 4")})
    assert place.go("slow") == 0  # so that the time left is known
    ours, its = pty.openpty()
    runner = subprocess.Popen(
        place.arguments("slow", "-j", "1"), stdout=its, stderr=its, env={**os.environ, "TERM": "xterm"}
    )
    os.close(its)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # its end is closed
            break
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert runner.wait() == 0 and re.search(r"1 of 4, 1 passed, 0:0\d, about 0:0\d left", text), text
    assert ": slow" in text and "running" in text and "passed         slow/case[base,fast]#3" in text


def test_most_failures(place):
    place.suite("many", {"case": ("exit1", "reseed = 6"), "good": "passes"})
    assert place.go("many", jobs=1, max_failures=2) == 1
    assert len(place.last.records()) == 2 and "--max-failures" in place.printed
    assert place.results()["presil"]["not_run"] == 5


def test_rerun_failed_takes_the_same_seeds(place):
    place.suite("many", {"bad": ("unit", "reseed = 2"), "good": "passes", "skip": "exit77"})
    assert place.go("many", seed=3) == 1
    first = {r["key"]: (r["seed"], r["message"]) for r in place.last.records() if r["case_name"] == "bad"}
    assert place.go(rerun_failed=True) == 1
    assert {r["key"]: (r["seed"], r["message"]) for r in place.last.records()} == first and len(first) == 2
    assert place.go(rerun_failed=True, builds=["check"]) == 1
    assert {r["build"] for r in place.last.records()} == {"check"}
    place.suite("many", {"good": "passes"})
    place.go("many")
    assert place.go(rerun_failed=True) == exit_codes.USAGE


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def lines(place) -> list:
    path = place.runs / "latest" / "records.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_resume_after_kill_of_the_runner(place, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "0.6")
    place.suite("slow", {"case": ("slow", "reseed = 6"), "left": "grandchild"})
    runner = place.start("slow", "-j", "1", start_new_session=True)
    wait_for(lambda: len(lines(place)) >= 2)
    running = time.time()
    runner.kill()
    runner.wait()
    before = lines(place)
    wait_for(lambda: not [p for p in marked(place) if alive(p)])
    with (place.runs / "latest" / "records.jsonl").open("a") as file:
        file.write('{"key": "slow/case[ba')  # and its last write was torn
    assert place.go(resume=True, jobs=2) == 0
    records = place.last.records()
    assert len(records) == 7 and {r["status"] for r in records} == {"passed"}
    kept = [r for r in records if r["started"] < running]
    assert len(kept) == len(before) and place.results()["passed"] == 7
    assert [json.loads(line) for line in lines(place)[: len(before)]] == [json.loads(line) for line in before]


def marked(place) -> list[int]:
    from torch_presil.regress import process

    return process.marked(str(place.runs), below=True)


def test_what_a_killed_runner_left_is_ended_by_resume(place):
    place.suite("one", {"case": "hang", "good": "passes"})
    runner = place.start("one", "-j", "2", start_new_session=True)
    wait_for(lambda: lines(place) and marked(place))
    folder = place.last.folder_of([job for job in place.last.jobs() if job.case_name == "case"][0])
    hung = marked(place)
    runner.kill()
    runner.wait()
    wait_for(lambda: not any(map(alive, hung)), 5)  # the hung case ended with the runner
    environment = {**os.environ, "PRESIL_REGRESS_DIR": str(folder)}
    orphan = subprocess.Popen(["sleep", "100"], env=environment, start_new_session=True)
    wait_for(lambda: orphan.pid in marked(place))
    place.suite("one", {"case": "passes"})
    jobs = place.last.plan
    jobs["jobs"] = [{**j, "timeout_seconds": 1} for j in jobs["jobs"]]
    (place.last.path / "run.json").write_text(json.dumps(jobs))
    place.go(resume=True)
    assert orphan.wait(10) == -signal.SIGKILL and "had left behind" in place.printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_with_a_summary_and_resume_goes_on(place, number, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "0.6")
    place.suite("slow", {"bad": "exit1", "case": ("slow", "reseed = 5")})
    runner = place.start("slow", "-j", "2", start_new_session=True)
    wait_for(lambda: len(lines(place)) >= 2)
    os.killpg(runner.pid, number)
    out, _ = runner.communicate(timeout=100)
    assert runner.returncode == 130, out
    assert "--resume" in out and "1 failed" in out and "not run" in out and "mismatch: expected 5" in out
    assert place.results()["presil"]["not_run"] >= 1 and not [p for p in marked(place) if alive(p)]
    assert place.go(resume=True) == 1
    assert len(place.last.records()) == 6


@pytest.mark.parametrize("others", [0, 3])
def test_ctrl_c_while_a_case_begins_ends_it(place, monkeypatch, others):
    """Where the runner has made the process, and not yet noted it; also with threads that take the signal."""
    from torch_presil.regress import process

    begin, begun = process.start, []

    def start(*args):
        begun.append(begin(*args))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # handlers of Python run between two of its instructions
        return begun[-1]

    monkeypatch.setattr(process, "start", start)
    monkeypatch.setenv("FAKE_SECONDS", "60")
    place.suite("slow", {"case": "slow"})
    over = threading.Event()
    threads = [threading.Thread(target=over.wait, daemon=True) for _ in range(others)]
    for thread in threads:
        thread.start()
    try:
        assert place.go("slow") == 130 and begun[0].poll() is not None
    finally:
        over.set()


def test_infrastructure_failures_are_tried_again_by_resume(place, tmp_path):
    flag = tmp_path / "flag"
    command = f'["sh", "-c", "test -e {flag} || {{{{ touch {flag}; kill -KILL $$; }}}}"]'
    (place.folder / "one.toml").write_text(f'[case.once]\nkind = "command"\ncommand = {command}\n')
    assert place.go("one") == exit_codes.INTERNAL
    assert place.go(resume=True) == 0
    assert [r["status"] for r in place.last.records()] == ["passed"]


HOLDER = """
import os, sys, time
from pathlib import Path
from torch_presil.regress.records import Run
run = Run(Path(sys.argv[1]))
run.lock()
left = os.fork() == 0 if sys.argv[2] == "child" else True
if left:
    print(os.getpid(), flush=True)
    time.sleep(60)
os._exit(0)
"""


def holder(place, which: str) -> tuple:
    """A process that locks the run, and the one that stays, it or a child of it."""
    words = [sys.executable, "-c", HOLDER, str(place.last.path), which]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def test_two_runners_do_not_share_a_run(place):
    place.suite("one", {"case": ("slow", "")})
    place.go("one")
    process, _ = holder(place, "runner")
    assert place.go(resume=True) == exit_codes.USAGE
    process.kill()
    process.wait()
    assert place.go(resume=True) == 0


def test_a_child_without_its_runner_holds_no_run(place):
    """As a case is in the moment in which it starts, when its runner is killed."""
    place.suite("one", {"case": ("slow", "")})
    place.go("one")
    process, child = holder(place, "child")
    process.wait()
    try:
        assert alive(child) and place.go(resume=True) == 0
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_full_disk_for_the_runner_is_no_end_of_the_run(place, monkeypatch):
    from torch_presil.regress import records

    place.suite("one", {"case": ("passes", "reseed = 3")})
    append, count = records.Run.append, []

    def full(self, record):
        count.append(1)
        if len(count) == 2:
            raise OSError(28, "No space left on device")
        append(self, record)

    monkeypatch.setattr(records.Run, "append", full)
    assert place.go("one", jobs=1) == exit_codes.INTERNAL
    monkeypatch.setattr(records.Run, "append", append)
    assert place.go(resume=True) == 0 and len(place.last.records()) == 3


def test_a_report_that_goes_into_a_pipe_leaves_the_pipe(tmp_path):
    """As root, /dev/null was a file afterwards."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        records.write_whole(pipe, "all of it")
        assert os.read(reader, 100) == b"all of it" and pipe.is_fifo()
    finally:
        os.close(reader)
    records.write_whole(tmp_path / "new" / "file", "x")
    assert (tmp_path / "new" / "file").read_text() == "x"
