# SPDX-License-Identifier: Apache-2.0
"""torch.presil.aot_save: an exported program as command lists, packed weights and signature in one file, which
presil-run runs without Python or torch.

The file format is docs/aot.md.
"""

from pathlib import Path

import torch
from torch import fx
from torch.export.graph_signature import InputKind, OutputKind

from torch_presil import _C
from torch_presil.aot.expand_attention import expand_attention
from torch_presil.aot.edges import drop_assertions, drop_clones, slice_splits, take_codes
from torch_presil.aot.file import DIMS, DTYPES, Contents, write
from torch_presil.aot.host import is_host, take_host_operators
from torch_presil.aot.recorded import Steps
from torch_presil.compiler import fusion, layout, operators
from torch_presil.compiler.backend import Statistics
from torch_presil.compiler.nodes import where as where_of
from torch_presil.compiler.partition import ChipPartition, asker, rounded, tensor_in
from torch_presil.compiler.views import VIEWS

__all__ = ["aot_save", "AotError"]


class AotError(ValueError):
    """The program can't be saved; the text names what stands in the way."""


aten = torch.ops.aten


def aot_save(program: torch.export.ExportedProgram, path) -> dict:
    """Writes the program for the chip of the current device. Weights may be on any device, and stay there.

    On the chip run convolutions, linear layers and matrix products, with eval-mode batch-norm, bias, one residual add
    and clamping folded in, int8 layers of torch_presil.quantize and torch_presil.pt2e (exported on the device), and
    views between them; presil-run computes on the host what docs/aot.md lists (poolings, functions, softmax, norms,
    what finds scales as a model runs), and converts inputs to codes of int8 and codes to results. Anything else raises
    AotError with the operators' names and nothing is written. Returns a summary: inputs, outputs, bytes, launches,
    operators (of launches), host_operators.
    """
    exported = program.run_decompositions(_decompositions())
    graph, where, codes = _chip_graph(exported)
    values, names = _inputs(exported, graph, where)
    part = ChipPartition(graph, "program", Statistics("aot"))
    return _write(Path(path), part, values, names, codes)


# ---- what the graph is
def _decompositions() -> dict:
    """Without those of functions that the host has in one, and of attention (expand_attention)."""
    table = torch.export.default_decompositions()
    for whole in (aten.silu, aten.hardswish, aten.hardsigmoid, aten.scaled_dot_product_attention):
        for name in whole.overloads():
            table.pop(getattr(whole, name), None)
    return table


def _chip_graph(exported):
    signature = exported.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
        raise AotError(f"the program writes {', '.join(written)}: export it in eval mode")
    if any(spec.kind != OutputKind.USER_OUTPUT for spec in signature.output_specs):
        raise AotError("the program has outputs that are no results: export a plain forward")
    gm = fx.GraphModule(exported.graph_module, exported.graph_module.graph)
    tensors = [
        n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder" and isinstance(n.meta.get("val"), torch.Tensor)
    ]
    if any(not isinstance(s, int) for t in tensors for s in t.shape):
        raise AotError(
            "the program has dynamic shapes; commands are for one set of shapes: export without dynamic_shapes"
        )
    devices = {t.device.type for t in tensors}
    if len(devices) != 1:
        raise AotError(f"the program's tensors are on {' and '.join(sorted(devices)) or 'no device'}: put all on one")
    where = devices.pop()
    drop_assertions(gm)
    expand_attention(gm)
    codes = take_codes(gm)
    drop_clones(gm)
    slice_splits(gm)
    take_host_operators(gm, where, True)
    fusion.fuse(gm, True, where)
    take_host_operators(gm, where, False)
    _refuse_host(gm, where)
    return gm, where, codes


def _refuse_host(gm, where) -> None:
    ask_chip = asker(None)

    def ask(node, args, out):
        if not is_host(node):
            ask_chip(node, args, out)

    found, reasons = layout.recordable(gm, ask, edges=False)
    host = {}
    for n in gm.graph.nodes:
        if n.op == "call_function" and n not in found:
            name = (
                str(n.target)
                if operators.of(n) is None
                else f"{n.target.__name__} ({reasons.get(n, 'not on the chip')})"
            )
            name += f" ({reasons[n]})" if n in reasons and n.target in VIEWS else ""
            host.setdefault(name, []).append(n)
    if host:
        values = (n.meta.get("val") for n in gm.graph.nodes)
        quantized = any(isinstance(v, torch.Tensor) and v.dtype == torch.int8 for v in values)
        raise AotError(
            "needs the host, which presil-run doesn't have: "
            + ", ".join(f"{name}{_places(nodes)}" for name, nodes in host.items())
            + ". Export the part of the model between such operators"
            + (' (a quantized model after .to("presil"))' if quantized and where != "presil" else "")
        )


def _places(nodes) -> str:
    found = where_of(nodes[0])
    return f" x{len(nodes)}, first at {found}" if len(nodes) > 1 else f" at {found}"


