# SPDX-License-Identifier: Apache-2.0
"""Runs the gated operators on the RTL and prints {name: {"cycles": N, "stalls": [{engine: {cause: cycles}} of each
launch]}} as JSON.

usage: measure.py [--order forward|shuffled] [--shift PAGES] [--slow NS] [--memory-model TEXT] [--seed N]     (chip,
build: PRESIL_CHIP, PRESIL_BUILD)
"""

import argparse
import json
import os
import random

import torch

os.environ["PRESIL_MODE"] = "rtl"

import torch_presil  # noqa: E402,F401
from torch_presil import _C  # noqa: E402


def bf16(*shape):
    return torch.randn(*shape).to(torch.bfloat16)


def fp16(*shape):
    return torch.randn(*shape).half()


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def conv(x, w, stride=1, padding=0, groups=1, dilation=1):
    x, w = x.contiguous(memory_format=torch.channels_last).to("presil"), w.to("presil")
    return lambda: torch.nn.functional.conv2d(x, w, None, stride, padding, dilation, groups)


def conv_int8(x, w, stride=1, padding=0, groups=1, dilation=1):
    x, w = x.contiguous(memory_format=torch.channels_last).to("presil"), w.to("presil")
    bias, scale = (
        torch.zeros(w.shape[0], dtype=torch.int32, device="presil"),
        torch.full((w.shape[0],), 2e-4, device="presil"),
    )
    return lambda: torch.ops.presil.conv2d_int8(
        x, w, bias, scale, [stride] * 2, [padding] * 2, [dilation] * 2, groups, 3, -7, relu=True
    )


def gradient(of, memory_format=torch.contiguous_format):
    """Of a convolution's input (0) or weight (1), all operands in this format."""
    operands = (bf16(1, 80, 14, 14), bf16(1, 48, 14, 14), bf16(80, 48, 3, 3))
    grad, x, w = (t.contiguous(memory_format=memory_format).to("presil") for t in operands)
    wanted = [of == 0, of == 1, False]
    return lambda: torch.ops.aten.convolution_backward(
        grad, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted
    )


def mm(a, b):
    a, b = a.to("presil"), b.to("presil")
    return lambda: a @ b


def int_mm(a, b):
    a, b = a.to("presil"), b.to("presil")
    return lambda: torch._int_mm(a, b)


def cases() -> dict:
    """name -> callable that enqueues one operator; operands are placed when the dict is made."""
    return {
        "nop": lambda: _C.nop(0),
        "mm_bf16_1x1x1": mm(bf16(1, 1), bf16(1, 1)),
        "mm_bf16_33x65x40": mm(bf16(33, 65), bf16(65, 40)),
        "mm_bf16_nk_100x128x96": mm(bf16(100, 128), bf16(96, 128).t()),
        "mm_fp32_20x50x30": mm(torch.randn(20, 50), torch.randn(50, 30)),
        "int_mm_64x256x64": int_mm(int8(64, 256), int8(256, 64)),
        "conv_bf16_3x3": conv(bf16(1, 40, 14, 14), bf16(50, 40, 3, 3), 1, 1),
        "conv_bf16_1x1_s2": conv(bf16(1, 64, 14, 14), bf16(64, 64, 1, 1), 2),
        "conv_bf16_first_7x7": conv(bf16(1, 3, 32, 32), bf16(32, 3, 7, 7), 2, 3),
        "conv_fp32_depthwise": conv(torch.randn(1, 24, 10, 10), torch.randn(24, 1, 3, 3), 1, 1, 24),
        "conv_int8_3x3": conv_int8(int8(1, 64, 14, 14), int8(40, 64, 3, 3), 1, 1),
        "conv_int8_first_7x7": conv_int8(int8(1, 3, 32, 32), int8(32, 3, 7, 7), 2, 3),
        "mm_fp16_33x65x40": mm(fp16(33, 65), fp16(65, 40)),
        "conv_fp16_3x3": conv(fp16(1, 40, 14, 14), fp16(50, 40, 3, 3), 1, 1),
        "input_grad_nchw": gradient(0),
        "input_grad_nhwc": gradient(0, torch.channels_last),
        "weight_grad_nchw": gradient(1),
        "weight_grad_nhwc": gradient(1, torch.channels_last),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--order", choices=["forward", "shuffled"], default="forward")
    parser.add_argument(
        "--shift", type=int, default=0, help="allocate so many pages first: other addresses, equal page offsets"
    )
    parser.add_argument("--slow", type=int, default=0, help="slow the host down by so many ns a cycle")
    parser.add_argument("--memory-model", default="")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    _C.set_memory_model(args.memory_model, args.seed)
    shift = torch.empty(max(1, args.shift) * 4096, dtype=torch.uint8, device="presil")
    operators = cases()
    names = list(operators)
    if args.order == "shuffled":
        random.Random(5).shuffle(names)
    _C.start(0)
    if args.slow:
        _C.inject(0, f"slow={args.slow}")
    _C.collect_reports(True)
    out = {}
    for name in names:
        operators[name]()
        reports = finished_reports()
        assert reports, name
        out[name] = {"cycles": sum(r["cycles"] for r in reports), "stalls": [r["stalls"] for r in reports]}
        for r in reports:
            for engine, causes in r["stalls"].items():
                assert sum(causes.values()) == r["cycles"], (name, engine, causes, r["cycles"])
    del shift
    print(json.dumps({name: out[name] for name in operators}))


def finished_reports():
    _C.synchronize(0)
    return _C.take_reports()


if __name__ == "__main__":
    main()
