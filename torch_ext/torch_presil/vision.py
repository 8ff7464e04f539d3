# SPDX-License-Identifier: Apache-2.0
"""Import of torchvision beside a CPU build of torch, whose wheel carries CUDA-linked operators that don't load.

torchvision registers fake kernels for its operators at import and needs their schemas for that. Where its own library did not
load, the missing schemas are defined here; they have no kernels, and calling one raises PyTorch's usual error.
"""

import importlib

import torch

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
}

_library = None


def torchvision():
    """The torchvision module, importable whether or not its compiled operators load."""
    global _library
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            _library.define(name + schema)
    import sys
    for module in [m for m in sys.modules if m == "torchvision" or m.startswith("torchvision.")]:
        del sys.modules[module]
    return importlib.import_module("torchvision")