# ---- where everything lies
def _inputs(exported, gm, where) -> tuple:
    """Placeholder -> constant tensor on the device, or None for an input of the user's; names of inputs and outputs."""
    values, names = {}, {}
    specs = {s.arg.name: s for s in exported.graph_signature.input_specs}
    for n in gm.graph.nodes:
        if n.op != "placeholder":
            continue
        spec = specs[n.name]
        if spec.kind == InputKind.USER_INPUT:
            if not isinstance(n.meta.get("val"), torch.Tensor) or n.meta["val"].dtype not in DTYPES:
                raise AotError(
                    f"input {n.name}: a tensor of {', '.join(str(d)[6:] for d in DTYPES)} expected, found "
                    f"{n.meta.get('val')!r}"
                )
            values[n], names[n] = None, n.name
        else:
            stored = exported.state_dict if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) else exported.constants
            tensor = stored[spec.target] if spec.target in stored else exported.constants[spec.target]
            values[n] = tensor.detach().to("presil")
    return values, names


def _input_like(value, kind):
    """An input as it lies in the program's memory: NHWC for convolutions, else dense."""
    like = torch.empty(value.shape, dtype=value.dtype, device="meta")
    return like.contiguous(memory_format=torch.channels_last) if kind == "nhwc" else like


class _Memory:
    """The program's block: constants first, then inputs, results, values inside."""

    def __init__(self, part, values):
        self.part = part
        kinds = dict(zip(part.inputs, part.convert))
        self.inputs = {n: _input_like(n.meta["val"], kinds[n]) for n, v in values.items() if v is None}
        metas = [
            self.inputs[n]
            if values[n] is None
            else torch.empty_strided(values[n].shape, values[n].stride(), dtype=values[n].dtype, device="meta")
            for n in part.inputs
        ]
        self.plan = part.memory_plan(metas)
        # Constants that a command reads as they are: not packed, so they have to be in the block.
        self.plain = {n: values[n] for n in part.inputs if values[n] is not None and kinds[n] != "weight"}
        self.offset, self.bytes = {}, 0
        for n, like in [*self.plain.items(), *self.inputs.items(), *self.plan.results.items()]:
            self.offset[n] = self.bytes
            self.bytes += rounded(
                max(like.untyped_storage().nbytes() if n in self.plain else like.numel() * like.element_size(), 1)
            )
        for n, at in self.plan.offset.items():
            self.offset[n] = self.bytes + at
        self.bytes += self.plan.bytes

    def tensors(self, arena, first):
        """Every value's tensor, with this block `first` bytes into the arena."""
        likes = {
            **self.inputs,
            **self.plan.made,
            **{
                n: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for n, t in self.plain.items()
            },
        }
        return {n: tensor_in(arena, first + at, likes[n]) for n, at in self.offset.items()}


def _record(memory, values, arena, first, placed):
    """(Steps, all values, tensors of the program's memory). first: bytes of packed weights at the arena's start."""
    part, tensors = memory.part, memory.tensors(arena, first)
    steps = Steps(arena, first if placed else None)
    given = {n: tensors.get(n, values[n]) for n in part.inputs}
    found = part.record(steps, given, lambda node: tensors[node])
    return steps, found, tensors


def _write(path, part, values, names, codes) -> dict:
    memory = _Memory(part, values)
    scratch = torch.empty(max(memory.bytes, 1), dtype=torch.uint8, device="presil")
    weights = _record(memory, values, scratch, 0, False)[0].weights_bytes
    del scratch
    arena = torch.zeros(max(weights + memory.bytes, 1), dtype=torch.uint8, device="presil")
    steps, found, tensors = _record(memory, values, arena, weights, True)
    for n, value in memory.plain.items():
        tensors[n].copy_(value)
    try:
        steps.finish("program")
    except NotImplementedError as error:
        raise AotError(f"the chip can't run it: {error}") from error
    torch.presil.synchronize()
    (leaving,) = part.output.args
    outputs = [leaving] if isinstance(leaving, fx.Node) else list(leaving)
    for n in outputs:
        if (
            not isinstance(n, fx.Node)
            or not isinstance(found.get(n), torch.Tensor)
            or (n in values and values[n] is not None)
        ):
            raise AotError(f"output {n} is a constant")
    given = [n for n in part.inputs if values[n] is None]
    rows = [(names[n], found[n], codes[0].get(n)) for n in given]
    rows += [(f"output{i}", found[n], codes[1].get(i)) for i, n in enumerate(outputs)]
    fixed = weights + sum(rounded(max(t.untyped_storage().nbytes(), 1)) for t in memory.plain.values())
    for name, tensor, _ in rows:
        if tensor.dim() > DIMS:
            raise AotError(f"{name}: {tensor.dim()} dimensions, at most {DIMS} expected")
    size = write(path, Contents(_C.properties(arena.device.index), arena, len(given), rows, fixed, steps))
    return {
        "inputs": len(given),
        "outputs": len(outputs),
        "bytes": size,
        "launches": steps.launches,
        "operators": steps.operators,
        "host_operators": steps.host_operators,
        "memory_bytes": arena.numel(),
        "weights_bytes": weights,
        "config_hash": _C.properties(arena.device.index).get("config_hash"),
    }
