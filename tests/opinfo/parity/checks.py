# SPDX-License-Identifier: Apache-2.0
"""The checks of one sample: the same call on the CPU and on the device, from fresh copies of its arguments.

    forward        results, layouts, aliases of inputs, and what became of the inputs
    view           the same with every operand a view at an offset of a larger storage (whose other elements must stay
                   as they are)
    noncontiguous  the same with noncontiguous operands
    inplace        the method with an underscore
    out            out= of the right shape with strides, and out= that must be resized
    grad           gradients of every input, from the same random gradients of the results
    error          (of an entry's error inputs) the same type of exception

Whatever a call writes of its operands it announces: else packed weights made of them would be used on.
What raises on the CPU must raise the same type on the device. Where nothing was launched, every bit is the CPU's;
otherwise see products.py.
"""

import contextlib
import warnings
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from torch_presil import _C

from . import compare
from .products import NOT_COMPARABLE, Launches, explain, no_worse
from .transfer import Transfer

DEVICE = "presil"
# Their results are not initialised: run under deterministic algorithms, which fill them.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}
# The CPU gives other bits from call to call (LAPACK's gelsy, in MKL: for the same operands at the same alignment,
# with MKL_CBWR too).
UNREPRODUCIBLE = {"linalg.lstsq"}


class Watch:
    """Whether operands were written without an announcement: what was packed of them would be used on."""

    def __init__(self, tensors):
        tensors = [t for t in tensors if t.device.type == DEVICE]
        for t in tensors:
            _C.expose(t)  # so that the bytes are compared
        self.watch = _C.Watch(tensors)

    def silent(self) -> bool:
        torch.presil.synchronize()
        return self.watch.unwritten and not self.watch.current()


@dataclass
class Outcome:
    """What a call did: its result, or the exception."""

    value: object = None
    error: Exception | None = None


def call(function, *args) -> Outcome:
    try:
        return Outcome(function(*args))
    except Exception as error:  # whatever the CPU raises is part of what is compared
        return Outcome(error=error)


