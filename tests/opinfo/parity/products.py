# SPDX-License-Identifier: Apache-2.0
"""What the chip computes: how far from exact a product may be, and the CPU run that is made of the device's products.

A call that launches on the chip can't be bit-equal to the CPU. Two things hold instead, and both are checked:

1. Each single product (mm, bmm, addmm, baddbmm, mv, dot, convolution, its backward, ...) lies within the bound of
   docs/numerics.md 6 of its value in float64, computed from its
   own operands: dropped terms 2^-23, alignment 2^-20, accumulation 1.1 (B+1) 2^-24, each times sum |a*w| (sum over
   blocks of max |a*w| is at most that), B <= the number of
   terms; plus the roundings outside the array (alpha, beta, the output's dtype) and what is flushed below 2^-126. The
   output's rounding is relative to the exact value. Integers are exact.
2. The whole call is bit-equal to the CPU's in which each of those products was replaced by the device's (Substitute):
   whatever a composite operator does around its products is held
   to tolerance 0, however it amplifies the products' errors.

For that the CPU takes composite operators apart where the device does: what has a composite kernel and none of the
CPU's is entered, and scaled-dot-product attention is attention.py's.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from torch_presil import _C

from . import compare
from .attention import as_the_device
from .transfer import Transfer

aten = torch.ops.aten
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SMALLEST = 2.0**-124  # more than the three terms of an operand lose together
TINY = {torch.float64: 0.0, torch.float32: 2.0**-126, torch.bfloat16: 2.0**-126, torch.float16: 2.0**-25}


class Launches:
    """Context: `count()` of the launches since the last call of it, on all devices."""

    def __enter__(self):
        _C.collect_reports(True)
        return self

    def count(self) -> int:
        torch.presil.synchronize()
        return len(_C.take_reports())

    def __exit__(self, *exc):
        torch.presil.synchronize()
        _C.collect_reports(False)
        return False


def _convolution(x, w, bias, *geometry):
    return [(aten.convolution(x, w, bias, *geometry), w[0].numel() if not geometry[3] else w.numel() // w.shape[1])]


def _convolution_backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    grads = aten.convolution_backward(
        grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask
    )
    outputs = grad.numel() // max(grad.shape[1], 1)
    return list(zip(grads, (w.numel(), max(outputs, x.numel() // max(x.shape[1], 1)), outputs)))


def _plain(function):
    return lambda a, b, *rest: [(function(a, b), a.shape[-1])]


def _added(function):
    def exact(self, a, b, *, beta=1, alpha=1):
        return [(beta * self + alpha * function(a, b), a.shape[-1] + 2)]

    return exact


# Operator -> the exact values and the number of terms of each output; called with the operands, and again with their
# magnitudes.
PRODUCTS = {
    aten.mm: _plain(torch.mm),
    aten.bmm: _plain(torch.bmm),
    aten.mv: _plain(torch.mv),
    aten.dot: _plain(torch.dot),
    aten.vdot: _plain(torch.dot),
    aten.addmm: _added(torch.mm),
    aten.baddbmm: _added(torch.bmm),
    aten.addmv: _added(torch.mv),
    aten._int_mm: _plain(torch.mm),
    aten.addbmm: _added(lambda a, b: torch.bmm(a, b).sum(0)),
    aten.convolution: _convolution,
    aten.convolution_backward: _convolution_backward,
}
PRODUCTS |= {
    getattr(aten, name): PRODUCTS[getattr(aten, name[:-1])] for name in ("addmm_", "baddbmm_", "addmv_", "addbmm_")
}


def composite_key(function):
    """The key of the kernel by which the device takes this operator apart, and the CPU has to as well; None: a kernel
    of its own, or a view."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = function.name()
    if function.is_view or has(name, "CPU") or has(name, "PrivateUse1"):
        return None
    for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"):
        if has(name, key):
            return getattr(torch._C.DispatchKey, key)
    return None


def flushed(terms, total, raised):
    """What flushing may add to an error: each of a product's results and sums below 2^-126, in each of the six passes,
    and what is lost of an operand when its terms are that small (raised: the sum of the operands' magnitudes, each
    raised by that much)."""
    operands = torch.where(total.isfinite(), raised - total, torch.zeros_like(total))
    return operands + 12 * (terms + 1) * 2.0**-126


def bound_exceeded(packet, args, kwargs, results) -> str | None:
    """results: the device's, brought to the CPU; args: the CPU's operands."""
    exact = PRODUCTS[packet]
    kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    wide = tree_map(lambda t: t.double() if isinstance(t, torch.Tensor) else t, (args, kwargs))
    magnitude = tree_map(lambda v: v.abs() if isinstance(v, torch.Tensor) else v, wide)
    magnitude[1].update({k: abs(v) for k, v in kwargs.items() if k in ("alpha", "beta")})
    above = tree_map(lambda v: v + SMALLEST if isinstance(v, torch.Tensor) else v, magnitude)
    values, sums, raised_sums = (exact(*a, **k) for a, k in (wide, magnitude, above))
    for i, (got, (value, terms), (total, _), (raised, _)) in enumerate(zip(results, values, sums, raised_sums)):
        if got is None or value is None:
            continue
        unit = UNIT.get(got.dtype, 0.0)
        error = (2.0**-23 + 2.0**-20 + 1.1 * (terms + 1) * 2.0**-24) * total + flushed(terms, total, raised)
        allowed = error + 1.01 * unit * (value.abs() + error) + TINY.get(got.dtype, 0.0)
        if not got.dtype.is_floating_point:
            allowed = torch.zeros_like(allowed)  # integers are summed exactly
        difference = _outside(got, value, allowed)
        if difference:
            return f"{packet} output {i}: {difference}"
    return None


