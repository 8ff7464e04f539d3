# SPDX-License-Identifier: Apache-2.0
"""The cycle of the first difference, over every transport with a clock: the write log's, as of the simulator library
in this process."""

import json
import os
import subprocess
import sys

import pytest

from .servers import BUILD, SERVERS, Server

# Three bundles of one launch: bits wrong at the beginning, in the middle and at the end of what it writes. The soft
# transport's `flip` does that; no RTL takes part.
WRONG = """
import sys, torch, torch_presil
from torch_presil.bundle import Bundle
torch.manual_seed(2)
x, w = torch.randn(64, 96).bfloat16().to("presil"), torch.randn(96, 40).bfloat16().to("presil")
out = torch.empty(64, 40, dtype=torch.bfloat16, device="presil")
with torch.presil.capture(sys.argv[1] + "/right.presil"):
    torch.mm(x, w, out=out)
(at,) = [t.data for t in Bundle(sys.argv[1] + "/right.presil").launch(0).tensors if t.name == "output"]
for row in (0, 31, 63):
    with torch.presil.capture(f"{sys.argv[1]}/wrong{row}.presil"), torch.presil.inject(f"flip@{at + 80 * row:#x}"):
        torch.mm(x, w, out=out)
        torch.presil.synchronize()
"""
ROWS = (0, 31, 63)


def replay(file, *how) -> dict:
    command = [BUILD / "bin" / "presil-replay", file, "--json", "-", *how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stdout + done.stderr
    (launch,) = json.loads(done.stdout)["launches"]
    return launch["difference"]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """File -> the first difference, as the simulator library in process says."""
    folder = tmp_path_factory.mktemp("wrong")
    environment = {
        **os.environ,
        "PRESIL_CHIP": "tiny",
        "PRESIL_BUILD": "soft",
        "PRESIL_MODE": "rtl",
        "PRESIL_LIBRARY_PATH": f"{BUILD / 'tests' / 'c' / 'libraries'}:{BUILD / 'lib'}",
        "PRESIL_MEMORY": "64M",
    }
    done = subprocess.run([sys.executable, "-c", WRONG, folder], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    here = {
        file: replay(file, "--library", BUILD / "lib" / "libpresil_sim_tiny_fast.so")
        for file in (folder / f"wrong{row}.presil" for row in ROWS)
    }
    for row, difference in zip(ROWS, here.values(), strict=True):
        assert f"[{row}, 0]" in difference["where"] or f"[0, {row}, 0]" in difference["where"], difference
    cycles = [difference["cycle"] for difference in here.values()]
    assert all(cycles) and len(set(cycles)) == len(ROWS), "each row is written in a cycle of its own"
    return here


@pytest.mark.parametrize("name", SERVERS)
def test_a_difference_has_its_cycle(name, bundles, tmp_path):
    with Server(name, "tiny", tmp_path) as server:
        for file, here in bundles.items():
            assert replay(file, "--transport", server.transport) == here
