# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 (bf16, one image, random weights of a fixed seed) on the RTL; prints what came out and what each launch
took, as JSON.

usage: resnet.py [--size PIXELS]     (chip, build, transport: PRESIL_CHIP, PRESIL_BUILD, PRESIL_TRANSPORT)
"""

import argparse
import hashlib
import json
import os

os.environ["PRESIL_MODE"] = "rtl"

import torch  # noqa: E402
import torch_presil  # noqa: E402,F401
import torchvision  # noqa: E402
from torch_presil import _C  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=224)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = (
        torchvision.models.resnet18(weights=None)
        .eval()
        .to(torch.bfloat16)
        .to("presil", memory_format=torch.channels_last)
    )
    x = (
        torch.randn(1, 3, args.size, args.size)
        .to(torch.bfloat16)
        .contiguous(memory_format=torch.channels_last)
        .to("presil")
    )
    _C.start(0)
    _C.collect_reports(True)
    with torch.no_grad():
        y = model(x).cpu()
    reports = _C.take_reports()
    launches = [
        {key: r[key] for key in ("label", "launch", "macs", "cycles", "stalls", "read_beats", "write_beats")}
        for r in reports
    ]
    print(
        json.dumps({"output": hashlib.sha256(y.view(torch.int16).numpy().tobytes()).hexdigest(), "launches": launches})
    )


if __name__ == "__main__":
    main()
