# SPDX-License-Identifier: Apache-2.0
"""One partition of a compiled graph at run time: a memory plan for each set of shapes, a command list for each set of
addresses, one launch a call.

Values inside the partition live in an arena that belongs to the partition; results are new tensors, because the
caller may keep them. So a list is recorded once, and moved where tensors lie elsewhere; that is kept too, as the
allocator hands out the same addresses again in a loop.
"""

import functools
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import torch
from torch import fx

from torch_presil import _C
from torch_presil.interchange import address
from torch_presil.compiler import operators
from torch_presil.compiler.layout import meta_tensor
from torch_presil.compiler.operands import NotRecordable, converted

PAGE = 4096  # the driver's own granularity: timing depends on addresses within a page only
MOST_PLANS, MOST_LISTS = 64, 16


@dataclass
class Plan:
    """Memory for one set of shapes: offsets in the arena, sizes of the results."""

    made: dict  # chip operator -> meta tensor
    offset: dict  # node -> bytes from the arena's start
    results: dict  # node -> meta tensor of what leaves
    bytes: int
    naive_bytes: int  # without reuse
    arena: torch.Tensor = None
    lists: OrderedDict = field(default_factory=OrderedDict)

    def drop_outdated(self) -> None:
        """Each list holds its packed weights: of a model that learns there would be as many copies as lists."""
        for addresses in [a for a, recording in self.lists.items() if not recording.valid()]:
            del self.lists[addresses]


def rounded(n: int) -> int:
    return (n + PAGE - 1) // PAGE * PAGE


def place(sizes: dict, birth: dict, death: dict) -> tuple:
    """Offsets so that blocks whose lives overlap don't: the largest first, each at the lowest place. Returns
    (offsets, bytes)."""
    offset, total = {}, 0
    for node in sorted(sizes, key=lambda n: -sizes[n]):
        taken = sorted(
            (offset[o], offset[o] + sizes[o]) for o in offset if birth[o] <= death[node] and birth[node] <= death[o]
        )
        at = 0
        for start, end in taken:
            if start - at >= sizes[node]:
                break
            at = max(at, end)
        offset[node] = at
        total = max(total, at + sizes[node])
    return offset, total


