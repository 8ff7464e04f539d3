# SPDX-License-Identifier: Apache-2.0
"""A launch that fails in another process leaves what it leaves in this one: the same text, the same bundle; and one
whose process died leaves a bundle, too, which replays."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", "build/check"))
SCRIPT = """
import contextlib, os, signal, sys, time, torch, torch_presil
from job_processes import processes, spent
B, P = torch.backends.presil, torch.presil
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Conv2d(8, 24, 3), torch.nn.ReLU()).to(torch.bfloat16).to("presil")
x = torch.randn(1, 8, 12, 12, dtype=torch.bfloat16).to("presil")
P.capture_failures(sys.argv[1])
jobs, fault = int(sys.argv[2]), sys.argv[3]
B.mode = "verify"
B.jobs = jobs
if fault == "kill":
    slow = torch.randn(256, 256, dtype=torch.bfloat16).to("presil")
    idle = {pid: spent(pid) for pid in processes()}
    (slow @ slow).cpu()
    while not any(spent(pid) > idle[pid] + 5 for pid in idle):  # one runs it; by its fault it never ends
        time.sleep(0.01)
    [os.kill(pid, signal.SIGKILL) for pid in processes()]
try:
    with P.inject(fault) if jobs == 1 else contextlib.nullcontext():
        if fault != "kill":
            model(x)
        P.synchronize()
    print("fine")
except torch.AcceleratorError as error:
    print(error)
"""


def run(folder: Path, jobs: int, fault: str, **more) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), str(jobs), fault],
        capture_output=True,
        text=True,
        timeout=200,
        env={
            **os.environ,
            "PYTHONPATH": f"{Path(__file__).parent}:{os.environ['PYTHONPATH']}",
            "PRESIL_BUILD": "check",
            **({"PRESIL_JOB_FAULT": "late=0" if fault == "kill" else fault} if jobs > 1 else {}),
            **more,
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kept(folder: Path, said: str) -> Path:
    (file,) = folder.iterdir()
    assert f"kept in {file}" in said, said
    return file


def dump(file: Path) -> list:
    done = subprocess.run(
        [BUILD / "bin" / "presil-bundle", "convert", file, "--contents"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [without_times(json.loads(line)) for line in done.stdout.splitlines()]


def without_times(value):
    """What is of this run: seconds, the file's own number, where records are."""
    if isinstance(value, dict):
        return {
            k: without_times(v)
            for k, v in value.items()
            if not re.search(r"_ns$|^id$|offset|^tag$|origin|^hash$|^headers$|^(raw|stored|file)_bytes$", k)
        }
    return [without_times(v) for v in value] if isinstance(value, list) else value


def replay(file: Path, *more) -> tuple:
    done = subprocess.run(
        [BUILD / "bin" / "presil-replay", file, "--json", "-", *more], capture_output=True, text=True, timeout=100
    )
    return done.returncode, done.stdout + done.stderr


# A bit of the first sum, between two of its blocks.
MISMATCH = "upset:u_half0.mem+30@460"


@pytest.mark.parametrize("fault", ["fatal@300", "late=0", MISMATCH])
def test_text_and_bundle_are_those_of_one_process(fault, tmp_path):
    more = {"PRESIL_WATCHDOG": "3000"} if fault == "late=0" else {}
    said = {jobs: run(tmp_path / str(jobs), jobs, fault, **more) for jobs in (1, 2)}
    files = {jobs: kept(tmp_path / str(jobs), said[jobs]) for jobs in (1, 2)}
    texts = [said[jobs].replace(str(files[jobs]), "FILE") for jobs in (1, 2)]
    assert texts[0] == texts[1] and ("RTL and model differ" in texts[0]) == (fault == MISMATCH), texts
    assert 'launched by File "<string>", line' in texts[0]
    assert dump(files[1]) == dump(files[2])
    if fault == MISMATCH:
        replayed = [replay(file, "--mode", "verify") for file in files.values()]
        assert [status for status, _ in replayed] == [0, 0], "the RTL is right without the fault"


def test_a_process_that_was_killed_leaves_a_bundle_that_replays(tmp_path):
    said = run(tmp_path / "failed", 2, "kill", PRESIL_WATCHDOG="1000000000000")
    assert "ended by signal 9" in said
    status, text = replay(kept(tmp_path / "failed", said))
    assert status == 0 and "equal" in text, text


THREADS = """
import sys, threading, torch, torch_presil
B, P = torch.backends.presil, torch.presil
x = torch.randn(16, 16, dtype=torch.bfloat16).to("presil")
B.mode, B.jobs = "verify", 2
end, wrong = threading.Event(), []

def again_and_again():
    while not end.is_set():
        try:
            P.capture_failures(sys.argv[1])
        except Exception as error:
            wrong.append(str(error))
            end.set()

thread = threading.Thread(target=again_and_again, daemon=True)
thread.start()
for jobs in (1, 2, 3) * 4:
    if end.is_set():
        break
    B.jobs = jobs
    x @ x
end.set()
thread.join()
P.synchronize()
print(wrong)
"""


def test_a_thread_captures_failures_while_another_gives_and_takes_the_jobs(tmp_path):
    """Between the end of one capture and the jobs' own end or beginning nobody may begin another: it would listen to
    jobs that are gone, or take the device's place from those that come."""
    done = subprocess.run(
        [sys.executable, "-c", THREADS, str(tmp_path)], capture_output=True, text=True, timeout=200, env=os.environ
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stdout + done.stderr
