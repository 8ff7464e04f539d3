# SPDX-License-Identifier: Apache-2.0
"""Runs the gated networks on the RTL of `base` and prints {network: {launch: {"cycles": N, "stalls": {engine: {cause:
cycles}}}}} as JSON. Cycles don't depend on data: weights and inputs are random, nothing is calibrated.

usage: networks.py [NAME ...]
"""

import copy
import json
import os
import sys

import torch

os.environ["PRESIL_MODE"] = "rtl"

import torch_presil  # noqa: E402,F401
from torch_presil import _C  # noqa: E402
from torch_presil.fuse import fuse, fused_layers  # noqa: E402
from torch_presil.quantize import quantize  # noqa: E402
from torchvision import models  # noqa: E402


def placed(x):
    return (x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x).to("presil")


def resnet18(dtype):
    """Every convolution with batch-norm, ReLU and residual fused, and the linear layer: README's demo."""
    x = torch.randn(1, 3, 224, 224)
    reference = fuse(models.resnet18().eval(), x)
    if dtype == "int8":
        net, x = quantize(reference, [x]).to("presil"), placed(x)
    else:
        net, x = reference.to(torch.bfloat16).to("presil"), placed(x.to(torch.bfloat16))
    return lambda: net(x)


def mobilenet_v2_depthwise():
    """Its 17 depthwise layers at 224 x 224, each by itself."""
    reference = fuse(models.mobilenet_v2().eval(), torch.randn(1, 3, 224, 224))
    calls = []
    for node in reference.graph.nodes:
        layer = fused_layers(reference).get(node.target) if node.op == "call_module" else None
        if layer is not None and layer.geometry and layer.geometry[3] > 1:
            x = torch.randn(node.args[0].meta["tensor_meta"].shape).to(torch.bfloat16)
            calls.append((copy.deepcopy(layer).to(torch.bfloat16).to("presil"), placed(x)))
    assert len(calls) == 17
    return lambda: [layer(x) for layer, x in calls]


def transformer_block():
    """An encoder block of ViT-S: 197 tokens of 384, 6 heads, bf16."""
    norm = lambda n: torch.nn.LayerNorm(n)  # noqa: E731
    block = models.vision_transformer.EncoderBlock(6, 384, 1536, 0.0, 0.0, norm).eval().to(torch.bfloat16).to("presil")
    x = torch.randn(1, 197, 384, dtype=torch.bfloat16).to("presil")
    return lambda: block(x)


NETWORKS = {
    "resnet18_bf16": lambda: resnet18("bf16"),
    "resnet18_int8": lambda: resnet18("int8"),
    "mobilenet_v2_depthwise_bf16": mobilenet_v2_depthwise,
    "vit_s_block_bf16": transformer_block,
}


def launches(reports) -> dict:
    """By label, in order; a label that comes again gets a number."""
    out = {}
    for r in reports:
        name, count = r["label"], 1
        while name in out:
            count += 1
            name = f"{r['label']}#{count}"
        for engine, causes in r["stalls"].items():
            assert sum(causes.values()) == r["cycles"], (name, engine, causes, r["cycles"])
        out[name] = {"cycles": r["cycles"], "stalls": r["stalls"]}
    return out


def main() -> None:
    out = {}
    with torch.inference_mode():
        for name in sys.argv[1:] or NETWORKS:
            torch.manual_seed(0)
            with torch.no_grad(), torch.inference_mode(False):
                network = NETWORKS[name]()
            _C.set_mode("model")  # packs weights and plans
            network()
            _C.set_mode("rtl")
            with torch.presil.reports() as reports:
                network()
                out[name] = launches(reports.take())
    print(json.dumps(out))


if __name__ == "__main__":
    main()
