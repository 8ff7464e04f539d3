# SPDX-License-Identifier: Apache-2.0
"""Launches on several processes: what they give is what one after the other gives, and what goes wrong in one of them
is that launch's error."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch_presil  # noqa: F401
from job_processes import processes
from same import SAME
from torch_presil import _C

P = torch.presil


def network(dtype=torch.bfloat16):
    torch.manual_seed(5)
    layers = [torch.nn.Conv2d(16, 40, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(40, 24, 3, stride=2)]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(24 * 49, 10)).to(dtype).eval()


def forwards(model, count=3):
    """Results, and the reports of their launches."""
    results = []
    with torch.inference_mode(), P.reports() as collected:
        for n in range(count):
            torch.manual_seed(n)
            x = torch.randn(1, 16, 16, 16).to(next(model.parameters()).dtype).to("presil")
            results.append(model(x).cpu())
        return results, collected.take()


@pytest.fixture(scope="module")
def in_sequence():
    model = network().to("presil")
    with torch.backends.presil.flags(mode="verify", jobs=1):
        return model, *forwards(model)


@pytest.mark.parametrize("jobs", [2, 3, 7])
@pytest.mark.parametrize("mode", ["rtl", "verify"])
def test_same_bits_cycles_and_counters_in_the_same_order(in_sequence, mode, jobs):
    model, results, reports = in_sequence
    with torch.backends.presil.flags(mode=mode, jobs=jobs):
        found, parallel = forwards(model)
        assert _C.jobs_stats(0)["launches"] == len(reports)
    assert all(torch.equal(a, b) for a, b in zip(results, found, strict=True))
    assert len(parallel) == len(reports) == 9
    for one, other in zip(reports, parallel, strict=True):
        known = [name for name in SAME if name in one]
        assert {n: one[n] for n in known} == {n: other[n] for n in known}
    assert [r["launch"] for r in parallel] == list(range(parallel[0]["launch"], parallel[0]["launch"] + 9))


def test_in_place_and_reused_memory_are_as_they_were():
    """Launches that overwrite what earlier ones read, before a process had time to look."""
    a = torch.randn(64, 64, dtype=torch.bfloat16)
    totals = []
    for jobs in (1, 2):
        with torch.backends.presil.flags(mode="verify", jobs=jobs), P.reports() as collected:
            x, y = a.to("presil"), a.to("presil")
            for _ in range(12):
                x.copy_(torch.mm(x, y).div_(8))  # the host writes where a launch has read
            totals.append((x.cpu(), [(r["cycles"], r["verified"]) for r in collected.take()]))
    assert totals[0][0].isfinite().all() and torch.equal(totals[0][0], totals[1][0]) and totals[0][1] == totals[1][1]
    assert len(totals[0][1]) == 12 and all(verified == 1 for _, verified in totals[1][1])


def test_little_memory_makes_the_twin_wait():
    model = network().to("presil")
    os.environ["PRESIL_JOBS_MEMORY"] = "300K"
    try:
        with torch.backends.presil.flags(mode="verify", jobs=2):
            _, reports = forwards(model, 4)
            stats = _C.jobs_stats(0)
    finally:
        del os.environ["PRESIL_JOBS_MEMORY"]
    assert (
        stats["peak_bytes"] <= 400 << 10 and stats["blocked_seconds"] > 0 and all(r["verified"] == 1 for r in reports)
    )


def test_a_difference_is_raised_at_the_next_synchronisation_and_later_launches_are_compared(monkeypatch):
    monkeypatch.setenv("PRESIL_JOB_PROGRAM", str(Path(__file__).parent / "wrong_job.py"))
    x = torch.randn(32, 32, dtype=torch.bfloat16).to("presil")
    collector = _C.Collector()
    with torch.backends.presil.flags(mode="rtl"):
        torch.backends.presil.jobs = 2
        try:
            collector.start()
            values = [(x @ x).cpu() for _ in range(8)]  # of the twin: no error here
            with pytest.raises(torch.AcceleratorError, match=r"(?s)mm: RTL and model differ.*EMISMATCH.*test_jobs.py"):
                P.synchronize()
            verified = [r["verified"] for r in collector.take()]
            P.synchronize()
        finally:
            collector.stop()
            monkeypatch.delenv("PRESIL_JOB_PROGRAM")
            torch.backends.presil.jobs = 1
    assert all(torch.equal(v, values[0]) for v in values)
    assert len(verified) == 8 and 1 <= verified.count(0) <= 2 and verified.count(0) + verified.count(1) == 8


def test_a_process_that_dies_is_that_launch_s_error_and_is_replaced():
    x = torch.randn(256, 256, dtype=torch.bfloat16).to("presil")
    with torch.backends.presil.flags(mode="verify", jobs=2):
        (x @ x).cpu()
        P.synchronize()
        first = processes()
        assert len(first) == 2
        for _ in range(4):
            (x @ x).cpu()  # of the twin
        for pid in first:
            os.kill(pid, signal.SIGSEGV)
        with pytest.raises(torch.AcceleratorError, match=r"the process that ran it ended by signal 11"):
            for _ in range(2):
                P.synchronize()
                x @ x
                x @ x
        with P.reports() as collected:
            x @ x
            assert [r["verified"] for r in collected.take()] == [1]
        assert _C.jobs_stats(0)["restarts"] >= 1 and not set(processes()) & set(first)
    assert processes() == []


FATAL = """
import torch, torch_presil
torch.backends.presil.mode, torch.backends.presil.jobs = "verify", 2
x = torch.eye(16, device="presil")
y = x @ x
for _ in range(2):
    try:
        torch.presil.synchronize()
        print("fine")
    except RuntimeError as error:
        print(error)
