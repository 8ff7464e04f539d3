# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around the processes: none of it may look like a launch that was compared, or last for ever. Each
case runs in a process of its own, where a hang is a failure."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

BEGIN = """
import os, resource, signal, subprocess, sys, threading, time, torch, torch_presil
from torch_presil import _C
from job_processes import processes
B, P = torch.backends.presil, torch.presil

def begin(n=64):
    B.mode, B.jobs = "verify", 2
    return torch.randn(n, n, dtype=torch.bfloat16).to("presil")

def end_processes():
    for pid in processes():
        os.kill(pid, signal.SIGKILL)

def attempt(function):
    try:
        function()
        print("fine")
    except Exception as error:
        print(str(error).splitlines()[0])

def compared(x):
    with P.reports() as collected:
        x @ x
        print([r["verified"] for r in collected.take()], flush=True)

def launch_eight(x):
    for _ in range(8):
        (x @ x).cpu()
    attempt(P.synchronize)
    stats = _C.jobs_stats(0)
    print(stats["launches"], stats["waiting"])
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ['PYTHONPATH']}"}


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script],
        capture_output=True,
        text=True,
        timeout=100,
        env={**ENVIRONMENT, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.fixture
def program(tmp_path):
    """presil-job under a name that the test may take away."""
    path = tmp_path / "presil-job"
    path.symlink_to(Path(os.environ["PRESIL_BUILD_DIR"]) / "bin" / "presil-job")
    return path


def test_processes_that_cannot_be_started_again_fail_all_launches(program):
    said, _ = run(
        """
x = begin()
compared(x)
program = os.environ["PRESIL_JOB_PROGRAM"]
real = os.readlink(program)
os.unlink(program)
end_processes()
launch_eight(x)
os.symlink(real, program)
compared(x)
""",
        PRESIL_JOB_PROGRAM=str(program),
    )
    assert said[0] == "[1]" and ("can't be started" in said[1] or "ended by signal 9" in said[1])
    assert said[2:] == ["9 0", "[1]"]


def test_processes_that_take_no_launch_leave_none_waiting(program):
    """Both are lost while they are given a launch, and can't be started again: no news would come of the others."""
    said, _ = run(
        """
x = begin()
compared(x)
program = os.environ["PRESIL_JOB_PROGRAM"]
os.unlink(program)
os.symlink(os.environ["DEAF"], program)
end_processes()
launch_eight(x)
""",
        PRESIL_JOB_PROGRAM=str(program),
        DEAF=str(Path(__file__).parent / "deaf_job.py"),
    )
    assert said[0] == "[1]" and "the process that ran it" in said[1] and said[2:] == ["9 0"]


def test_a_process_that_says_nothing_at_its_start_is_cancelled(program):
    said, _ = run(
        """
x = begin()
compared(x)
program = os.environ["PRESIL_JOB_PROGRAM"]
real = os.readlink(program)
os.unlink(program)
with open(program, "w") as file:
    file.write("#!/bin/sh\\nexec sleep 1000\\n")
os.chmod(program, 0o755)
end_processes()
time.sleep(0.2)
(x @ x).cpu()
threading.Timer(1, _C.cancel, [0]).start()
attempt(P.synchronize)
os.unlink(program)
os.symlink(real, program)
compared(x)
""",
        PRESIL_JOB_PROGRAM=str(program),
    )
    assert said[0] == said[2] == "[1]" and "were not compared" in said[1], said


def test_a_place_that_cannot_start_again_does_not_hold_the_others(program):
    """It has 120 s to do so; this script has 100."""
    said, _ = run(
        """
x = begin()
compared(x)
program = os.environ["PRESIL_JOB_PROGRAM"]
os.unlink(program)
with open(program, "w") as file:
    file.write("#!/bin/sh\\nexec sleep 1000\\n")
os.chmod(program, 0o755)
os.kill(processes()[0], signal.SIGKILL)
time.sleep(0.2)
with P.reports() as collected:
    for _ in range(6):
        x @ x
    print([r["verified"] for r in collected.take()], _C.jobs_stats(0)["restarts"], flush=True)
""",
        PRESIL_JOB_PROGRAM=str(program),
    )
    assert said == ["[1]", "[1, 1, 1, 1, 1, 1] 1"]


def test_a_process_that_says_nothing_has_a_time_limit(program):
    said, _ = run(
        """
program = os.environ["PRESIL_JOB_PROGRAM"]
real = os.readlink(program)
os.unlink(program)
with open(program, "w") as file:
    file.write("#!/bin/sh\\nexec sleep 1000\\n")
os.chmod(program, 0o755)
attempt(begin)
print(B.jobs)
attempt(lambda: os.waitpid(-1, os.WNOHANG))
os.unlink(program)
os.symlink(real, program)
compared(begin(16))
""",
        PRESIL_JOB_PROGRAM=str(program),
        PRESIL_JOBS_START="1",
    )
    assert "has said nothing since it was started" in said[0] and "PRESIL_JOBS_START" in said[0], said
    assert said[1] == "2" and "No child processes" in said[2] and said[3:] == ["[1]"], said


