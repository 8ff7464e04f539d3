#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What capture costs: layers of ResNet-18 on the RTL of `base`, without and with torch.presil.capture, in processor
time of all threads of this process, or in the time that its user waits.

usage: capture_cost.py [--wall] [--repeat N] [--json FILE] [--most PERCENT]
       Exit status 1 if a layer costs more than it may.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch_presil  # noqa: F401
from torch_presil import cosim

LAYERS = ("conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1", "layer2.0.downsample.0", "layer4.1.conv2")


def prepared(dtype: str):
    """(the model on the device as `presil cosim` runs it, its input)."""
    ready = cosim.prepare(cosim.Options("torchvision.models:resnet18", dtype=dtype))
    (x,) = ready.example.args
    x = x.to(torch.bfloat16) if dtype == "bf16" else x
    return ready.device, x.contiguous(memory_format=torch.channels_last).to("presil")


def inputs_of(model, x) -> dict:
    """name -> (module, its arguments), of LAYERS."""
    found = {}

    def keep(name):
        def hook(module, arguments, keywords):
            found[name] = (module, arguments, keywords)

        return hook

    by_name = cosim.device_layers(model)
    handles = [by_name[name].register_forward_pre_hook(keep(name), with_kwargs=True) for name in LAYERS]
    torch.backends.presil.mode = "model"
    model(x)
    torch.presil.synchronize()
    for handle in handles:
        handle.remove()
    torch.backends.presil.mode = "rtl"
    return found


def spent(clock, module, arguments, keywords) -> float:
    began = clock()
    module(*arguments, **keywords)
    torch.presil.synchronize()
    return clock() - began


def measure(clock, module, arguments, keywords, repeat: int, path: Path) -> tuple[float, float]:
    """Seconds of a launch (without, with) capture: medians, taken in turns."""
    spent(clock, module, arguments, keywords)
    plain, captured = [], []
    for _ in range(repeat):
        plain.append(spent(clock, module, arguments, keywords))
        path.unlink(missing_ok=True)
        with torch.presil.capture(str(path)):
            captured.append(spent(clock, module, arguments, keywords))
    return statistics.median(plain), statistics.median(captured)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wall", action="store_true", help="wall-clock time, without opening and closing the file")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--most", type=float, default=30)
    args = parser.parse_args()
    clock = time.perf_counter if args.wall else time.process_time
    rows, most = [], 0.0
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for dtype in ("bf16", "int8"):
            sums = [0.0, 0.0]
            for name, (module, arguments, keywords) in inputs_of(*prepared(dtype)).items():
                path = Path(folder) / "x.presil"
                plain, captured = measure(clock, module, arguments, keywords, args.repeat, path)
                sums = [sums[0] + plain, sums[1] + captured]
                row = {"layer": name, "dtype": dtype, "ms": 1e3 * plain, "captured_ms": 1e3 * captured}
                rows.append(row | {"percent": 100 * (captured / plain - 1), "mb": path.stat().st_size / 1e6})
                text = (
                    "{layer:24} {dtype} {ms:8.1f} ms, captured {captured_ms:8.1f} ms, {percent:+6.1f} %, {mb:5.2f} MB"
                )
                print(text.format_map(rows[-1]), flush=True)
                most = max(most, rows[-1]["percent"])
            percent = 100 * (sums[1] / sums[0] - 1)
            print(f"all of {dtype}: {percent:+.1f} %", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if most <= args.most else 1


if __name__ == "__main__":
    sys.exit(main())