print(y.sum().item())
y @ y
"""


def run(script, **more):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env={**os.environ, **more}
    )


def test_an_assertion_of_the_rtl_is_an_error_and_one_at_exit_is_printed():
    done = run(FATAL, PRESIL_JOB_FAULT="fatal@1")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and "ESTOPPED" in done.stdout and lines[-2:] == ["fine", "16.0"], done.stdout
    hung = run(FATAL, PRESIL_JOB_FAULT="late=0", PRESIL_WATCHDOG="3000")
    assert "no progress for 3000 cycles" in hung.stdout and "EHUNG" in hung.stdout
    assert "at exit, of a launch that nobody waited for" in hung.stderr and "no progress" in hung.stderr


LONG = """
import time, torch, torch_presil
from torch_presil import _C
torch.backends.presil.mode, torch.backends.presil.jobs = "verify", 2
x = torch.randn(512, 512, dtype=torch.bfloat16).to("presil")
y = [(x @ x).cpu() for _ in range(20)]
print("launched", flush=True)
try:
    try:
        torch.presil.synchronize()
    finally:
        for _ in range(6000):  # until Python has its turn with the signal
            time.sleep(0.01)
except KeyboardInterrupt:
    print("interrupted")
print(_C.jobs_stats(0)["lost"])
with torch.presil.reports() as collected:
    x[:16, :16] @ x[:16, :16]
    print([r["verified"] for r in collected.take()])
