# SPDX-License-Identifier: Apache-2.0
"""Level chip: what is done to each result behind the operator: steps, and the bias and scale of packed weights."""

from dataclasses import dataclass

from . import driver_api as d
from . import reference as r
from . import sweep
from .cases import TYPES, Convolution, Product, channel_scales
from .checks import Failed, Skipped, check, expect
from .chip_checks import OP, _bench, _open

# Names of steps, in their order; "scale" is one factor a channel.
STEPS = (("add",), ("clamp",), ("scale",), ("add", "clamp"), ("scale", "add"), ("scale", "add", "clamp"))
PARTS = (("bias",), ("scale",), ("bias", "scale"))  # packed with the weights
BEHIND = ((), ("add",), ("add", "clamp"))


@dataclass(frozen=True)
class Stepped:
    """An operator with more steps: before QUANTIZE, where it ends with that."""

    kind: str
    base: object  # Product, Convolution or sweep.Operator
    steps: tuple
    packed: bool = False

    def __str__(self) -> str:
        return f"{self.base}, steps {' '.join(self.steps) or 'none'}"

    def what(self) -> str:
        parts = [f"packed {part}" for part in getattr(self.base, "packed_parts", ())]
        return f"{self.kind} with {', '.join((*parts, *self.steps))}"

    def asked(self, inputs: list | None = None) -> d.Op:
        """inputs: the base's operands in memory."""
        op = self.base.asked()
        out, end = op.outputs[0], [step for step in op.steps if step.kind == d.QUANTIZE]
        op.steps = [step for step in op.steps if step.kind != d.QUANTIZE]
        op.inputs = inputs or op.inputs
        small = out.dtype == d.INT8
        for name in self.steps:
            if name == "clamp":
                op.steps.append(d.Step(d.CLAMP, d.NO_OPERAND, 0, -20.25 if small else -1.5, 30.5 if small else 2.25))
            elif name == "add":
                scale, zero = (0.375, 5) if small else (1, 0)
                op.steps.append(d.Step(d.ADD, len(op.inputs), scale, 0, 0, zero))
                op.inputs.append(d.operand("residual", out.dtype, tuple(out.shape[: out.ndim])))
            else:
                op.steps.append(d.Step(d.SCALE, len(op.inputs)))
                op.inputs.append(d.operand("scale", d.FP32, (out.shape[out.ndim - 1],)))
        op.steps += end
        return op

    def run(self, bench, seed: int = 1) -> d.Report:
        op = self.asked(self.base.operands(bench, seed))
        for i, operand in enumerate(op.inputs):
            if operand.name in (b"residual", b"scale"):
                shape = tuple(operand.shape[: operand.ndim])
                values = r.random_bits(shape, operand.dtype, seed + 7)
                if operand.name == b"scale":
                    values = channel_scales(shape[0], seed + 8)
                op.inputs[i] = bench.tensor(operand.name.decode(), values, operand.dtype)
        out = op.outputs[0]
        op.outputs = [bench.output(tuple(out.shape[: out.ndim]), out.dtype)]
        return bench.compare(op, str(self))


def _cases(context) -> list:
    shapes = (*context.products(), (1, 5, 20, 7), (2, 4, 48, 33))
    cases = [
        Stepped("matmul", Product(types, *shape, columns), steps)
        for types in TYPES
        for shape in shapes
        for columns in (True, False)
        for steps in STEPS
    ]
    convolutions = (
        ((1, 5, 6, 16), (32, 3, 3), {"padding": (1, 1)}),
        ((2, 4, 4, 5), (7, 1, 1), {}),
        ((1, 5, 5, 32), (32, 3, 3), {"groups": 32, "padding": (1, 1)}),
    )
    for types in TYPES:
        for shape, kernel, more in convolutions:
            cases += [Stepped("conv", Convolution(types, shape, kernel, **more), steps) for steps in STEPS]
            cases += [
                Stepped("conv", Convolution(types, shape, kernel, packed=True, packed_parts=parts, **more), steps, True)
                for parts in PARTS
                for steps in BEHIND
            ]
    return cases + [Stepped("depthwise", sweep.depthwise(types=t), steps) for t in sweep.PRODUCTS for steps in STEPS]


@check(
    "steps",
    "what follows an operator: residuals, bounds, a bias or a factor for each channel, against the reference",
    OP,
    "What happens to each element x of the result",
    "chip",
)
def steps(context) -> int:
    taken, refused = {}, {}
    cases = _cases(context)
    with _open(context) as device:
        for seed, case in enumerate(cases):
            reason = None if case.packed else device.supported(case.asked())
            try:
                if reason is None:
                    with _bench(context, device) as bench:
                        case.run(bench, seed)
            except d.DeviceError as error:
                if error.code != d.EUNSUPPORTED:
                    raise Failed(f"{case}: {error}") from error
                reason = str(error)
            if reason is None:
                taken[case.what()] = taken.get(case.what(), 0) + 1
            else:
                expect(len(reason) > 8, f"no reason for refusing {case}")
                refused.setdefault(case.what(), reason)
    count = sum(taken.values())
    never = {what: reason for what, reason in refused.items() if what not in taken}
    if not count:
        raise Skipped(f"the chip takes no steps: {next(iter(never.values()))}")
    context.notes.append(f"{count} of {len(cases)} taken")
    if never:
        context.notes.append(f"refused in every type: {'; '.join(never)}")
    return count
