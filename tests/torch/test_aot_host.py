# SPDX-License-Identifier: Apache-2.0
"""Programs whose launches have operators of the host between them: presil-run computes these as PyTorch does."""

import json
import struct

import pytest
import torch
import torch.nn.functional as F
import torchvision
from test_aot import load_array, presil_run, save_array, with_checksum
from torch import nn

from torch_presil import aot

HEADER, TENSOR, CONSTANT, STEP = 192, 208, 24, 16
CODES = 16


class Between(nn.Module):
    """A convolution, what is given, a convolution."""

    def __init__(self, pool, channels=6):
        super().__init__()
        self.first, self.pool, self.last = nn.Conv2d(3, channels, 3, padding=1), pool, nn.Conv2d(channels, 5, 1)

    def forward(self, x):
        return self.last(self.pool(F.relu(self.first(x))))


MAXIMA = {
    "2": nn.MaxPool2d(2),
    "ResNet's": nn.MaxPool2d(3, 2, 1),
    "overlapping, uneven": nn.MaxPool2d((3, 2), (2, 3), (1, 0)),
    "dilated": nn.MaxPool2d(3, 1, 1, 2),
    "ceil": nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    "whole plane": nn.MaxPool2d((11, 9)),
}
AVERAGES = {
    "2": nn.AvgPool2d(2),
    "padding": nn.AvgPool2d(3, 2, 1),
    "padding not counted": nn.AvgPool2d((3, 2), 1, 1, count_include_pad=False),
    "ceil": nn.AvgPool2d(4, 3, 1, ceil_mode=True),
    "divisor": nn.AvgPool2d(3, divisor_override=7),
    "adaptive, one": nn.AdaptiveAvgPool2d(1),
    "adaptive, windows": nn.AdaptiveAvgPool2d((11, 3)),
    "mean": lambda x: x.mean((2, 3), keepdim=True),
}


def saved(tmp_path, pool, dtype, where):
    model = Between(pool).eval().to(dtype).to(where)
    x = torch.randn(2, 3, 11, 9, dtype=dtype)
    summary = torch.presil.aot_save(torch.export.export(model, (x.to(where),)), tmp_path / "model.paot")
    assert (summary["host_operators"], summary["launches"], summary["operators"]) == (1, 2, 2)
    return model, x


def both(tmp_path, pool, dtype, where):
    model, x = saved(tmp_path, pool, dtype, where)
    save_array(tmp_path / "in.npy", x)
    presil_run("--mode", "model", tmp_path / "model.paot", tmp_path / "in.npy", tmp_path / "out.npy")
    with torch.no_grad():
        return load_array(tmp_path / "out.npy", dtype), torch.compile(model.to("presil"))(x.to("presil")).cpu()