"""


def test_interrupt_drops_what_waits_and_leaves_a_device_that_works():
    child = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout.readline() == "launched\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[0].splitlines()
    assert said[-1] == "[1]" and int(said[-2]) >= 1 and len(said) == 3, said


def test_bad_settings_are_refused_and_change_nothing(monkeypatch):
    torch.zeros(1).to("presil")
    with torch.backends.presil.flags(mode="verify"):
        with pytest.raises(ValueError, match="0 .as many as there are processors. to 1024, got -1"):
            torch.backends.presil.jobs = -1
        monkeypatch.setenv("PRESIL_JOB_PROGRAM", "/nowhere/presil-job")
        with pytest.raises(RuntimeError, match="PRESIL_JOB_PROGRAM"):
            torch.backends.presil.jobs = 2
        assert torch.backends.presil.jobs == 1
        monkeypatch.setenv("PRESIL_JOB_PROGRAM", "/bin/true")
        with pytest.raises(RuntimeError, match="ended with exit status 0 before it had a chip"):
            torch.backends.presil.jobs = 2
        monkeypatch.delenv("PRESIL_JOB_PROGRAM")
        monkeypatch.setenv("PRESIL_JOBS_MEMORY", "many")
        with pytest.raises(ValueError, match="PRESIL_JOBS_MEMORY=many: expected a number above 0"):
            torch.backends.presil.jobs = 2
        monkeypatch.delenv("PRESIL_JOBS_MEMORY")
        x = torch.eye(16, device="presil")
        with P.reports() as collected:
            x @ x
            assert [r["verified"] for r in collected.take()] == [1]


def test_one_chip_behind_a_socket_is_refused():
    served = run(
        "import torch, torch_presil; torch.zeros(1).to('presil')", PRESIL_JOBS="2", PRESIL_TRANSPORT="socket:/x"
    )
    assert "2 processes need a chip each, and transport names 1" in served.stderr


def test_processors_are_those_of_the_affinity():
    said = run("import torch, torch_presil; torch.backends.presil.jobs = 0; print(torch.backends.presil.jobs)")
    assert int(said.stdout) == _C.processors() <= len(os.sched_getaffinity(0))
    one = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
    said = run(one + "import torch, torch_presil; torch.backends.presil.jobs = 0; print(torch.backends.presil.jobs)")
    assert said.stdout == "1\n", said.stderr


def test_the_command_runs_on_all_processors_where_it_can(tmp_path):
    def command(*arguments, **more):
        model, file = f"{Path(__file__).parent / 'model.py'}:small", tmp_path / "out.json"
        line = [sys.executable, "-m", "torch_presil.cli", "cosim", model, "--no-check", "--json", str(file), *arguments]
        done = subprocess.run(line, capture_output=True, text=True, timeout=200, env={**os.environ, **more})
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(file.read_text()), done.stdout

    found, _ = command()
    jobs = _C.processors()
    assert (found["total"]["jobs"], found["mode"]) == (jobs, "verify" if jobs > 1 else "rtl")
    assert found["total"]["wall_seconds"] >= found["total"]["answered_seconds"] > 0
    asked, _ = command(PRESIL_JOBS="3")
    alone, _ = command("--jobs", "1")
    assert asked["total"]["jobs"] == 3 and (alone["total"]["jobs"], alone["mode"]) == (1, "rtl")
    assert found["total"]["cycles"] == asked["total"]["cycles"] == alone["total"]["cycles"] > 0
    without, said = command(PRESIL_JOB_PROGRAM="/nowhere")
    assert (without["total"]["jobs"], without["mode"]) == (1, "rtl")
    assert jobs == 1 or "in one process: presil: jobs: presil-job" in said, said


def test_cosim_with_jobs_is_cosim():
    from torch_presil import cosim

    def result(jobs):
        path = Path(__file__).parent / "model.py"
        return cosim.run(cosim.Options(f"{path}:small", mode="verify", jobs=jobs, baseline=False))

    one, two = result(1), result(2)
    assert two["total"]["jobs"] == 2 and two["total"]["bit_exact"] is True and two["total"]["jobs_peak_bytes"] > 0
    for key in ("cycles", "stalls", "macs", "dram_bytes", "utilization", "launches", "output_sha256"):
        assert one["total"][key] == two["total"][key], key
    strip = ("sim_seconds",)
    assert [{k: v for k, v in row.items() if k not in strip} for row in one["layers"] if row["where"] == "chip"] == [
        {k: v for k, v in row.items() if k not in strip} for row in two["layers"] if row["where"] == "chip"
    ]


@pytest.mark.parametrize(("setting", "environment", "jobs"), [(3, None, 3), (1, "1", 1), (3, "1", 3), (1, None, 0)])
def test_cosim_takes_the_setting_where_no_number_is_given(setting, environment, jobs, monkeypatch):
    """0: the processors."""
    from torch_presil import cosim

    monkeypatch.delenv("PRESIL_JOBS", raising=False)
    if environment:
        monkeypatch.setenv("PRESIL_JOBS", environment)
    torch.backends.presil.jobs = setting
    try:
        options = cosim.Options(
            f"{Path(__file__).parent / 'model.py'}:small", jobs=None, baseline=False, check_layers=False
        )
        assert cosim.run(options)["total"]["jobs"] == (jobs or _C.processors())
        assert torch.backends.presil.jobs == setting
    finally:
        torch.backends.presil.jobs = 1