class ChipPartition(torch.nn.Module):
    """Replaces a submodule of chip operators and views. module: computes the same operator by operator, where a list
    can't."""

    def __init__(self, module: fx.GraphModule, name: str, statistics):
        super().__init__()
        object.__setattr__(self, "module", module)  # not a submodule: its parameters are the graph's inputs
        self.name, self.statistics = name, statistics
        self.nodes = list(module.graph.nodes)
        self.inputs = [n for n in self.nodes if n.op == "placeholder"]
        self.output = self.nodes[-1]
        self.calls = [n for n in self.nodes if operators.of(n) is not None]
        self.base = {}  # node -> the call or input whose memory it is
        for n in self.nodes:
            view = n.op == "call_function" and operators.of(n) is None
            self.base[n] = self.base[n.args[0]] if view else n
        leaving = (self.base.get(n) for n in self.output.all_input_nodes)
        self.escaping = list(dict.fromkeys(n for n in leaving if n in set(self.calls)))
        self.convert = [self._conversion(n) for n in self.inputs]
        self.plans, self.lock = OrderedDict(), threading.Lock()

    def _conversion(self, node):
        """ "nhwc", "rows", "weight" or None: what an input has to be."""
        kinds = set()
        for user in node.users:
            reads = getattr(operators.of(user), "reads_at", {})
            kinds |= {
                reads.get(i) for i, a in enumerate(user.args) if node in (a if isinstance(a, (tuple, list)) else (a,))
            }
        return kinds.pop() if len(kinds) == 1 else next((k for k in ("nhwc", "rows") if k in kinds), None)

    # ---- a call
    def forward(self, *args):
        args = [converted(a, kind) for a, kind in zip(args, self.convert)]
        shapes = []
        for a, kind in zip(args, self.convert):
            if not isinstance(a, torch.Tensor):
                shapes.append(a)
            elif kind != "weight":
                shapes.append((a.shape, a.stride()))
        device = args_device(args)
        stream = torch.accelerator.current_stream(device.index).stream_id
        key = (tuple(shapes), device.index, stream, _C.fp32_as_bf16(False), _C.fp32_as_bf16(True))
        with self.lock:
            plan = self.plans.get(key)
            if plan is None:
                plan = self.plans[key] = self._plan(args)
                if len(self.plans) > MOST_PLANS:
                    self.plans.popitem(last=False)
            if isinstance(plan, str):
                return self._one_by_one(args, plan)
            results = {n: torch.empty_like(meta, device=device) for n, meta in plan.results.items()}
            places = [a for a in args if isinstance(a, torch.Tensor)] + list(results.values())
            addresses = tuple(map(address, places))
            recording = plan.lists.get(addresses)
            if recording is None or not recording.valid():
                plan.drop_outdated()
                try:
                    recording = self._moved(plan, places) or self._record(plan, args, results)
                    plan.lists[addresses] = recording
                except NotImplementedError as error:
                    plan = self.plans[key] = self._refused(error)
                    return self._one_by_one(args, plan)
                if len(plan.lists) > MOST_LISTS:
                    plan.lists.popitem(last=False)
            else:
                plan.lists.move_to_end(addresses)
            recording.submit()
        self.statistics.launches += recording.launches
        return self._results(args, results)

    def _one_by_one(self, args, reason):
        left_out(f"presil::{self.name}", f"no launch of its own: {reason}")
        return self.module(*args)

    def _refused(self, error) -> str:
        self.statistics.refused.append(f"{self.name}: {error}")
        return str(error)

    def _walk(self, values, on_call):
        """Runs the views; on_call(node, arguments) gives the tensor of each chip operator."""
        for n in self.nodes:
            if n.op != "call_function":
                continue
            args = fx.map_arg(n.args, lambda a: values[a])
            values[n] = n.target(*args) if operators.of(n) is None else on_call(n, args)
        return values

    def _results(self, args, results):
        values = {**dict(zip(self.inputs, args)), **results}
        return fx.map_arg(self.output.args[0], lambda n: self._leaving(n, values))

    def _leaving(self, node, values):
        """A result, or a view of one. No function within a function: calling itself, it would be garbage with all
        values, until Python's collector comes by."""
        if node not in values:
            values[node] = node.target(*fx.map_arg(node.args, lambda n: self._leaving(n, values)))
        return values[node]

    # ---- planning and recording
    def memory_plan(self, metas) -> Plan:
        """Of inputs like these (meta tensors and numbers). Raises NotRecordable or RuntimeError where the chip can't
        read or a view doesn't fit."""
        made = {}

        def on_call(node, arguments):
            operator = operators.of(node)
            made[node] = operator.result(operator.arguments(*arguments))
            return made[node]

        self._walk(dict(zip(self.inputs, metas)), on_call)
        inner = {n: rounded(t.numel() * t.element_size()) for n, t in made.items() if n not in self.escaping}
        step = {n: i for i, n in enumerate(self.nodes)}
        offset, total = place(inner, step, self._last_readers(inner, step))
        return Plan(made, offset, {n: made[n] for n in self.escaping}, total, sum(inner.values()))

    def _plan(self, args):
        try:
            plan = self.memory_plan([meta_tensor(a) if isinstance(a, torch.Tensor) else a for a in args])
        except (NotRecordable, RuntimeError, ValueError) as error:
            return self._refused(error)
        if plan.bytes:
            plan.arena = torch.empty(plan.bytes, dtype=torch.uint8, device=args_device(args))
        self.statistics.arena_bytes += plan.bytes
        self.statistics.arena_bytes_without_reuse += plan.naive_bytes
        return plan

    def _last_readers(self, inner, step):
        """The last step that reads each value, or a view of it."""
        death = {n: step[n] for n in inner}
        for n in self.nodes:
            for source in n.all_input_nodes:
                if self.base.get(source) in death:
                    death[self.base[source]] = max(death[self.base[source]], step[n])
        return death

    def record(self, recording, values, memory) -> dict:
        """Appends everything to a recording. values: input -> tensor; memory(node) gives where a chip operator
        writes. Returns all values."""

        def on_call(node, arguments):
            out = memory(node)
            _add(recording, node, arguments, out)
            return out

        return self._walk(values, on_call)

    def _moved(self, plan, places):
        """The list that was used last, for the tensors of now; None: there is none, or it can't be moved, as one with
        packed weights can't to other weights."""
        before, recording = next(reversed(plan.lists.items()), (None, None))
        moved = recording and recording.moved(before, places)
        self.statistics.moved += moved is not None
        return moved

    def _record(self, plan, args, results):
        device = args_device(args)
        recording = _C.Partition(device.index)

        def memory(node):
            out = results.get(node)
            return out if out is not None else tensor_in(plan.arena, plan.offset[node], plan.made[node])

        self.record(recording, dict(zip(self.inputs, args)), memory)
        recording.finish(self.name)
        self.statistics.recordings += 1
        return recording


def left_out(operator: str, reason: str) -> None:
    """Stands before an operator that the chip has, but that is in no partition: it runs by itself. For
    torch.presil.explain()."""
    _C.note_operator(operator, reason)


def _add(recording, node, args, out) -> None:
    operator = operators.of(node)
    operator.record(recording, node.meta.get("label", node.name), operator.arguments(*args), out)


def asker(index: int | None):
    """What layout.recordable() asks the chip of this device with; None: of the current one."""
    question = functools.cache(lambda: _C.Partition(_C.current_device() if index is None else index, only_ask=True))
    return lambda node, args, out: _add(question(), node, args, out)


def tensor_in(arena, offset, meta):
    """A tensor like meta, `offset` bytes into the arena."""
    return torch.empty(0, dtype=meta.dtype, device=arena.device).set_(
        arena.untyped_storage(), offset // meta.element_size(), meta.shape, meta.stride()
    )


def args_device(args):
    return next(a.device for a in args if isinstance(a, torch.Tensor))
