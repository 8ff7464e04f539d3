# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="presil"): graphs of ATen operators from aot_autograd, their chip operators gathered
to partitions of one launch each."""

import functools
from dataclasses import dataclass, field

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import TracingContext
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import create_op_support

from torch_presil import _C
from torch_presil.compiler import fusion, layout, operators
from torch_presil.compiler.first_result import drop_unread_results
from torch_presil.compiler.nodes import inserted, value
from torch_presil.compiler.operators.gradients import BiasGrad, InputGrad, WeightGrad
from torch_presil.compiler.partition import ChipPartition, asker, left_out
from torch_presil.compiler.views import STRICT_VIEWS, VIEWS

aten = torch.ops.aten


@dataclass
class Statistics:
    """Of one compiled graph. kind: "inference", "forward" or "backward". left_out: operator that the chip has -> why
    it is in no partition. refused: what a partition met at run time and computed operator by operator. launches,
    recordings: so far. moved: recordings used again for tensors at other places, without planning."""

    kind: str
    partitions: int = 0
    chip_operators: int = 0
    folded: int = 0
    left_out: dict = field(default_factory=dict)
    host_operators: dict = field(default_factory=dict)
    launches: int = 0
    recordings: int = 0
    moved: int = 0
    arena_bytes: int = 0
    arena_bytes_without_reuse: int = 0
    refused: list = field(default_factory=list)


graphs: list = []  # Statistics of every graph compiled since reset()


def _has_chip(nodes) -> bool:
    return any(operators.of(n) is not None for n in nodes)


def _partition(gm: fx.GraphModule, nodes: set, statistics: Statistics) -> None:
    views = [f"torch.ops.{t}" for t in VIEWS] + [str(t) for t in VIEWS]
    partitioner = CapabilityBasedPartitioner(gm, create_op_support(lambda _, node: node in nodes), True, views)
    found = [p for p in partitioner.propose_partitions() if _has_chip(p.nodes)]
    partitioner.remove_bookend_non_compute_ops(found)  # inside, views at the edges would only have to be undone
    if statistics.kind == "backward":
        _gather_gradients(found, partitioner.dependency_viewer)
        found = [part for p in found for part in _connected(p) if _has_chip(part.nodes)]
    before = {n.target for n in gm.graph.nodes if n.op == "call_module"}
    partitioner.fuse_partitions(found)
    for number, node in enumerate(n for n in list(gm.graph.nodes) if n.op == "call_module" and n.target not in before):
        part = ChipPartition(gm.get_submodule(node.target), f"{statistics.kind}.{number}", statistics)
        setattr(gm, node.target, part)
        statistics.partitions += 1
        statistics.chip_operators += len(part.calls)


def _gather_gradients(partitions, viewer) -> None:
    """A convolution's gradients of weight and bias join that of its input, from which they read the same. The
    partitioner, which starts at the end, has them all in one."""
    at = {n.args[:9]: p for p in partitions for n in p.nodes if isinstance(operators.of(n), InputGrad)}
    taken = {n for p in partitions for n in p.nodes}
    for p in partitions:
        for node in [n for n in p.nodes if isinstance(operators.of(n), (WeightGrad, BiasGrad))]:
            home = at.get(node.args[:9], p)
            if home is not p and not viewer.downstreams_of(node) & taken:  # nothing behind it may lead back
                del p.nodes[node]
                home.nodes[node] = None


def _connected(partition) -> list:
    """The partition's pieces that have no value in common. The gradients of two layers' weights have nothing to wait
    for in each other, but memory to keep until then."""
    groups = []  # [nodes, tensors that they read or write]
    for node in partition.nodes:
        touched = {node, *(n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor))}
        joined = [g for g in groups if g[1] & touched]
        groups = [g for g in groups if g not in joined] + [
            [[n for g in joined for n in g[0]] + [node], set(touched).union(*(g[1] for g in joined))]
        ]
    return [Partition(partition.id if i == 0 else None, nodes) for i, (nodes, _) in enumerate(groups)]


def _loosen_views(gm: fx.GraphModule) -> None:
    """Outside of partitions tensors may be NHWC where the trace had them NCHW: a view that may not fit becomes a
    reshape, as_strided gets the strides it was traced on."""
    for node in list(gm.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in STRICT_VIEWS:
            node.target = aten.reshape.default
        elif node.target in (aten.as_strided.default, aten.view.dtype):
            order = _traced_order(node.args[0], 1)
            if order is not None:
                node.args = (_kept(node.args[0], order, node), *node.args[1:])


def _traced_order(node, dimensions: int):
    """The order in memory that a tensor of the device with more dimensions than these had in the trace; else None."""
    traced = value(node)
    if not isinstance(traced, torch.Tensor) or traced.device.type != "presil" or traced.dim() <= dimensions:
        return None
    return layout.order_of(traced)


def _kept(source, order, user):
    return inserted(user, layout.keep_order, source, order, val=value(source))


def _is_nhwc(traced) -> bool:
    """A tensor that makes eager mode's convolutions keep NHWC; the trace doesn't know that of this device."""
    return isinstance(traced, torch.Tensor) and traced.dim() == 4 and layout.order_of(traced) == (0, 2, 3, 1)


def _restore_results(gm: fx.GraphModule, kind: str) -> None:
    """What the user gets has the strides that eager mode would give; what is saved for backward keeps its own."""
    output = next(iter(reversed(gm.graph.nodes)))
    results = list(output.args[0]) if isinstance(output.args[0], (tuple, list)) else None
    if results is None:
        return
    count, context = len(results), TracingContext.try_get()
    if kind == "forward" and context is not None and context.fw_metadata is not None:
        m = context.fw_metadata
        count = len(m.output_info) + m.num_intermediate_bases + len(getattr(m, "mutated_inp_runtime_indices", ()))
    keeps_nhwc = any(_is_nhwc(value(n)) for n in gm.graph.nodes if n.op == "placeholder")
    for i, source in enumerate(results[:count]):
        given = isinstance(source, fx.Node) and source.op == "placeholder"
        order = None if given else _traced_order(source, 2)
        if order is not None and not (keeps_nhwc and order == (0, 1, 2, 3)):
            results[i] = _kept(source, order, output)
    output.args = (tuple(results),)


def _note_left_out(gm: fx.GraphModule, statistics: Statistics) -> None:
    for node in list(gm.graph.nodes):
        refused = node.meta.get("refused", "no partition fits")  # the partitioner makes new nodes of old ones
        reason = fusion.why_not(node) if operators.of(node) is None else refused
        if node.op == "call_function" and reason is not None:
            name = node.meta.get("label", node.name)
            statistics.left_out[name] = reason
            with gm.graph.inserting_before(node):
                gm.graph.call_function(left_out, (f"presil::{statistics.kind}.{name}", f"in no partition: {reason}"))


def _device_of(gm: fx.GraphModule) -> int | None:
    values = (n.meta.get("val") for n in gm.graph.nodes)
    devices = (v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "presil")
    return next((d.index for d in devices if d.index is not None), None)


def compile_graph(gm: fx.GraphModule, example_inputs, kind: str):
    """A boxed callable. kind: "inference" (weights may be packed once), "forward" or "backward"."""
    statistics = Statistics(kind)
    graphs.append(statistics)
    gm = fx.GraphModule(gm, gm.graph)
    index = _device_of(gm)
    if index is not None:
        drop_unread_results(gm, lambda kind: _C.chip_has(index, kind))
    statistics.folded = fusion.fuse(gm, kind == "inference")
    nodes, _ = layout.recordable(gm, asker(index))
    if _has_chip(gm.graph.nodes):
        _partition(gm, nodes, statistics)
        _loosen_views(gm)
        _restore_results(gm, kind)
    _note_left_out(gm, statistics)
    for node in gm.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and node.target not in VIEWS:
            statistics.host_operators[str(node.target)] = statistics.host_operators.get(str(node.target), 0) + 1
    gm.graph.lint()
    gm.recompile()
    return make_boxed_func(gm.forward)


def presil(gm: fx.GraphModule, example_inputs, *, fw_compiler=None, bw_compiler=None, options=None, **unknown):
    """The backend. fw_compiler, bw_compiler: (graph module, inputs) -> callable in place of ours, by keyword or in
    torch.compile's options=."""
    options = dict(options or {})
    fw_compiler = options.pop("fw_compiler", fw_compiler)
    bw_compiler = options.pop("bw_compiler", bw_compiler)
    if options or unknown:
        raise ValueError(
            f'torch.compile(backend="presil") has no option {", ".join([*options, *unknown])}; it has fw_compiler '
            f"and bw_compiler"
        )
    boxed = lambda f: lambda g, inputs: make_boxed_func(f(g, inputs))  # noqa: E731
    of = lambda given, kind: boxed(given) if given else functools.partial(compile_graph, kind=kind)  # noqa: E731
    forward, inference = of(fw_compiler, "forward"), of(fw_compiler, "inference")
    compiled = aot_autograd(fw_compiler=forward, bw_compiler=of(bw_compiler, "backward"), inference_compiler=inference)
    return compiled(gm, example_inputs)


def reset() -> None:
    """Forgets the statistics; torch._dynamo.reset() forgets the graphs."""
    graphs.clear()