class Checker:
    """Checks of the samples of one entry and dtype. seed: what every call starts from."""

    def __init__(self, op, dtype, launches: Launches, seed: int = 0):
        self.op, self.dtype, self.launches, self.seed = op, dtype, launches, seed
        self.fill = op.name in UNINITIALISED

    def compare(self, function, sample, shift: int = 0, strides: bool = True) -> tuple[str | None, Outcome]:
        """function(arguments) on both devices; arguments are (input, args, kwargs)."""
        arguments = (sample.input, sample.args, sample.kwargs)

        def run(device, context=contextlib.nullcontext(), wide=False):
            move = Transfer(device, shift, wide)
            moved = move(arguments)
            watch = Watch(move.bases) if device == DEVICE else None
            torch.manual_seed(self.seed)
            torch.use_deterministic_algorithms(self.fill, warn_only=True)
            try:
                with context:
                    outcome = call(function, *moved)
            finally:
                torch.use_deterministic_algorithms(False)
            if watch is not None and watch.silent():
                unheard.append("an operand was written, and nobody was told (csrc/runtime/writes.h)")
            return outcome, move

        unheard = []

        expected, from_cpu = run("cpu")
        self.launches.count()
        got, from_device = run(DEVICE)
        launched = self.launches.count() > 0
        if unheard:
            return unheard[0], expected
        if expected.error is not None or got.error is not None:
            return same_error(got.error, expected.error), expected
        everything = (
            (got.value, from_device.inputs, from_device.bases),
            (expected.value, from_cpu.inputs, from_cpu.bases),
        )
        where = DEVICE if from_device.used else "cpu"  # a factory without a device argument

        def again(context=contextlib.nullcontext(), wide=False):
            outcome, move = run("cpu", context, wide)
            if outcome.error is not None:
                raise outcome.error
            return outcome.value, move.inputs, move.bases

        if launched:
            difference = explain(again, self.launches, everything[0], where)
        else:
            difference = compare.trees(everything[0], everything[1], where, strides)
        if difference and self.op.name in UNREPRODUCIBLE:
            difference = no_worse(
                [everything[1][:2]] + [again()[:2] for _ in range(8)],
                again(wide=True)[:2],
                everything[0][:2],
                where,
                difference,
            )
        if difference is None:
            mine, theirs = (
                compare.aliases(tree_flatten(o.value)[0], m.inputs)
                for o, m in ((got, from_device), (expected, from_cpu))
            )
            if mine != theirs and not launched:
                difference = f"results alias inputs (which, offset) {mine} instead of {theirs}"
        return difference, expected

    def forward(self, sample):
        return self.compare(lambda x, args, kwargs: self.op(x, *args, **kwargs), sample)

    def view(self, sample):
        return self.compare(lambda x, args, kwargs: self.op(x, *args, **kwargs), sample, shift=3)[0]

    def noncontiguous(self, sample):
        tensors = [
            t for t in tree_flatten((sample.input, sample.args, sample.kwargs))[0] if isinstance(t, torch.Tensor)
        ]
        if any(t.layout != torch.strided for t in tensors):
            return "sparse operands have no noncontiguous form"
        return self.compare(lambda x, args, kwargs: self.op(x, *args, **kwargs), sample.noncontiguous())[0]

    def inplace(self, sample):
        method = self.op.inplace_variant

        def run(x, args, kwargs):
            result = method(x, *args, **kwargs)
            return result, result is x

        return self.compare(run, sample)[0]

    def out(self, sample, expected):
        """expected: what the call without out= gave on the CPU."""
        flat, structure = tree_flatten(expected)

        def run(shape_of):
            def function(x, args, kwargs):
                outs = [shape_of(t, device_of(x, args, kwargs)) for t in flat]
                result = self.op(x, *args, **kwargs, out=tree_unflatten(outs, structure))
                return result, outs, [a is b for a, b in zip(tree_flatten(result)[0], outs)]

            difference = self.compare(function, sample)[0]
            return (
                self.out_beside_result(function, sample, flat)
                if difference and difference.startswith(NOT_COMPARABLE)
                else difference
            )

        return run(strided_like) or run(lambda t, device: torch.empty(0, dtype=t.dtype, device=device))

    def out_beside_result(self, function, sample, flat):
        """What PyTorch can't run under a dispatch mode on the CPU (matmul with a strided out=): the device's out=
        holds the bits
        of its result without, which the forward check has compared."""
        plain, outs = (
            call(f, *Transfer(DEVICE)((sample.input, sample.args, sample.kwargs)))
            for f in (lambda x, args, kwargs: self.op(x, *args, **kwargs), function)
        )
        if plain.error or outs.error:
            return f"raises {plain.error or outs.error}"
        result, received, same = outs.value
        for want, got, layout in zip(tree_flatten(plain.value)[0], received, (strided_like(t, "cpu") for t in flat)):
            if got.shape != layout.shape or layout.numel() and got.stride() not in (layout.stride(), want.stride()):
                return f"out= of shape {tuple(got.shape)}, strides {got.stride()}"
            difference = compare.values(got, want.cpu())
            if difference:
                return f"out= differs from the result without: {difference}"
        return None if all(same) else "out= is not what is returned"

    def grad(self, sample):
        def run(x, args, kwargs):
            leaves = [t for t in tree_flatten((x, args, kwargs))[0] if isinstance(t, torch.Tensor) and t.requires_grad]
            # A leaf that is written in place, or returned as it is, needs a copy in front of it.
            copies = iter([t.clone() for t in leaves])
            x, args, kwargs = tree_map(
                lambda t: next(copies) if isinstance(t, torch.Tensor) and t.requires_grad else t, (x, args, kwargs)
            )
            results = sample.output_process_fn_grad(self.op(x, *args, **kwargs))
            results = [t for t in tree_flatten(results)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
            if not results:
                return []
            generator = torch.Generator().manual_seed(self.seed)
            seeds = [torch.randn(t.shape, generator=generator, dtype=t.dtype).to(t.device) for t in results]
            return list(torch.autograd.grad(results, leaves, seeds, allow_unused=True))

        return self.compare(run, sample, strides=False)[0]


def takes_out(expected) -> bool:
    """Whether the result is one that out= can receive."""
    flat = tree_flatten(expected)[0]
    return bool(flat) and all(isinstance(t, torch.Tensor) and t.layout == torch.strided for t in flat)


def device_of(*tree) -> str:
    """DEVICE if any argument names it or lies there."""
    for t in tree_flatten(tree)[0]:
        if (t.device.type if isinstance(t, torch.Tensor) else t.type if isinstance(t, torch.device) else t) == DEVICE:
            return DEVICE
    return "cpu"


def strided_like(t, device):
    """Not initialised by anything but a constant, with strides that no allocation gives: every second element, the
    last dimension outermost."""
    wide = torch.full([2 * s for s in reversed(t.shape)] if t.dim() else [], 1, dtype=t.dtype, device=device)
    return wide[tuple(slice(None, None, 2) for _ in t.shape)].permute(*reversed(range(t.dim()))) if t.dim() else wide


def same_error(got, expected) -> str | None:
    if expected is None:
        return f"raises {type(got).__name__}: {str(got).splitlines()[0][:300] if str(got) else ''}"
    if got is None:
        return f"does not raise; the CPU raises {type(expected).__name__}: {str(expected)[:120]}"
    if type(got) is not type(expected):
        return (
            f"raises {type(got).__name__}: {str(got)[:200]!r} instead of {type(expected).__name__}: "
            f"{str(expected)[:120]!r}"
        )
    return None


def quiet():
    """For a process that does nothing but compare. torch.manual_seed notes a stack trace for each accelerator that is
    not there, at half of a run's time."""
    warnings.filterwarnings("ignore")
    for module in (torch.cuda.random, torch.xpu.random, torch.mtia):
        module._lazy_call = lambda *args, **kwargs: None
