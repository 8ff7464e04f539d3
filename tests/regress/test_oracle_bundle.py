# SPDX-License-Identifier: Apache-2.0
"""An operator of the sweep on which RTL and model agree, and the oracle does not, leaves a bundle: what it should write
is the oracle's."""

import json
import os
import subprocess
import sys
from pathlib import Path

from planted import bench as planted

from .conftest import CLI, HERE

# The sweep with an oracle that has one bit of each output otherwise.
LIAR = """
import sys
sys.path[:0] = [{tests!r}, {here!r}]
from bits import sweep

def lies(case, data, elements, right=sweep.expected):
    out = list(right(case, data, elements))
    return [*out[:-1], out[-1] ^ 4]

sweep.expected = lies
import sweep_case
sweep_case.main()
"""
SUITE = """
[case.sweep]
kind = "command"
command = ["{{python}}", "{script}", "--chip", "tiny", "--build", "fast", "--memory", "default", "--seed", "3",
           "--share", "60"]
"""


def test_what_differs_from_the_oracle_alone_leaves_a_bundle(tmp_path):
    script = tmp_path / "liar.py"
    script.write_text(LIAR.format(tests=str(HERE.parent), here=str(HERE)))
    (tmp_path / "liar.toml").write_text(SUITE.format(script=script))
    words = [sys.executable, CLI, "regress", tmp_path / "liar.toml", "--runs", tmp_path / "runs", "-j", "1"]
    words += ["--chip", "tiny", "--build", "fast", "--good", planted.sound_library("tiny")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    run = tmp_path / "runs" / "latest"
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    assert "differ, first at" in records[0]["message"] and ": chip 0x" in records[0]["message"]
    assert "no command differs from the model's" in records[-1]["evidence"], "the model says what the RTL does"
    (bundle,) = (run / path for path in records[-1]["bundles"])
    told = tmp_path / "told.json"
    program = planted.BUILD / "bin" / "presil-replay"
    subprocess.run([program, bundle, "--build", "fast", "--json", told], env=os.environ, timeout=100, check=False)
    (row,) = json.loads(told.read_text())["launches"]
    assert row["outcome"] == "mismatch" and row["stray_bytes"] == row["missing_bytes"] == 0, row
    difference = row["difference"]
    assert difference["bytes"] == 1 and difference["found"] ^ difference["expected"] == 4, difference
    assert difference["where"].startswith("output [") and difference["cycle"] > 0, difference
    assert Path(bundle).stat().st_size < 1e6
