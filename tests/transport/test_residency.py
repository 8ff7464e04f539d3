# SPDX-License-Identifier: Apache-2.0
"""Memory that travels in messages: a second forward moves its input and its output, and nothing else; what the host
touches between the layers moves too, and no weight."""

import json
import os
import subprocess
import sys

import pytest

from .servers import Server

PAGE = 4096

# Three convolutions on the chip, one behind the other, and one behind a host operator.
MOVES = """
import json, torch, torch_presil
from torch import nn
torch.manual_seed(0)
chain = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1),
                      nn.Conv2d(32, 16, 3, padding=1)).eval().bfloat16()
broken = nn.Sequential(chain[0], nn.Softsign(), chain[1])
x = torch.randn(1, 16, 32, 32).bfloat16().contiguous(memory_format=torch.channels_last)
host = [chain(x), broken(x)]
chain.to("presil")
X = x.to("presil")
rows, bits = [], []
def step(name, call):
    before = torch.presil.memory.moved_bytes()
    with torch.no_grad():
        y = call()
    after = torch.presil.memory.moved_bytes()
    rows.append([name, after["to_device"] - before["to_device"], after["to_host"] - before["to_host"]])
    return y
first = step("first", lambda: chain(X).cpu())
second = step("second", lambda: chain(X).cpu())
assert torch.equal(first, second)
X.copy_(2 * x)
third = step("other input", lambda: chain(X).cpu())
with torch.no_grad():
    chain[1].weight.zero_()
fourth = step("other weights", lambda: chain(X).cpu())
assert not torch.equal(third, fourth)
step("broken", lambda: broken(X).cpu())
step("broken again", lambda: broken(X).cpu())
a = step("stays", lambda: chain(X))
del a
step("dropped", torch.presil.synchronize)
bits = [t.view(torch.int16).flatten().tolist()[::97] for t in (first, third, fourth)]
print(json.dumps({"rows": rows, "bits": bits}))
"""


def run(**environment) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", MOVES],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PRESIL_MODE": "rtl", "PRESIL_MEMORY": "1G", **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("options", [",copy"])
def test_only_what_the_other_side_lacks_moves(options, tmp_path):
    here = run(PRESIL_CHIP="tiny", PRESIL_TRANSPORT="inproc")
    with Server("socket", "tiny", tmp_path) as server:
        there = run(PRESIL_TRANSPORT=server.transport + options)
    assert there["bits"] == here["bits"]
    assert all(moved == [0, 0] for _, *moved in here["rows"])
    rows = {name: moved for name, *moved in there["rows"]}
    image, middle = 32 * 32 * 16 * 2, 32 * 32 * 32 * 2
    weights = 9 * (16 * 32 + 32 * 32 + 32 * 16) * 2
    assert rows["first"][0] >= image + weights  # packed weights are larger
    assert rows["second"] == [0, image], rows
    assert rows["other input"] == [image, image]
    assert 9 * 32 * 32 * 2 <= rows["other weights"][0] < 2 * 9 * 32 * 32 * 2 + 2 * PAGE
    assert rows["broken"] == [middle, 2 * middle]  # the host's operator has read one and written the other
    assert rows["broken again"] == [0, 2 * middle]  # what it wrote is what is there
    assert rows["stays"] == [0, 0] and rows["dropped"] == [0, 0]
