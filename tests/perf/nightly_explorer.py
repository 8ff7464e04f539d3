# SPDX-License-Identifier: Apache-2.0
"""Node data as Google's Model Explorer finds it: its own reader of exported programs (the group "explorer" of
pyproject.toml, in a folder of its own) says what the graph and its nodes are called. `./presil test --stage
nightly-explorer`."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest
from perf.test_explorer import LAYERS, document, program  # noqa: F401
from torch_presil.perf import explorer

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check")).resolve()
SETTINGS = {"const_element_count_limit": 16}  # its default


@pytest.fixture(scope="module")
def reader():
    """Its class for exported programs, without the package around it: that starts servers, and its adapters of other
    formats are 128 MB."""
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["explorer"]
    folder = BUILD / "model_explorer"
    stamp = folder / "pins.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != pins:
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--target"]
        subprocess.run([*command, folder, *pins], check=True)
        stamp.write_text(json.dumps(pins))
    package = types.ModuleType("model_explorer")
    package.__path__ = [str(folder / "model_explorer")]
    sys.modules["model_explorer"] = package
    return importlib.import_module("model_explorer.pytorch_exported_program_adapter_impl")


def test_every_figure_is_on_a_node_that_it_shows(reader, program, tmp_path):  # noqa: F811
    import torch

    assert explorer.write(document(), program, tmp_path) == []
    loaded = torch.export.load(tmp_path / "model.pt2")
    (graph,) = reader.PytorchExportedProgramAdapterImpl(loaded, SETTINGS).convert()["graphs"]
    nodes = {node.id: node for node in graph.nodes}
    for name in ("cycles", "use", "bound", "host"):
        told = json.loads((tmp_path / f"{name}.json").read_text())
        assert list(told) == [graph.id] and told[graph.id]["results"] and set(told[graph.id]["results"]) <= set(nodes)
    found = json.loads((tmp_path / "cycles.json").read_text())[graph.id]["results"]
    for layer, node in zip(LAYERS, found, strict=True):  # in which module it draws the node
        assert nodes[node].namespace.endswith(f"_{layer.rpartition('.')[2]}"), (layer, nodes[node].namespace)
        assert nodes[node].label == ("aten.linear" if layer == "head" else "aten.conv2d")
