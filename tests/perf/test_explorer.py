# SPDX-License-Identifier: Apache-2.0
"""Node data for Model Explorer: every cycle is on a node of the exported model."""

import json

import pytest
import torch
from perf import models, paper
from torch_presil.inputs import Inputs
from torch_presil.perf import explorer

LAYERS = ("stem", "body.one", "body.two", "head")


@pytest.fixture
def program():
    model, x = models.traceable()
    return explorer.export(model.eval(), Inputs((x,)))


def document(names=LAYERS, rows=None) -> dict:
    """The paper chip's figures under the names of the model's layers."""
    taken = [paper.report(name, 1 + i, 100 * (1 + i)) for i, name in enumerate(names)]
    pool = paper.event("pool", operator="aten.max_pool2d.default", layer=None, weights=0, host=paper.POOLED)
    return paper.made(taken, [*(paper.event(name) for name in names), pool])


def nodes(program) -> dict:
    """module -> names of its nodes, by torch.export's own record."""
    out = {}
    for node in program.graph_module.graph.nodes:
        if node.op == "call_function":
            out.setdefault(list(node.meta["nn_module_stack"].values())[-1][0], []).append(node.name)
    return out


def test_every_cycle_is_on_the_node_of_its_layer(program):
    made = document()
    data = explorer.node_data(made, program)
    assert data["missing"] == [] and set(data) == {"cycles", "use", "bound", "host", "missing"}
    cycles = {node: result["value"] for node, result in data["cycles"]["graph"]["results"].items()}
    known = nodes(program)
    assert cycles == {known[name][0]: 100 * (1 + i) for i, name in enumerate(LAYERS)}
    assert sum(cycles.values()) == made["total"]["cycles"]
    assert data["use"]["graph"]["results"][known["stem"][0]] == {"value": 50.0}
    assert data["bound"]["graph"]["results"][known["head"][0]] == {"value": "grid"}
    assert list(data["host"]["graph"]["results"]) == known["pool"]


def test_its_form(program):
    data = explorer.node_data(document(), program)
    for name in ("cycles", "use", "host"):
        stops = data[name]["graph"]["gradient"]
        assert stops[0]["stop"] == 0 and stops[-1]["stop"] == 1 and all(s["bgColor"].startswith("#") for s in stops)
    assert "gradient" not in data["bound"]["graph"]


def test_a_layer_without_a_node_is_told(program):
    assert explorer.node_data(document((*LAYERS[:3], "tail")), program)["missing"] == ["tail"]


def test_the_files_open_again(program, tmp_path):
    assert explorer.write(document(), program, tmp_path / "me") == []
    again = torch.export.load(tmp_path / "me" / "model.pt2")
    names = {node.name for node in again.graph_module.graph.nodes}
    told = json.loads((tmp_path / "me" / "cycles.json").read_text())["graph"]["results"]
    assert set(told) <= names and len(told) == 4


def test_what_torch_export_refuses_is_said():
    model, x = models.eager()
    with pytest.raises(ValueError, match="torch.export does not take this model"):
        explorer.export(model.eval(), Inputs((x,)))
