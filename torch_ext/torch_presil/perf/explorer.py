# SPDX-License-Identifier: Apache-2.0
"""Figures of a document on the nodes of the exported model, as custom node data for Google's Model Explorer
(ai-edge-model-explorer): model.pt2 to open, and a file each for cycles, use, bound and what the host moves.

Its reader of exported programs calls the graph "graph", and nodes as torch.fx does.
"""

import json
from pathlib import Path

import torch

from torch_presil.estimates import bound_text
from torch_presil.perf.document import short

__all__ = ["export", "node_data", "write"]

GRAPH = "graph"
COLD_TO_HOT = [
    {"stop": 0, "bgColor": "#e8f1f8"},
    {"stop": 0.5, "bgColor": "#f0c060"},
    {"stop": 1, "bgColor": "#d04030"},
]
HOT_TO_COLD = [{**item, "bgColor": other["bgColor"]} for item, other in zip(COLD_TO_HOT, reversed(COLD_TO_HOT))]


def export(model: torch.nn.Module, inputs) -> torch.export.ExportedProgram:
    """inputs: Inputs. ValueError: torch.export doesn't take the model."""
    try:
        return torch.export.export(model, inputs.args, inputs.kwargs)
    except Exception as error:  # of any kind: what torch.export refuses, it refuses in many ways
        raise ValueError(f"torch.export does not take this model: {str(error).strip().splitlines()[0]}") from error


def _nodes(program) -> dict:
    """(module, operator) -> names of nodes in order; operator None: all of the module's own."""
    found = {}
    for node in program.graph_module.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        stack = list(node.meta.get("nn_module_stack", {}).values())
        module = stack[-1][0].removeprefix("L['self'].") if stack else ""
        for operator in (None, short(str(node.target)).rstrip("_")):
            found.setdefault((module, operator), []).append(node.name)
    return found


def _shared(total, nodes: list, values: list):
    """A row's launches on its nodes, in order; all on the first where they don't divide."""
    if len(nodes) > 1 and len(values) % len(nodes) == 0:
        each = len(values) // len(nodes)
        return [(node, sum(values[i * each : (i + 1) * each])) for i, node in enumerate(nodes)]
    return [(nodes[0], total)]


def node_data(document: dict, program) -> dict:
    """{"cycles": {...}, "use": ..., "bound": ..., "host": ...}, each as Model Explorer reads it, and "missing": rows
    without a node."""
    nodes, cycles = _nodes(program), {x["launch"]: x["cycles"] for x in document["launches"]}
    told, missing = {"cycles": {}, "use": {}, "bound": {}, "host": {}}, []
    for row in document["layers"]:
        operator = short(row["operator"]).rstrip("_") if row["operator"] else None
        own = nodes.get((row["module"], operator))
        if not own:
            missing.append(row["name"])
            continue
        if operator:  # several rows of one operator in a module: each the next node
            own = [own.pop(0)] if row["launches"] else own
        for node, value in _shared(row["cycles"], own, [cycles[n] for n in row["numbers"]]):
            told["cycles"][node] = told["cycles"].get(node, 0) + value
            if row["utilization"] is not None:
                told["use"][node] = round(100 * row["utilization"], 2)
            if row["bound"]:
                told["bound"][node] = bound_text(row)
    for row in document["host"]:
        own = nodes.get((row["module"], row["name"].rstrip("_")))
        if row["event"] is not None and row["least_cycles"] and own:
            told["host"][own[0]] = told["host"].get(own[0], 0) + row["least_cycles"]
    colours = {"cycles": COLD_TO_HOT, "use": HOT_TO_COLD, "host": COLD_TO_HOT}
    files = {
        name: {GRAPH: {"results": {node: {"value": value} for node, value in values.items()},
                       **({"gradient": colours[name]} if name in colours else {})}}
        for name, values in told.items() if values
    }  # fmt: skip
    return {**files, "missing": missing}


def write(document: dict, program, folder: Path) -> list:
    """Writes the files; names of layers that no node has."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, folder / "model.pt2")
    found = node_data(document, program)
    missing = found.pop("missing")
    if document["total"].get("estimated") and "cycles" in found:
        found["cycles_estimated"] = found.pop("cycles")  # Model Explorer shows the file's name
    for name, data in found.items():
        (folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    return missing
