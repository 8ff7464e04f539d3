# SPDX-License-Identifier: Apache-2.0
"""Where a quantized program meets its user: real inputs that become codes of int8 before anything else, and results
that are codes until the end. Whoever runs the program converts there (driver/aot/codes.c), so that between them
nothing needs the host."""

from dataclasses import dataclass

import torch
from torch import fx

from torch_presil.compiler.nodes import named, only_user, value

aten = torch.ops.aten


@dataclass(frozen=True)
class Codes:
    """Of an input: code = clamp(rint(x·factor + zero_point), −128, 127), in fp32, each step rounded; rounds_first:
    clamp(rint(x·factor) + zero_point, −128, 127). Of an output: value = (code − zero_point)·factor."""

    factor: float
    zero_point: int
    rounds_first: bool = False


def drop_assertions(gm: fx.GraphModule) -> None:
    """On types and devices, which are those of the export: shapes and all else are fixed."""
    for node in list(gm.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            gm.graph.erase_node(node)


def drop_clones(gm: fx.GraphModule) -> None:
    """Copies that keep the order of memory: nothing here writes to an operand."""
    for node in list(gm.graph.nodes):
        if node.target is aten.clone.default and node.kwargs.get("memory_format") in (None, torch.preserve_format):
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)


def slice_splits(gm: fx.GraphModule) -> None:
    """Each part of a split as the slice that it is: a view, which the chip and the host read as it lies."""
    for node in list(gm.graph.nodes):
        if node.target is not aten.split_with_sizes.default:
            continue
        x, sizes, dim = named(node).values()
        for part in list(node.users):
            start = sum(sizes[: part.args[1]])
            with gm.graph.inserting_before(part):
                new = gm.graph.call_function(aten.slice.Tensor, (x, dim, start, start + sizes[part.args[1]]))
            new.meta = dict(part.meta)
            part.replace_all_uses_with(new)
            gm.graph.erase_node(part)
        gm.graph.erase_node(node)


def take_codes(gm: fx.GraphModule) -> tuple[dict, dict]:
    """Takes the conversions out of the graph. Returns placeholder -> Codes, and position of an output -> Codes."""
    inputs = {n: codes for n in gm.graph.nodes if n.op == "placeholder" for codes in [_take_input(n)] if codes}
    (output,) = (n for n in gm.graph.nodes if n.op == "output")
    results, outputs = list(output.args[0]), {}
    for i, node in enumerate(results):
        found = _dequantized(node)
        if found is not None:
            results[i], outputs[i] = found
    output.args = (tuple(results),)
    gm.graph.eliminate_dead_code()
    return inputs, outputs


def _number(node, target):
    """The number that a node adds, or multiplies by; None: another node."""
    plain = isinstance(node, fx.Node) and node.target is target and not node.kwargs and len(node.args) == 2
    return node.args[1] if plain and isinstance(node.args[1], (int, float)) else None


def _take_input(x):
    chains = [_quantized(user) for user in x.users] if isinstance(value(x), torch.Tensor) else []
    if not chains or None in chains or len({codes for _, codes in chains}) != 1 or value(x).dtype != torch.float32:
        return None
    for node, _ in chains:
        node.replace_all_uses_with(x)
    x.meta["val"] = value(x).to(torch.int8)
    return chains[0][1]


def _quantized(node):
    """(node of the codes, Codes) if the node begins what torch_presil.quantize.Quantize does, or PT2E's quantize."""
    factor, more = _number(node, aten.mul.Tensor), only_user(node)
    rounds_first = more is not None and more.target is aten.round.default
    if rounds_first:
        more = only_user(more)
    zero_point = _number(more, aten.add.Tensor)
    if factor is None or not isinstance(zero_point, int):
        return None
    last = more if rounds_first else only_user(more)
    if last is None or not (rounds_first or last.target is aten.round.default):
        return None
    clamped = only_user(last)
    if clamped is None or clamped.target is not aten.clamp.default or clamped.args[1:] != (-128, 127):
        return None
    codes = Codes(factor, zero_point, rounds_first)
    ends = list(clamped.users)
    return (ends[0], codes) if len(ends) == 1 and _conversion(ends[0], torch.int8) else None


def _dequantized(node):
    """(node of the codes, Codes) if the node ends what torch_presil.quantize.Dequantize does."""
    factor = _number(node, aten.mul.Tensor)
    zero_point = None if factor is None else _number(node.args[0], aten.sub.Tensor)
    if not isinstance(zero_point, int) or not _conversion(node.args[0].args[0], torch.float32):
        return None
    codes = node.args[0].args[0].args[0]
    return (codes, Codes(factor, zero_point)) if value(codes).dtype == torch.int8 else None


def _conversion(node, dtype) -> bool:
    return isinstance(node, fx.Node) and node.target is aten._to_copy.default and dict(node.kwargs) == {"dtype": dtype}
