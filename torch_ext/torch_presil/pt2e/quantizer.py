# SPDX-License-Identifier: Apache-2.0
"""PresilQuantizer: what the chip does in one launch is quantized as one operator."""

import functools

import torch
from torch import fx
from torchao.quantization.pt2e import (
    FusedMovingAvgObsFakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from torch_presil.pt2e import on_codes
from torch_presil.pt2e.constant_products import ADDS, CONVOLUTIONS, bounds, does_nothing, same_shape
from torch_presil.pt2e.splits import as_slices

__all__ = ["PresilQuantizer"]

aten = torch.ops.aten
KEY = "quantization_annotation"
NORMS = (aten.batch_norm.default, aten._native_batch_norm_legit.default, aten.cudnn_batch_norm.default)
MULS = (aten.mul.Tensor, aten.mul_.Tensor)
OBSERVERS = {"minmax": MinMaxObserver, "histogram": HistogramObserver}


def _specs(observer: str, qat: bool) -> tuple[QuantizationSpec, QuantizationSpec]:
    """Of activations (int8 per tensor, affine) and of weights (int8 per output channel, symmetric)."""
    extra = {"eps": 2**-24}
    if qat:
        activation = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, **extra)
        weight = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver, **extra)
    else:
        activation = OBSERVERS[observer].with_args(**extra)
        weight = PerChannelMinMaxObserver.with_args(**extra)
    codes = functools.partial(QuantizationSpec, dtype=torch.int8, quant_max=127, is_dynamic=False)
    return (
        codes(observer_or_fake_quant_ctr=activation, quant_min=-128, qscheme=torch.per_tensor_affine),
        codes(observer_or_fake_quant_ctr=weight, quant_min=-127, qscheme=torch.per_channel_symmetric, ch_axis=0),
    )


class PresilQuantizer(Quantizer):
    """Annotates convolutions (1-D, 2-D, grouped), linear layers and products of two activations, each with the
    addition, ReLU or clamp behind it; additions, products by element, means, pooling, concatenations and functions of
    one value (hardswish, sigmoid, …) on codes. What the model returns stays float32.

    observer: "minmax" or "histogram" (slower, cuts outliers off). qat: for prepare_qat_pt2e. skip: names of modules
    that stay float32."""

    def __init__(self, observer: str = "minmax", qat: bool = False, skip: tuple = ()):
        super().__init__()
        if observer not in OBSERVERS:
            raise ValueError(f"PresilQuantizer: observer {observer!r}: one of {', '.join(OBSERVERS)} expected")
        self.activation, self.weight = _specs(observer, qat)
        self.skip = tuple(skip)

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        as_slices(model.graph)
        model.recompile()
        return model

    def validate(self, model: fx.GraphModule) -> None:
        pass

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        for node in model.graph.nodes:
            if node.op == "call_function" and KEY not in node.meta and not self._skipped(node):
                self._product(node) or self._pointwise(node)
        for node in model.graph.nodes:
            if node.op == "call_function" and KEY not in node.meta and not self._skipped(node):
                self._shared(node)
        return model

    def _skipped(self, node) -> bool:
        paths = [str(entry[0]) for entry in (node.meta.get("nn_module_stack") or {}).values()]
        return any(path == name or path.startswith(f"{name}.") for path in paths for name in self.skip)

    def _mark(self, node, inputs: dict, output) -> None:
        node.meta[KEY] = QuantizationAnnotation(input_qspec_map=inputs, output_qspec=output, _annotated=True)

    def _finish(self, nodes: list, inputs: list) -> None:
        """nodes: one launch, first to last; inputs: of each, {node: spec}. Its last gives codes, unless it is what the
        model returns."""
        for node, given in zip(nodes, inputs, strict=True):
            returned = any(user.op == "output" for user in node.users)
            self._mark(node, given, self.activation if node is nodes[-1] and not returned else None)

    def _product(self, node) -> bool:
        if node.target in CONVOLUTIONS or node.target is aten.linear.default:
            x, weight = node.args[:2]
            if weight.op != "get_attr":
                return False
            given = {x: self.activation, weight: self.weight}
        elif node.target in (aten.matmul.default, aten.bmm.default):
            if any(n.op == "get_attr" for n in node.args[:2]):
                return False
            given = {n: self.activation for n in node.args[:2]}
        else:
            return False
        nodes, inputs = [node], [given]
        self._follow(
            nodes, inputs, may_add=len(node.args) > 2 or node.target not in (aten.matmul.default, aten.bmm.default)
        )
        self._finish(nodes, inputs)
        return True

    def _follow(self, nodes: list, inputs: list, may_add: bool) -> None:
        """Takes in what the chip does behind a product, as far as nobody else reads what lies between."""
        while len(nodes[-1].users) == 1:
            last, user = nodes[-1], next(iter(nodes[-1].users))
            if user.op != "call_function" or KEY in user.meta or self._skipped(user):
                return
            given = {}
            if user.target in ADDS and may_add:
                other = next((a for a in user.args[:2] if a is not last), None)
                if not isinstance(other, fx.Node) or user.kwargs or not same_shape(other, user):
                    return
                given, may_add = {other: self.activation}, False
            elif bounds(user):
                may_add = False
            elif not (does_nothing(user) or (user.target in NORMS and len(nodes) == 1)):
                return
            nodes.append(user)
            inputs.append(given)

    def _pointwise(self, node) -> bool:
        """Sums and products of two activations; functions of one value."""
        args = node.args[:2]
        both = node.target in (*ADDS, *MULS) and all(isinstance(a, fx.Node) and _is_float(a) for a in args)
        if both and not node.kwargs:
            if node.target in ADDS and not all(same_shape(a, node) for a in args):
                return False
            nodes, inputs = [node], [{a: self.activation for a in args}]
            self._follow(nodes, inputs, may_add=False)
            self._finish(nodes, inputs)
            return True
        if on_codes.is_function(node) and not does_nothing(node) and _is_float(node):
            nodes, inputs = [node], [{node.args[0]: self.activation}]
            if node.target in NORMS:
                self._follow(nodes, inputs, may_add=False)
            self._finish(nodes, inputs)
            return True
        return False

    def _shared(self, node) -> None:
        """What moves codes, or averages them, keeps their scale, where there are codes."""
        if not (on_codes.moves_codes(node) or on_codes.is_mean(node)) or not _is_float(node):
            return
        operands = on_codes.moved(node)
        if not all(_gives_codes(n) for n in operands) or any(user.op == "output" for user in node.users):
            return
        first = operands[0]
        like = SharedQuantizationSpec((first, node))
        self._mark(node, {n: self.activation if n is first else like for n in operands}, like)


def _is_float(node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _gives_codes(node) -> bool:
    annotation = node.meta.get(KEY)
    return annotation is not None and annotation.output_qspec is not None
