# SPDX-License-Identifier: Apache-2.0
"""A PyTorch layer on the chip toy: int8 weights and activations, sums in int32 on the RTL, scaled on the host.

usage: PRESIL_LIBRARY_PATH=build PRESIL_CHIP=toy python tests/layer.py
"""

import torch
import torch_presil  # noqa: F401


class Int8Linear(torch.nn.Module):
    """y = (x * w^T) * scale + bias, x and w in int8."""

    def __init__(self, linear: torch.nn.Linear):
        super().__init__()
        self.scale = float(linear.weight.detach().abs().max() / 127)
        self.register_buffer("weight", torch.round(linear.weight.detach() / self.scale).to(torch.int8))
        self.register_buffer("bias", linear.bias.detach().clone())

    def forward(self, x):
        step = float(x.abs().max() / 127)
        sums = torch._int_mm(torch.round(x / step).to(torch.int8), self.weight.t())
        return sums * (step * self.scale) + self.bias


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        Int8Linear(torch.nn.Linear(64, 48)), torch.nn.ReLU(), Int8Linear(torch.nn.Linear(48, 16))
    )
    x = torch.randn(32, 64)
    expected = model(x)
    with torch.presil.explain() as explained:
        found = model.to("presil")(x.to("presil")).cpu()
    print(explained)
    why = [row["reason"] for row in explained.operators() if row["op"] == "aten::_int_mm" and row["where"] == "host"]
    assert not why, f"the host multiplied: {why}"
    launches = explained.totals()["chip"]["launches"]
    assert launches == 2, f"2 launches on the chip expected, {launches} found"
    assert torch.equal(found, expected), f"largest difference: {(found - expected).abs().max()}"
    print(f"{launches} products on the RTL, the same bits as the CPU")


if __name__ == "__main__":
    main()
