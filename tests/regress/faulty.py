#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A case that ends in the way that its first argument says: what a chip and its tools can do to a regression."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ASSERTION = "%Error: fake_fifo.sv:{line}: Assertion failed in TOP.fake.load[{bank}]: p_no_overflow at cycle {cycle}"


def tell(**told):
    Path(os.environ["PRESIL_REGRESS_RESULT"]).write_text(json.dumps(told))


def launches(cycles, data=40):
    return {"conv1": {"cycles": cycles, "stalls": {"reader": {"busy": cycles - data, "data": data, "none": 0}}}}


def cycles():
    count = int(os.environ.get("FAKE_CYCLES", "100"))
    tell(checks=3, clock_mhz=200, launches=launches(count, count - 60))


def unit():
    seed = int(os.environ["PRESIL_SEED"])
    tell(checks=1, unit="store", message=f"first difference at out[0, {seed % 7}, 3], at 0x{seed:x}")
    sys.exit(1)


def grandchild():
    """Starts a process in a session of its own, which outlives it."""
    child = subprocess.Popen(["sleep", "120"], start_new_session=True, stdout=subprocess.DEVNULL)
    Path(os.environ["PRESIL_REGRESS_DIR"], "child").write_text(str(child.pid))


def bundle():
    Path(os.environ["PRESIL_REGRESS_DIR"], "first.presil").write_bytes(b"PRESILB\n")
    sys.exit(1)


def assertion():
    seed = int(os.environ["PRESIL_SEED"])
    print(ASSERTION.format(line=77, bank=seed % 4, cycle=seed), flush=True)
    os.abort()


WAYS = {
    "passes": lambda: tell(checks=1),
    "nothing": lambda: tell(checks=0),
    "cycles": cycles,
    "unit": unit,
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "assertion": assertion,
    "hang": lambda: time.sleep(300),
    "stubborn": lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), time.sleep(300)),
    "full": lambda: sys.exit("write to x.fst failed: No space left on device"),
    "slow": lambda: time.sleep(float(os.environ.get("FAKE_SECONDS", "0.5"))),
    "timeout": lambda: tell(checks=1, launches=launches(1000)),
    "grandchild": grandchild,
    "bundle": bundle,
    "environment": lambda: print(json.dumps(dict(os.environ))),
    "torn": lambda: Path(os.environ["PRESIL_REGRESS_RESULT"]).write_text('{"checks": 1, "launches": [{"label"'),
}

if __name__ == "__main__":
    way = sys.argv[1]
    print(f"seed {os.environ['PRESIL_SEED']}: {way}", flush=True)
    if way.startswith("exit"):
        print(f"mismatch: expected 5, found {way}")
        sys.exit(int(way.removeprefix("exit")))
    WAYS[way]()
