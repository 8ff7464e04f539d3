# SPDX-License-Identifier: Apache-2.0
"""Graphs, after torch.cuda: capture work once, replay it on the same memory without Python and without the
dispatcher; same bits and cycles.

>>> g = torch.presil.PresilGraph()
>>> x = torch.randn(8, 3, 32, 32, device="presil")
>>> with torch.presil.graph(g):
...     y = model(x)
>>> x.copy_(batch); g.replay(); print(y)

A graph is a list of segments: command lists of the chip, and operators of the host with their CPU kernels. Capturing
runs the work once and puts back what it wrote outside the graph's own memory (parameters, statistics, random state);
y holds the result of that run. What can't be repeated fails at capture with the operator's name: values that the host
sees (.item()), shapes that depend on data, host memory that is not pinned, memory of another graph's pool, waiting
for the device, generators that were not registered.
"""

import gc
import itertools

import torch

from torch_presil import _C
from torch_presil.interchange import address

__all__ = ["PresilGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def graph_pool_handle() -> tuple:
    """Id of a memory pool for several graphs: torch.presil.graph(g, pool=handle). They must be replayed in the order
    of their capture, as in torch.cuda."""
    return _C.graph_pool_handle()


def is_current_stream_capturing() -> bool:
    """Whether work of the current stream goes into a graph."""
    return _C.is_current_stream_capturing()


class PresilGraph(_C.Graph):
    """Captured work. Usually filled with `with torch.presil.graph(g):`."""

    def capture_begin(self, pool=None, capture_error_mode: str = "global") -> None:
        """On the current device and stream, which must not be the default one. pool: of graph_pool_handle() or
        another graph's pool(). capture_error_mode: what other
        threads that use the device meanwhile get: "global" an error, "thread_local" and "relaxed" nothing (their work
        is not captured)."""
        super().capture_begin((0, 0) if pool is None else pool, capture_error_mode)

    def segments(self) -> list:
        """[{"on": "chip" or "host", "steps": [names]}] in order."""
        return [
            {"on": "chip" if on_chip else "host", "steps": [name for name, _ in steps]}
            for on_chip, steps in itertools.groupby(self.steps(), key=lambda s: s[1])
        ]

    def __repr__(self) -> str:
        segments = self.segments()
        chip = sum(len(s["steps"]) for s in segments if s["on"] == "chip")
        host = sum(len(s["steps"]) for s in segments if s["on"] == "host")
        return f"PresilGraph({len(segments)} segments, {chip} steps on the chip, {host} on the host)"


class graph:
    """Context that captures into `presil_graph`. stream: where (default: one of its own). An exception inside leaves
    the graph empty and the device usable."""

    default_streams: dict = {}

    def __init__(
        self,
        presil_graph: PresilGraph,
        pool=None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "global",
    ):
        self.presil_graph, self.pool, self.stream, self.capture_error_mode = (
            presil_graph,
            pool,
            stream,
            capture_error_mode,
        )

    def __enter__(self):
        torch.presil.synchronize()
        gc.collect()  # what dies later than now would be freed in the middle of the capture
        index = torch.presil.current_device()
        stream = self.stream
        if stream is None:
            stream = self.default_streams.setdefault(index, None) or torch.Stream(torch.device("presil", index))
            self.default_streams[index] = stream
        self.previous = torch.accelerator.current_stream(torch.device("presil", index))
        torch.accelerator.set_stream(stream)
        try:
            self.presil_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            torch.accelerator.set_stream(self.previous)
            raise

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.presil_graph.capture_end()
            else:
                self.presil_graph.abandon()
        finally:
            torch.accelerator.set_stream(self.previous)
        return False


def _leaves(args):
    flat, spec = torch.utils._pytree.tree_flatten(args)
    for leaf in flat:
        if not isinstance(leaf, torch.Tensor):
            raise TypeError(
                f"make_graphed_callables: arguments must be tensors (in tuples, lists or dicts), got "
                f"{type(leaf).__name__}"
            )
    return tuple(flat), spec


class _Graphed:
    """Forward and backward of one callable as two graphs with memory in common."""

    def __init__(self, function, sample_args, pool, warmup: int):
        self.inputs, self.input_spec = _leaves(sample_args)
        parameters = (
            tuple(p for p in function.parameters() if p.requires_grad) if isinstance(function, torch.nn.Module) else ()
        )
        self.surface = self.inputs + parameters
        differentiable = tuple(t for t in self.surface if t.requires_grad)
        stream = torch.Stream(torch.device("presil", torch.presil.current_device()))
        with stream:  # nodes of autograd keep the stream that they were made on
            for _ in range(warmup):
                outputs, _ = _leaves(function(*sample_args))
                wanted = tuple(o for o in outputs if o.requires_grad)
                if wanted and differentiable:
                    torch.autograd.grad(
                        wanted, differentiable, tuple(torch.ones_like(o) for o in wanted), allow_unused=True
                    )
                del outputs, wanted
        self.forward_graph, self.backward_graph = PresilGraph(), PresilGraph()
        with graph(self.forward_graph, pool=pool, stream=stream):
            result = function(*sample_args)
        self.outputs, self.output_spec = _leaves(result)
        wanted = tuple(o for o in self.outputs if o.requires_grad)
        self.output_grads = tuple(torch.empty_like(o) if o.requires_grad else None for o in self.outputs)
        grads = ()
        if wanted and differentiable:
            with graph(self.backward_graph, pool=pool, stream=stream):
                grads = torch.autograd.grad(
                    wanted, differentiable, tuple(g for g in self.output_grads if g is not None), allow_unused=True
                )
        remaining = iter(grads)
        self.grads = tuple(next(remaining, None) if t.requires_grad else None for t in self.surface)
        self.outputs = tuple(o.detach() for o in self.outputs)
        self.parameters = parameters
        self.differentiable = bool(grads)

    def __call__(self, *args):
        inputs, spec = _leaves(args)
        if spec != self.input_spec:
            raise TypeError(
                f"a graphed callable takes arguments like those it was captured with ({self.input_spec}), got {spec}"
            )
        return torch.utils._pytree.tree_unflatten(
            _Replay.apply(self, len(inputs), *inputs, *self.parameters), self.output_spec
        )


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, graphed, count, *tensors):
        ctx.graphed = graphed
        for place, given in zip(graphed.inputs, tensors[:count]):
            if place.shape != given.shape or place.dtype != given.dtype:
                raise ValueError(
                    f"a graphed callable was captured with an argument of shape {tuple(place.shape)} and "
                    f"{place.dtype}, got {tuple(given.shape)} and {given.dtype}"
                )
            if address(place) != address(given):
                place.detach().copy_(given)
        graphed.forward_graph.replay()
        return tuple(o.detach() for o in graphed.outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *output_grads):
        graphed = ctx.graphed
        for place, given in zip(graphed.output_grads, output_grads):
            if place is not None and given is not None:
                place.copy_(given)
        if graphed.differentiable:
            graphed.backward_graph.replay()
        # Copies: autograd may keep what it is given, and the next replay writes these again.
        return (None, None, *(None if g is None else g.clone() for g in graphed.grads))


def make_graphed_callables(callables, sample_args, num_warmup_iters: int = 3, pool=None):
    """Callables (modules or functions of tensors) whose forward and backward are replayed, each a graph; for models
    that as a whole can't be captured. Given a tuple of
    callables and a tuple of their arguments, they must be run in this order. Shapes, dtypes and requires_grad are
    those of sample_args; a module is changed in place
    (its forward) and gives its replays only in the mode, training or evaluation, that it was captured in."""
    single = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if single else (callables, sample_args)
    if pool is None:
        pool = graph_pool_handle()
    out = []
    for function, sample in zip(functions, samples, strict=True):
        graphed = _Graphed(function, tuple(sample), pool, num_warmup_iters)
        if not isinstance(function, torch.nn.Module):
            out.append(graphed)
            continue
        eager, training = function.forward, function.training

        def forward(*args, module=function, graphed=graphed, eager=eager, training=training):
            return graphed(*args) if module.training == training else eager(*args)

        function.forward = forward
        out.append(function)
    return out[0] if single else tuple(out)