def _outside(got, value, allowed) -> str | None:
    if got.shape != value.shape:
        return f"shape {tuple(got.shape)} instead of {tuple(value.shape)}"
    rounded = value.to(got.dtype)
    special = ~rounded.isfinite() if got.dtype.is_floating_point else torch.zeros_like(value, dtype=torch.bool)
    wrong = torch.where(
        special, ~((got == rounded) | (got.isnan() & rounded.isnan())), ~((got.double() - value).abs() <= allowed)
    )
    if not wrong.any():
        return None
    where = tuple(wrong.nonzero()[0].tolist())
    return (
        f"{int(wrong.sum())} of {got.numel()} values outside the bound, first at {where}: "
        f"{got[where].item()!r}, exact {value[where].item()!r} ± {allowed[where].item():.3g}"
    )


class Substitute(TorchDispatchMode):
    """On the CPU: products are computed by the device and checked against their bound; everything else is the CPU's.
    `faults` lists the bounds that were exceeded."""

    def __init__(self, launches: Launches):
        super().__init__()
        self.launches, self.faults, self.products = launches, [], 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packet = function.overloadpacket
        if packet not in PRODUCTS:
            key = composite_key(function)
            if key is None:
                return function(*args, **kwargs)
            with self:
                return function._op_dk(key, *args, **kwargs)
        before = tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, (args, kwargs))
        move = Transfer("presil")
        moved = move((args, kwargs))
        self.launches.count()
        result = function(*moved[0], **moved[1])
        if not self.launches.count():
            return function(*args, **kwargs)
        self.products += 1
        back = {id(copy): original for original, copy in move.tensors.values()}
        flat = tree_flatten(result)[0]
        values = [t.cpu() if isinstance(t, torch.Tensor) else t for t in flat]
        fault = bound_exceeded(packet, *before, values)
        if fault:
            self.faults.append(fault)
        given = iter([self._return(t, v, back) for t, v in zip(flat, values)])
        return tree_map(lambda _: next(given), result)

    @staticmethod
    def _return(t, value, back):
        original = back.get(id(t))
        if original is None:
            return value
        return original.resize_(value.shape).copy_(value) if original.shape != value.shape else original.copy_(value)


def nudged(t: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """t, a unit of the last place up or down at each element that is not zero."""
    if not t.is_floating_point():
        return t
    up = torch.randint(0, 2, t.shape, generator=generator).bool()
    moved = torch.nextafter(t, torch.where(up, torch.inf, -torch.inf).to(t.dtype))
    return torch.where(t == 0, t, moved)


def no_worse(runs: list, wide, got, device: str, difference: str) -> str | None:
    """For what the CPU itself does not reproduce, or computes in another order: the difference, unless got's error is
    of the size that the type gives this computation.

    runs: results of the same call on the CPU, and of calls with nudged operands: how far those spread is a matter of
    the computation, where the error of one run is a matter of luck, and of the machine; wide: of the same call in
    float64. The largest error of each tensor may be eight times the largest of the runs.
    """
    flat = [tree_flatten(r)[0] for r in runs]
    position = {id(t): i for i, t in enumerate(flat[0])}
    exact = tree_flatten(wide)[0]

    def near(value, reference):
        i = position[id(reference)]
        if not reference.is_floating_point() or not reference.numel():
            return compare.values(value, reference)
        truth = exact[i].detach()
        error = lambda t: (t.detach().cpu().double() - truth).abs().max()
        allowed = 8 * max([error(f[i]) for f in flat] + [torch.finfo(reference.dtype).eps * truth.abs().max()])
        return (
            None
            if error(value) <= allowed
            else f"error {error(value).item():.3g}, {allowed.item():.3g} allowed; {difference}"
        )

    return compare.trees(got, runs[0], device, strides=False, exact=near)


NOT_COMPARABLE = "not comparable"


class Transparent(TorchDispatchMode):
    """Changes nothing but what PyTorch itself does under a dispatch mode."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def explain(run_on_cpu, launches: Launches, got, device: str, run_on_device=None, runs=None, wide=None) -> str | None:
    """Whether `got`, which the device computed with launches, is what its products make of it. run_on_cpu(context):
    the same call, made inside the context, with fresh arguments.

    run_on_device(context), runs(), wide() (the last two for no_worse()): given where PyTorch takes another way under a
    dispatch mode (cross entropy with smoothed labels and weights sums in another order): then the device under a mode
    must have the bits, and without one be no further from float64 than no_worse() allows.
    """
    mode = Substitute(launches)
    with as_the_device():
        try:
            expected = run_on_cpu(mode)
        except (
            Exception
        ) as error:  # a fault of this comparison; it is a failure of the sample, not the end of the entry
            return f"{NOT_COMPARABLE}: the CPU's run with the device's products raises {type(error).__name__}: {error}"
    if mode.faults:
        return mode.faults[0]
    difference = compare.trees(got, expected, device, strides=False)
    if difference and run_on_device:
        difference = compare.trees(run_on_device(Transparent()), expected, device, strides=False) or no_worse(
            runs(), wide(), got, device, difference
        )
    return f"around {mode.products} product(s) of the chip: {difference}" if difference else None
