# SPDX-License-Identifier: Apache-2.0
"""Models quantized by PyTorch's export quantization (PT2E, torchao) as int8 launches: docs/pt2e.md.

>>> from torch_presil.pt2e import PresilQuantizer, lower
>>> prepared = prepare_pt2e(torch.export.export(model, inputs).module(), PresilQuantizer())
>>> prepared(*inputs)
>>> int8 = lower(convert_pt2e(prepared)).to("presil")
"""

from torch_presil.pt2e.converted import QuantizationError
from torch_presil.pt2e.lowering import lower

__all__ = ["PresilQuantizer", "QuantizationError", "lower"]


def __getattr__(name):
    if name == "PresilQuantizer":  # torchao is an extra, and takes seconds to import
        from torch_presil.pt2e.quantizer import PresilQuantizer

        return PresilQuantizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
