# SPDX-License-Identifier: Apache-2.0
"""Cases of kind "layers": made once as a bundle, then replayed without PyTorch; failures of the RTL as in any case."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .conftest import CLI, HERE

SUITE = """
[case.cnn]
kind = "layers"
model = "models.py:small_cnn"
chips = ["tiny"]
"""


def run(folder: Path, *words, **environment):
    """The record of the only case, and its log."""
    command = [sys.executable, CLI, "regress", folder / "team.toml", "--runs", folder / "runs", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env={**os.environ, **environment})
    record = json.loads((folder / "runs" / "latest" / "records.jsonl").read_text().splitlines()[-1])
    return record, (folder / "runs" / "latest" / record["log"]).read_text(), done


def team(tmp_path: Path) -> Path:
    (tmp_path / "team.toml").write_text(SUITE)
    shutil.copy(HERE / "models.py", tmp_path)
    return tmp_path


def test_made_once_then_without_pytorch(tmp_path):
    folder = team(tmp_path)
    first, log, _ = run(folder)
    assert first["status"] == "passed" and " launches, " in log and "made small_cnn-bf16-tiny-" in log, log
    assert len(first["launches"]) == 4 and first["checks"] > 1000, first
    bundle = next((folder / "runs" / "bundles").glob("*.presil"))
    # A Python that can't import torch, and one Python less: what runs is the C program alone.
    (folder / "torch.py").write_text("raise SystemExit('torch was imported')\n")
    second, log, _ = run(folder, PYTHONPATH=f"{folder}:{os.environ.get('PYTHONPATH', '')}")
    assert second["status"] == "passed" and log.startswith(str(bundle)) and "made small" not in log, log
    assert second["launches"] == first["launches"] and second["cycles"] == first["cycles"] > 0
    engines = next(iter(second["launches"].values()))["stalls"]
    for name in ("load", "matrix", "epilogue", "store"):
        assert sum(engines[name].values()) == next(iter(second["launches"].values()))["cycles"], engines


def test_made_again_when_its_model_changes(tmp_path):
    folder = team(tmp_path)
    run(folder)
    model = folder / "models.py"
    model.write_text(model.read_text().replace("nn.Conv2d(24, 40, 1)", "nn.Conv2d(24, 36, 1)").replace("160", "144"))
    record, log, _ = run(folder)
    assert record["status"] == "passed" and "made small_cnn-bf16-tiny-" in log, log
    assert len(list((folder / "runs" / "bundles").glob("*.presil"))) == 2


def test_a_model_that_does_not_load_is_unusable(tmp_path):
    folder = team(tmp_path)
    (folder / "team.toml").write_text(SUITE.replace("small_cnn", "no_such"))
    record, log, done = run(folder)
    assert record["status"] == "unusable" and "no_such" in record["message"] and done.returncode == 2, log
    assert not list((folder / "runs" / "bundles").glob("*.presil"))


def test_cycles_are_compared_with_a_baseline(tmp_path):
    folder = team(tmp_path)
    first, _, _ = run(folder)
    run(folder, "--accept-cycles", "first")
    baseline = folder / "baseline.json"
    told = json.loads(baseline.read_text())
    launches = next(iter(told["cases"].values()))["launches"]
    label = next(iter(launches))
    launches[label][0] -= 1
    baseline.write_text(json.dumps(told))
    record, _, done = run(folder)
    assert record["status"] == "cycles" and done.returncode == 5, record
    assert [change["launch"] for change in record["changes"]] == [label]
    assert first["launches"][label]["cycles"] == record["changes"][0]["after"]