def test_a_chip_whose_commands_can_not_be_stored_is_refused_at_once():
    told = "torch.zeros(1).to('presil')"
    done = subprocess.run(
        [sys.executable, "-c", f"import torch, torch_presil; {told}"],
        env={**os.environ, "PRESIL_CHIP": "picky", "PRESIL_MODE": "verify", "PRESIL_JOBS": "2"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "can't go to other processes" in done.stderr and "can't be stored" in done.stderr, done.stderr


def test_no_host_memory_for_a_launch_is_its_error():
    said, _ = run(
        """
x, large = begin(16), torch.randn(256, 256, dtype=torch.bfloat16).to("presil")
compared(x)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # no file for what it reads
y = (large @ large).cpu()
attempt(P.synchronize)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
attempt(P.synchronize)
compared(large)
"""
    )
    assert "the host has no memory for what it reads" in said[1] and said[2:] == ["fine", "[1]"], said


def test_a_device_that_cannot_have_jobs_is_not_opened_without():
    said, _ = run(
        """
attempt(lambda: torch.eye(16, device="presil"))
attempt(lambda: torch.eye(16, device="presil"))
B.jobs = 1
x = torch.eye(16, device="presil")
compared(x)
""",
        PRESIL_MODE="verify",
        PRESIL_JOBS="2",
        PRESIL_JOB_PROGRAM="/nowhere",
    )
    assert "presil-job" in said[0] and "presil-job" in said[1] and said[2:] == ["[1]"], said
    nonsense = subprocess.run(
        [sys.executable, "-c", "import torch, torch_presil; torch.zeros(1).to('presil')"],
        env={**os.environ, "PRESIL_JOBS": "all"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "PRESIL_JOBS=all: expected 0" in nonsense.stderr


def test_a_failure_that_nobody_waited_for_is_raised_where_jobs_end_and_later_launches_are_compared():
    said, _ = run(
        """
x = begin()
x @ x
x @ x
attempt(lambda: setattr(B, "jobs", 1))
print(B.mode, B.jobs)
compared(x)
def inside():
    with B.flags(mode="verify", jobs=2):
        x @ x
        x @ x
attempt(inside)
print(B.mode, B.jobs)
compared(x)
""",
        PRESIL_JOB_FAULT="fatal@1",
    )
    assert "ESTOPPED" in said[0] and said[1:3] == ["verify 1", "[1]"], said
    assert "ESTOPPED" in said[3] and said[4:] == ["verify 1", "[1]"], said


def test_jobs_end_behind_a_queue_that_failed():
    said, _ = run(
        """
x = begin()
P.synchronize()
y = x @ x
_C.cancel(0)
B.jobs = 1
attempt(P.synchronize)  # of the queue, if the launch was still in it
attempt(P.synchronize)
print(_C.jobs_stats(0)["jobs"])
compared(x)
"""
    )
    assert said[1:] == ["fine", "0", "[1]"], said


def test_a_forked_child_ends_and_its_parent_keeps_its_processes():
    said, _ = run(
        """
x = begin(256)
for _ in range(4):
    (x @ x).cpu()
before = processes()
child = os.fork()
if child == 0:
    attempt(lambda: setattr(B, "jobs", 1))
    sys.exit(0)
for _ in range(200):
    if os.waitpid(child, os.WNOHANG)[0]:
        break
    time.sleep(0.1)
else:
    os.kill(child, signal.SIGKILL)
    print("the child hangs")
attempt(P.synchronize)
print(len(before), before == processes(), _C.jobs_stats(0)["restarts"])
compared(x[:16, :16])
"""
    )
    assert said[-3:] == ["fine", "2 True 0", "[1]"] and "the child hangs" not in said, said


def test_interrupt_at_exit_ends_what_still_runs():
    script = BEGIN + 'x = begin(256)\ny = [(x @ x).cpu() for _ in range(30)]\nprint("launched", flush=True)\n'
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", script], **pipes, text=True, env=ENVIRONMENT)
    assert child.stdout.readline() == "launched\n"
    time.sleep(1)
    try:
        for _ in range(20):  # one may come before the last line has run
            child.send_signal(2)
            try:
                _, said = child.communicate(timeout=3)
                break
            except subprocess.TimeoutExpired:
                pass
    finally:
        child.kill()
    # -2: the first one came before the last line had run, and Python ends by it when all is over.
    assert child.returncode in (0, 1, -2) and "were not compared" in said, said


def test_a_failure_has_its_line_however_far_the_twin_has_gone():
    said, _ = run(
        """
x = begin(8)
def first():
    return x @ x
def then():
    for _ in range(4200):
        x @ x
first()
then()
try:
    P.synchronize()
except Exception as error:
    print(str(error).splitlines()[1])
""",
        PRESIL_JOB_FAULT="fatal@1",
    )
    assert 'launched by File "<string>"' in said[0] and "in first" in said[0], said


def test_processes_are_told_of_a_new_watchdog():
    said, _ = run(
        """
x = begin()
B.watchdog_cycles = 3000
x @ x
attempt(P.synchronize)
""",
        PRESIL_JOB_FAULT="late=0",
    )
    assert "no progress for 3000 cycles" in said[0], said
