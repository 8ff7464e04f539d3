# SPDX-License-Identifier: Apache-2.0
"""`presil cosim` on sa16: RTL and twin agree layer by layer, and the report has the chip's own names."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLI = HERE.parents[2] / "torch_ext" / "torch_presil" / "cli.py"
LAYERS = 11


def test_report(tmp_path):
    told = tmp_path / "told.json"
    command = [sys.executable, CLI, "cosim", f"{HERE / 'models.py'}:ds_cnn", "--dtype", "int8", "--chip", "sa16"]
    command += ["--mode", "verify", "--no-check", "--json", told]
    environment = {k: v for k, v in os.environ.items() if k != "PRESIL_CHIP"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(told.read_text())
    rows = [row for row in result["layers"] if row["where"] == "chip"]
    assert len(rows) == LAYERS and all(row["bit_exact"] and row["cycles"] > 0 for row in rows)
    for row in rows:
        assert set(row["stalls"]) == {"load", "array", "store"}, row["stalls"]
        assert all(sum(causes.values()) == row["cycles"] for causes in row["stalls"].values()), row
        assert row["bound"] in ("array", "memory", "emptying", "load", "overhead"), row["bound"]
    host = [row for row in result["layers"] if row["where"] == "host"]
    assert host and all(row["reason"] for row in host)
    assert "array" in done.stdout and "emptying" in json.dumps(result["layers"]), done.stdout
