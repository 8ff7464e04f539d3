# SPDX-License-Identifier: Apache-2.0
"""presil conform at its full length: every level on our larger chips, and faults that only PyTorch shows."""

import os
import subprocess
import sys

import pytest
from conform_runs import BUILD, OF_CHOICE, conform, library
from test_template import faulty

OF_NO_OPERATOR = {"pool"} | OF_CHOICE - {"timing", "weight-gradient"}  # what our chip has nothing of
FAULTS = {
    "networks": (".b_stride = (uint32_t)b_row", ".b_stride = (uint32_t)b_row + 16"),
    "same-again": ("out->cycles += cycles;", "static int n; out->cycles += cycles + (n++ == 3);"),
}


@pytest.mark.parametrize("name", ["tiny_check", "odd_check", "base_fast"])
def test_every_level_of_our_chips(name):
    run = conform(library(name))
    skipped = {row["check"] for row in run["checks"] if row["status"] == "skipped"}
    assert skipped == OF_NO_OPERATOR and not run["counts"]["failed"], run["output"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_pytorch_shows_is_found(name, project, tmp_path):
    found = faulty(name, *FAULTS[name], project, tmp_path)
    assert found["status"] == "failed" and found["text"], found


def test_its_layer_runs_on_the_rtl(project):
    environment = {**os.environ, "PRESIL_LIBRARY_PATH": str(project / "build"), "PRESIL_CHIP": "mine"}
    environment["PYTHONPATH"] = f"{BUILD}/python:{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "tests/layer.py"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 products on the RTL, the same bits as the CPU" in done.stdout