@pytest.mark.parametrize("where", ["cpu", "presil"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", list(MAXIMA))
def test_maxima_are_pytorchs(tmp_path, name, dtype, where):
    got, expected = both(tmp_path, MAXIMA[name], dtype, where)
    assert torch.equal(got, expected)


@pytest.mark.parametrize("where", ["cpu", "presil"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", list(AVERAGES))
def test_averages_are_pytorchs_but_for_the_order_of_sums(tmp_path, name, dtype, where):
    got, expected = both(tmp_path, AVERAGES[name], dtype, where)
    tolerance = (1e-6 if dtype == torch.float32 else 2e-2) * expected.float().abs().max().item()
    torch.testing.assert_close(got.float(), expected.float(), rtol=0, atol=tolerance)


def test_not_a_number_is_the_maximum(tmp_path):
    saved(tmp_path, nn.MaxPool2d(2), torch.float32, "cpu")
    x = torch.randn(2, 3, 11, 9)
    x[1, :, 5, 4] = float("nan")
    save_array(tmp_path / "in.npy", x)
    presil_run("--mode", "model", tmp_path / "model.paot", tmp_path / "in.npy", tmp_path / "out.npy")
    out = load_array(tmp_path / "out.npy", torch.float32)
    assert not out[0].isnan().any() and out[1].isnan().any() and not out[1].isnan().all()


def test_first_last_and_neighbours(tmp_path):
    """A pooling that reads the program's input, two in a row, one whose result leaves."""
    model = nn.Sequential(
        nn.MaxPool2d(2),
        nn.Conv2d(3, 8, 3, padding=1),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 4, 1),
        nn.AvgPool2d(2),
    ).eval()
    x = torch.randn(1, 3, 32, 24)
    summary = torch.presil.aot_save(torch.export.export(model, (x,)), tmp_path / "model.paot")
    assert (summary["host_operators"], summary["launches"]) == (4, 2)
    save_array(tmp_path / "in.npy", x)
    presil_run("--mode", "model", tmp_path / "model.paot", tmp_path / "in.npy", tmp_path / "out.npy")
    with torch.no_grad():
        torch.testing.assert_close(load_array(tmp_path / "out.npy", torch.float32), model(x), rtol=1e-4, atol=1e-5)


def test_the_rtl_gives_the_models_bits_and_the_launches_cycles(tmp_path, rtl):
    model, x = saved(tmp_path, nn.MaxPool2d(3, 2, 1), torch.bfloat16, "cpu")
    save_array(tmp_path / "in.npy", x)
    run = ["--json", "-", tmp_path / "model.paot", tmp_path / "in.npy"]
    ran = json.loads(presil_run("--mode", "rtl", *run, tmp_path / "rtl.npy"))
    json.loads(presil_run("--mode", "verify", *run, tmp_path / "verify.npy"))
    presil_run("--mode", "model", *run, tmp_path / "model.npy")
    assert (tmp_path / "rtl.npy").read_bytes() == (tmp_path / "model.npy").read_bytes()
    assert (tmp_path / "verify.npy").read_bytes() == (tmp_path / "model.npy").read_bytes()
    assert ran["host_operators"] == 1 and len(ran["launches"]) == 2
    with torch.no_grad(), torch.presil.reports() as reports:
        torch.compile(model.to("presil"))(x.to("presil"))
        launches = reports.take()
    assert [r["cycles"] for r in launches] == [r["cycles"] for r in ran["launches"]]


def test_info_names_the_steps(tmp_path):
    saved(tmp_path, nn.MaxPool2d(2), torch.bfloat16, "cpu")
    lines = presil_run("--info", tmp_path / "model.paot").splitlines()
    assert [line.split("  ")[0] for line in lines[-3:]] == ["step 0", "step 1", "step 2"]
    assert lines[-2] == "step 1  host, pool_max of bfloat16 [2, 11, 9, 6] -> bfloat16 [2, 5, 4, 6]"


class Pointwise(nn.Module):
    """What is between two convolutions, of the first's result and of a plane of one pixel."""

    def __init__(self, function):
        super().__init__()
        self.first, self.gate, self.last = nn.Conv2d(3, 6, 3), nn.Conv2d(3, 6, (11, 9)), nn.Conv2d(6, 5, 1)
        self.function = function

    def forward(self, x):
        return self.last(self.function(self.first(x), self.gate(x)))


POINTWISE = {
    "sigmoid": (1, lambda x, gate: torch.sigmoid(x)),
    "silu": (1, lambda x, gate: F.silu(x)),
    "hardswish": (1, lambda x, gate: F.hardswish(x)),
    "hardsigmoid": (1, lambda x, gate: F.hardsigmoid(x)),
    "gelu": (1, lambda x, gate: F.gelu(x)),
    "gelu, tanh": (1, lambda x, gate: F.gelu(x, approximate="tanh")),
    "tanh, exp, abs, neg, sqrt": (5, lambda x, gate: x.tanh().exp().neg().abs().sqrt()),
    "relu that two read": (2, lambda x, gate: F.relu(x) + x),
    "hardtanh": (2, lambda x, gate: F.hardtanh(x.sigmoid(), 0.25, 0.625)),
    "clamp, one bound": (2, lambda x, gate: x.sigmoid().clamp(max=0.5)),
    "a gate": (2, lambda x, gate: x * torch.sigmoid(gate)),
    "a gate on the left": (1, lambda x, gate: gate - x),
    "quotient": (2, lambda x, gate: x / gate.exp()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", list(POINTWISE))
def test_functions_are_pytorchs(tmp_path, name, dtype):
    count, function = POINTWISE[name]
    model, x = Pointwise(function).eval().to(dtype), torch.randn(2, 3, 11, 9, dtype=dtype)
    summary = torch.presil.aot_save(torch.export.export(model, (x,)), tmp_path / "model.paot")
    assert summary["host_operators"] == count
    save_array(tmp_path / "in.npy", x)
    presil_run("--mode", "model", tmp_path / "model.paot", tmp_path / "in.npy", tmp_path / "out.npy")
    with torch.no_grad():
        expected = torch.compile(model.to("presil"))(x.to("presil")).cpu().float()
    tolerance = (2e-6 if dtype == torch.float32 else 2e-2) * expected.abs().max().item()
    torch.testing.assert_close(load_array(tmp_path / "out.npy", dtype).float(), expected, rtol=0, atol=tolerance)


class Together(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.one, self.two, self.last = nn.Conv2d(3, 6, 1), nn.Conv2d(3, 6, 1), nn.Conv2d(12 if dim == 1 else 6, 5, 1)
        self.dim = dim

    def forward(self, x):
        return self.last(torch.cat([self.one(x), self.two(x)], self.dim))


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1])
def test_concatenations_are_pytorchs(tmp_path, dim):
    model, x = Together(dim).eval(), torch.randn(2, 3, 7, 5)
    summary = torch.presil.aot_save(torch.export.export(model, (x,)), tmp_path / "model.paot")
    assert (summary["host_operators"], summary["launches"]) == (2, 2)
    save_array(tmp_path / "in.npy", x)
    presil_run("--mode", "model", tmp_path / "model.paot", tmp_path / "in.npy", tmp_path / "out.npy")
    with torch.no_grad():
        expected = torch.compile(model.to("presil"))(x.to("presil")).cpu()
    assert torch.equal(load_array(tmp_path / "out.npy", torch.float32), expected)


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "squeezenet1_1"])
def test_whole_networks(tmp_path, name):
    """With the host's operators in all places where torchvision has them."""
    model, x = getattr(torchvision.models, name)(num_classes=10), torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        model.train()(torch.randn(4, 3, 64, 64))
        expected = model.eval()(x)
    torch.presil.aot_save(torch.export.export(model, (x,)), tmp_path / "model.paot")
    save_array(tmp_path / "in.npy", x)
    presil_run("--mode", "model", tmp_path / "model.paot", tmp_path / "in.npy", tmp_path / "out.npy")
    tolerance = 2e-5 * expected.abs().max().item()
    torch.testing.assert_close(load_array(tmp_path / "out.npy", torch.float32), expected, rtol=0, atol=tolerance)


def where_steps_begin(data) -> int:
    inputs, outputs, constants = struct.unpack("<III", data[132:144])
    return HEADER + (inputs + outputs) * (TENSOR + CODES) + constants * CONSTANT


OPERATOR = STEP + STEP  # behind the step of the first launch and the head of the second
BENT = {
    "no step": (lambda at: 160, struct.pack("<I", 0), "0 steps"),
    "a step too many": (lambda at: 160, struct.pack("<I", 4), "step 3 does not fit"),
    "more commands than there are": (lambda at: at + 8, struct.pack("<Q", 1 << 40), "commands of step 0 don't fit"),
    "a convolution": (lambda at: at + OPERATOR, struct.pack("<I", 2), "an operator of kind 2"),
    "nine inputs": (lambda at: at + OPERATOR + 4, struct.pack("<I", 9), "9 inputs"),
    "an operand outside": (lambda at: at + OPERATOR + 16 + 72, struct.pack("<Q", 1 << 40), "operand 0 does not fit"),
    "a window of a gigabyte": (
        lambda at: at + OPERATOR + 16 + 2 * TENSOR + 40,
        struct.pack("<qq", 1 << 20, 1 << 20),
        "more work",
    ),
    "a window of nothing": (lambda at: at + OPERATOR + 16 + 2 * TENSOR + 40, struct.pack("<q", 0), "more work"),
    "a stride beyond": (
        lambda at: at + OPERATOR + 16 + 2 * TENSOR + 104 + 40,
        struct.pack("<q", 1 << 21),
        "attribute 1 is 2097152",
    ),
}


@pytest.mark.parametrize("name", list(BENT))
def test_damaged_steps_are_refused(tmp_path, name):
    saved(tmp_path, nn.MaxPool2d(2), torch.float32, "cpu")
    where, bytes_, text = BENT[name]
    data = bytearray((tmp_path / "model.paot").read_bytes())
    assert struct.unpack("<I", data[8:12]) == (3,)
    at = where(where_steps_begin(data))
    data[at : at + len(bytes_)] = bytes_
    (tmp_path / "model.paot").write_bytes(with_checksum(data))
    save_array(tmp_path / "in.npy", torch.randn(2, 3, 11, 9))
    said = presil_run("--mode", "model", tmp_path / "model.paot", tmp_path / "in.npy", tmp_path / "o.npy", status=2)
    assert text in said and "the file is damaged" in said
    assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize(
    "model, shape, text",
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(4)), (1, 3, 9, 9), "_adaptive_avg_pool2d"),
        (nn.Sequential(nn.Conv1d(3, 4, 3), nn.MaxPool1d(2)), (1, 3, 8), "a convolution of a view"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2, return_indices=True)), (1, 3, 8, 8), "max_pool2d"),
    ],
)
def test_other_poolings_are_refused_by_name(tmp_path, model, shape, text):
    with pytest.raises(aot.AotError, match=text):
        torch.presil.aot_save(torch.export.export(model.eval(), (torch.randn(shape),)), tmp_path / "no.paot")
    assert list(tmp_path.iterdir()) == []
