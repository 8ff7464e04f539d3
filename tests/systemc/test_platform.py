# SPDX-License-Identifier: Apache-2.0
"""The SystemC platform around the verilated chip: bit for bit and cycle for cycle the plain harness."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from libraries import library

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cycles"))

import gate  # noqa: E402

MEMORY = [
    "default",
    "ideal",
    "latency=37,response=11,bytes=24",
    "bursts=2,stall=0.1",
    "latency=5,bytes=40,stall=0.4,bursts=7",
    "pressure=heavy,commit=b,r=bursty",
    "pressure=delayed,interleave=1,commit=b",
]


@functools.lru_cache(maxsize=None)
def observed(build: str) -> dict:
    done = subprocess.run(
        [sys.executable, str(HERE / "libraries.py"), "tiny", build, *MEMORY],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("build", ["systemc", "systemc_check"])
@pytest.mark.parametrize("memory", MEMORY)
def test_same_bits_and_cycles(build, memory):
    plain, systemc = observed("fast")[memory], observed(build)[memory]
    assert len(plain) == 7 and len({seen["launch"] for seen in plain.values()}) == 5  # fp16 takes what bf16 does
    for name, seen in plain.items():
        assert seen == systemc[name], f"{name}: cycles {seen['launch']} and {systemc[name]['launch']}"


def test_driver_and_torch():
    """The operators of tests/cycles, through PyTorch and the driver: the same cycles for the same causes."""
    environment = {
        **os.environ,
        "PRESIL_CHIP": "tiny",
        "PRESIL_BUILD": "systemc",
        "PRESIL_LIBRARY_PATH": str(library("tiny", "systemc").parent),
    }
    done = subprocess.run(
        [sys.executable, str(HERE.parent / "cycles" / "measure.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert gate.operators(json.loads(done.stdout)) == gate.recorded()["tiny"]
