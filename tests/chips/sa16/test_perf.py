# SPDX-License-Identifier: Apache-2.0
"""`presil perf` on sa16: its own engines and causes, and no word of another chip."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLI = HERE.parents[2] / "torch_ext" / "torch_presil" / "cli.py"
# Cells of a library and of a synthesiser are anybody's.
CELLS = "cells(?! of the NanGate| after elaboration)"
OTHERS = re.compile(rf"\b(matrix|epilogue|scratchpad|descriptors?|lanes|{CELLS}|tokens?)\b", re.I)


def test_report(tmp_path):
    command = [sys.executable, CLI, "perf", f"{HERE / 'models.py'}:ds_cnn", "--dtype", "int8", "--chip", "sa16"]
    command += ["--jobs", "1", *(f"--{kind}={tmp_path}/perf.{kind}" for kind in ("json", "html", "csv", "png"))]
    environment = {k: v for k, v in os.environ.items() if k != "PRESIL_CHIP"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "perf.json").read_text())
    assert document["problems"] == [] and len(document["layers"]) == 11
    for row in document["layers"]:
        assert set(row["stalls"]) == {"load", "array", "store"}
        assert all(sum(causes.values()) == row["cycles"] for causes in row["stalls"].values()), row
    texts = [done.stdout, (tmp_path / "perf.csv").read_text(), (tmp_path / "perf.html").read_text()]
    assert not [word.group() for text in texts for word in OTHERS.finditer(text)]
    assert (tmp_path / "perf.png").stat().st_size > 10_000
