# SPDX-License-Identifier: Apache-2.0
"""ResNet-18, 224 x 224, over a software board that has the RTL of base behind a mailbox and an IOMMU: the bits are
those of the RTL in this process, a second forward moves what the host touches, and no weight; and losses of the link
at any launch leave an error and, after a reset, the right bits."""

import json
import os
import subprocess
import sys

from .test_board import WALK, Board, walked
from .test_board import run as run_on_board

PAGE = 4096

RESNET = """
import hashlib, json, torch, torch_presil
from torchvision.models import resnet18
torch.manual_seed(0)
model, x = resnet18().eval().bfloat16(), torch.randn(1, 3, 224, 224).bfloat16()
weights = sum(p.numel() * p.element_size() for m in model.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))
              for p in m.parameters(recurse=False))
model, X = model.to("presil"), x.to("presil")
read, wrote = {}, {}  # of the chip's layers: what the host made for them, what they made for it
def hook(module, inputs, output):
    read[module], wrote[module] = inputs[0].nbytes, output.nbytes
beside = {model.conv1} | {m[0] for name, m in model.named_modules() if name.endswith("downsample")}
for m in model.modules():
    if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear)):
        m.register_forward_hook(hook)
rows, bits = [], []
def forward():
    before = torch.presil.memory.moved_bytes()
    with torch.no_grad():
        out = model(X).cpu()
    after = torch.presil.memory.moved_bytes()
    rows.append([after[k] - before[k] for k in ("to_device", "to_host")])
    bits.append(hashlib.sha256(out.view(torch.int16).numpy().tobytes()).hexdigest())
forward()
X.copy_(torch.randn(1, 3, 224, 224))
forward()
forward()
print(json.dumps({"rows": rows, "bits": bits, "weights": weights, "image": X.nbytes,
                  "read": sum(n for m, n in read.items() if m not in beside), "wrote": sum(wrote.values())}))
"""


def run(**environment) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", RESNET],
        capture_output=True,
        text=True,
        timeout=800,
        env={**os.environ, "PRESIL_MODE": "rtl", **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_second_forward_moves_what_the_host_touches(tmp_path):
    here = run(PRESIL_CHIP="base", PRESIL_TRANSPORT="inproc")
    with Board(tmp_path, "base", "--memory", "mailbox", "--bytes", "0x20000000", "--iommu", "1") as board:
        there = run(PRESIL_TRANSPORT=board.transport)
        told = board.told()
    assert there["bits"] == here["bits"] and len(set(here["bits"])) == 2
    assert here["rows"] == [[0, 0]] * 3
    first, other_image, same_image = there["rows"]
    slack = 64 * PAGE  # 21 launches, whose tensors begin and end in pages
    assert first[0] >= there["weights"] + there["image"]
    touched = there["image"] + there["read"]
    # Pages that the host wrote anew as they were stay; what plans read of their outputs comes on top (0.6 MB here).
    assert touched // 2 < other_image[0] <= touched + (1 << 20) < there["weights"] // 4
    assert same_image[0] <= other_image[0] + slack
    for _, to_host in there["rows"]:
        assert there["wrote"] <= to_host <= there["wrote"] + slack
    assert told["faults"] == 0 and told["maps"] > 20 and told["losses"] == 0
    print(f"ResNet-18, bytes to the board and back: {there['rows']}, weights {there['weights']}")


def test_nothing_moves_where_memory_is_a_file(tmp_path):
    with Board(tmp_path, "base", "--bytes", "0x20000000", "--iommu", "1", "--interrupt", "none") as board:
        there = run(PRESIL_TRANSPORT=board.transport)
        told = board.told()
    assert there["rows"] == [[0, 0]] * 3
    assert told["faults"] == 0 and told["maps"] > 20


ON_HOST = """
import hashlib, json, torch, torch_presil
from torchvision.models import resnet18
torch.manual_seed(0)
host, x = resnet18().eval().bfloat16(), torch.randn(1, 3, 224, 224).bfloat16()
"""


def test_a_link_that_goes_at_any_launch(tmp_path):
    here = run_on_board(WALK, ON_HOST, PRESIL_CHIP="base", PRESIL_TRANSPORT="inproc")["walk"]
    assert len(here) == 1 and here[0][1] == 21
    for seed in (1, 2):
        arguments = ["--memory", "mailbox", "--bytes", "0x20000000", "--seed", str(seed), "--lose", "250,12"]
        with Board(tmp_path, "base", *arguments) as board:
            there = walked(ON_HOST, board, 12, seconds=500)["walk"]
        assert there[-1][1:] == here[0][1:]
        assert len({launches for _, launches, _ in there}) >= 4  # cut off at different launches
