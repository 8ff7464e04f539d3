# SPDX-License-Identifier: Apache-2.0
"""A PyTorch layer on RTL that NNgen generated: int8 weights and activations, sums in int32 on the chip, scaled on the
host. Any number of rows from the shape's own on; with fewer the CPU computes it, and explain() says why.

usage: PRESIL_LIBRARY_PATH=build PRESIL_CHIP=nnmac PRESIL_MODE=verify python layer.py [ROWS [K N]]
"""

import json
import sys

import torch
import torch_presil  # noqa: F401


class Int8Linear(torch.nn.Module):
    """y = (x w^T) * scale + bias, x and w in int8."""

    def __init__(self, linear: torch.nn.Linear):
        super().__init__()
        self.scale = float(linear.weight.detach().abs().max() / 127)
        self.register_buffer("weight", torch.round(linear.weight.detach() / self.scale).to(torch.int8))
        self.register_buffer("bias", linear.bias.detach().clone())

    def forward(self, x):
        step = float(x.abs().max() / 127)
        sums = torch._int_mm(torch.round(x / step).to(torch.int8), self.weight.t())
        return sums * (step * self.scale) + self.bias


def main(rows: int = 20, depth: int = 64, columns: int = 32) -> None:
    torch.manual_seed(0)
    model, x = Int8Linear(torch.nn.Linear(depth, columns)), torch.randn(rows, depth)
    expected = model(x)
    with torch.presil.explain() as explained, torch.presil.reports() as reports:
        found = model.to("presil")(x.to("presil")).cpu()
        launches = reports.take()
    print(explained)
    (product,) = [row for row in explained.operators() if row["op"] == "aten::_int_mm" and row["where"] != "composite"]
    result = {"equal": torch.equal(found, expected), "where": product["where"], "why": product["reason"]}
    print("RESULT", json.dumps(result | {"launches": launches}))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
