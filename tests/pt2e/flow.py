# SPDX-License-Identifier: Apache-2.0
"""From a model to its converted graph, by any quantizer; and a lowered graph against the reference."""

import torch
from reference import Reference
from torch import fx, nn
from torch_presil.pt2e import PresilQuantizer, lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)
from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config


def xnnpack(per_channel=True):
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=per_channel))


QUANTIZERS = {
    "presil": PresilQuantizer,
    "x86": lambda: X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config()),
    "xnnpack": xnnpack,
    "xnnpack-per-tensor": lambda: xnnpack(False),
}


def settled(model: nn.Module, *inputs) -> nn.Module:
    """Batch norms that have seen the inputs, so that no layer's values vanish."""
    for m in model.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.momentum = None
    with torch.no_grad():
        model.train()(*inputs)
    return model.eval()


def converted(model: nn.Module, inputs: tuple, quantizer="presil", dynamic=False) -> fx.GraphModule:
    shapes = tuple({0: torch.export.Dim("batch")} for _ in inputs) if dynamic else None
    exported = torch.export.export(model.eval(), inputs, dynamic_shapes=shapes).module()
    prepared = prepare_pt2e(exported, QUANTIZERS[quantizer]() if isinstance(quantizer, str) else quantizer)
    with torch.no_grad():
        prepared(*inputs)
    return convert_pt2e(prepared)


class _Launches(fx.Interpreter):
    """The codes of each module of a lowered graph, on the CPU."""

    def __init__(self, gm):
        super().__init__(gm)
        self.codes = {}

    def call_module(self, target, args, kwargs):
        value = super().call_module(target, args, kwargs)
        if isinstance(value, torch.Tensor) and value.dtype == torch.int8:
            self.codes[target] = value.cpu()
        return value


def compare(graph: fx.GraphModule, inputs: tuple, least: int) -> fx.GraphModule:
    """Every quantized value on the device and on the CPU, and the results, equal the reference's bits; at least `least`
    were compared. Returns the lowered graph, on the device."""
    lowered = lower(graph)
    reference = Reference(graph)
    with torch.no_grad():
        expected = reference.run(*inputs)
        for device in ("cpu", "presil"):
            launches = _Launches(lowered.to(device))
            got = launches.run(*(x.to(device) for x in inputs))
            compared = 0
            for name, codes in reference.codes.items():
                mine = launches.codes.get(f"int8_{name}")
                if mine is None:
                    continue
                wrong = int((mine.reshape(codes.shape) != codes).sum())
                assert wrong == 0, f"{device}: {name}: {wrong} of {codes.numel()} codes differ from the reference"
                compared += 1
            assert compared >= least, f"{compared} quantized values were compared, {least} expected"
            for a, b in zip(flat(got), flat(expected), strict=True):
                assert torch.equal(a.cpu(), b), f"{device}: a result differs from the reference"
    return lowered


def flat(value) -> list:
    return torch.utils._pytree.tree_leaves(value)
