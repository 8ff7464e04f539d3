#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exits: runs a script that ends right after it used the device, many times, and counts the runs that did not end
cleanly.

    tests/torch/exits.py [--count 1000] [--workers 4] [--case backward] [--fresh] [--no-drain] [--json]

The scripts end at once, with autograd's threads on. More workers than CPUs make the race more likely. Importing torch
takes longer than all else; so a worker imports it once and forks a child for each run, before any use of the device:
the child's interpreter ends as any other. --fresh starts a new interpreter each time.
--no-drain is the control: the module does not wait for autograd's threads. Case `preempted` makes the race all but
certain: one CPU, no switch of the interpreter lock, and an autograd thread of lower priority, so that the main thread
ends while the other still holds a node in Python. With --no-drain nearly every run of it ends with "terminate called
...".
"""

import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import time

# What the control takes away: that the module waits for autograd's threads.
NO_DRAIN = "import atexit; atexit.unregister(torch_presil._C.before_exit)\n"
# A shell starts its background jobs with SIGINT ignored, which children inherit.
PRELUDE = (
    "import os, sys, threading, time, signal, torch, torch_presil\nsignal.signal(signal.SIGINT, "
    "signal.default_int_handler)\nx = torch.ones(8, 8, device='presil', requires_grad=True)\n"
)
# A node in Python, up to the body of its backward.
NODE = """class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.kept = [a]
        return a * 2
    @staticmethod
    def backward(ctx, g):
"""
# name -> (code, exit code, what it shows)
CASES = {
    "backward": ("(x @ x).relu().sum().backward()\n", 0, "right after a backward"),
    "graph_kept": ("y = (x @ x).relu().sum(); y.backward(retain_graph=True); z = y * 2\n", 0, "with graphs alive"),
    "python_nodes": (
        NODE
        + """        return g * 2
x.register_hook(lambda g: g * 1)
F.apply(x @ x).sum().backward()
""",
        0,
        "after nodes and hooks in Python",
    ),
    "preempted": (
        """os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.setswitchinterval(10)
"""
        + NODE
        + """        os.setpriority(os.PRIO_PROCESS, 0, 19)  # of autograd's thread
        return g * 2
torch.autograd.grad(F.apply(x).sum(), x)
""",
        0,
        "autograd's thread loses its CPU to the main thread before it drops its last node",
    ),
    "launches": ("[x.detach() @ x.detach() for _ in range(50)]\n", 0, "with launches in the queue"),
    "in_thread": ("threading.Thread(target=lambda: (x @ x).sum().backward()).start()\n", 0, "main ends first"),
    "os_exit": (
        "[x.detach() @ x.detach() for _ in range(50)]; (x @ x).sum().backward(); os._exit(7)\n",
        7,
        "os._exit with launches in the queue",
    ),
    "os_exit_in_thread": (
        "def f():\n    (x @ x).sum().backward()\n    os._exit(8)\nthreading.Thread(target=f).start()\nwhile "
        "True: x.detach() @ x.detach()\n",
        8,
        "os._exit in another thread",
    ),
    "sigterm": (
        "threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()\nwhile True: (x @ "
        "x).sum().backward()\n",
        -15,
        "SIGTERM in a backward",
    ),
    "interrupt": (
        """try:
    threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    while True: (x @ x).sum().backward()
except (KeyboardInterrupt, torch.AcceleratorError):
    sys.exit(9)
""",
        9,
        "Ctrl-C in a backward",
    ),
    "exception": ("(x @ x).sum().backward()\nraise SystemExit(5)\n", 5, "an exit code of the user's"),
}


# One worker: forks `count` children one after the other; prints a line of JSON for each that went wrong, and a last
# one.
FORKING = """
import faulthandler, json, os, signal, sys, tempfile, time, threading, torch, torch_presil
code, expected, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
errors = tempfile.TemporaryFile()
for _ in range(count):
    errors.seek(0), errors.truncate()
    pid = os.fork()
    if pid == 0:
        os.dup2(errors.fileno(), 2)
        faulthandler.dump_traceback_later(100)
        break
    deadline = time.monotonic() + 120
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.002)
    if done[0] == 0:
        os.kill(pid, signal.SIGKILL), os.waitpid(pid, 0)
        errors.seek(0)
        print(json.dumps(f"did not end within 120 s: {errors.read().decode().strip()[-1500:]}"), flush=True)
        continue
    found = os.waitstatus_to_exitcode(done[1])
    errors.seek(0)
    if found != expected:
        said = errors.read().decode().strip()[-300:]
        print(json.dumps(f"exit code {found} (expected {expected}): {said}"), flush=True)
else:
    print(json.dumps(None), flush=True)
    os._exit(0)
exec(code)
"""


def program(case: str, drain: bool) -> str:
    return PRELUDE + ("" if drain else NO_DRAIN) + CASES[case][0]


def run_forked(case: str, count: int, drain: bool) -> list:
    """What was wrong with the runs that did not end as expected."""
    expected = CASES[case][1]
    done = subprocess.run(
        [sys.executable, "-c", FORKING, program(case, drain), str(expected), str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[:-1] if lines and lines[-1] is None else [*lines, f"the worker ended with {done.returncode}"]


def run_fresh(case: str, count: int, drain: bool) -> list:
    expected = CASES[case][1]
    problems = []
    for _ in range(count):
        done = subprocess.run([sys.executable, "-c", program(case, drain)], capture_output=True, text=True)
        if done.returncode != expected:
            problems.append(f"exit code {done.returncode} (expected {expected}): {done.stderr.strip()[-300:]}")
    return problems


def run_many(
    case: str, count: int, workers: int, fresh: bool = False, drain: bool = True, progress=None
) -> collections.Counter:
    """Problems and how often; in batches, so that there is something to tell on the way."""
    problems = collections.Counter()
    batch = 1 if fresh else max(1, min(50, count // workers))
    batches = [batch] * (count // batch) + ([count % batch] if count % batch else [])
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(run_fresh if fresh else run_forked, case, n, drain): n for n in batches}
        done = 0
        for future in concurrent.futures.as_completed(futures):
            problems.update(future.result())
            done += futures[future]
            if progress:
                progress(done, problems.total())
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="runs (1000)")
    parser.add_argument("--workers", type=int, default=2 * (os.cpu_count() or 1), help="at a time (twice the CPUs)")
    parser.add_argument("--case", choices=CASES, default="backward", help="which end (backward)")
    parser.add_argument("--fresh", action="store_true", help="a new interpreter for each run")
    parser.add_argument("--no-drain", dest="drain", action="store_false", help="the control")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    start = time.monotonic()

    def progress(done, bad):
        print(
            f"{options.case}: {done} of {options.count}, {bad} bad, {time.monotonic() - start:.0f} s", file=sys.stderr
        )

    problems = run_many(options.case, options.count, options.workers, options.fresh, options.drain, progress)
    bad = problems.total()
    if options.json:
        print(
            json.dumps(
                {
                    "case": options.case,
                    "drain": options.drain,
                    "runs": options.count,
                    "bad": bad,
                    "problems": problems,
                    "seconds": round(time.monotonic() - start, 1),
                }
            )
        )
    else:
        print(
            f"{options.case} ({CASES[options.case][2]}): {options.count} exits, {bad} bad, "
            f"{time.monotonic() - start:.0f} s"
        )
        for problem, times in problems.most_common():
            print(f"{times} x {problem}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
