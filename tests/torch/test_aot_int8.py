# SPDX-License-Identifier: Apache-2.0
"""Quantized models ahead of time: presil-run takes and gives the real values of PyTorch's forward, bit for bit."""

import json
import struct

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_aot import presil_run, save_array, with_checksum
from torch import nn

from torch_presil import aot
from torch_presil.fuse import fuse
from torch_presil.inputs import Inputs
from torch_presil.quantize import Quantize, quantize

HEADER, TENSOR = 192, 208


class Trunk(nn.Module):
    """Convolutions with stride, groups and a residual; flattened to linear layers without a copy (one pixel)."""

    def __init__(self):
        super().__init__()
        self.stem, self.a = nn.Conv2d(3, 16, 5, 2, 2), nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.b, self.last = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 24, (7, 6))

    def forward(self, x):
        x = F.relu(self.stem(x))
        return self.last(F.relu(self.b(F.relu6(self.a(x))) + x))


class TwoOfEach(nn.Module):
    """One input is read by two layers; one result is codes of another scale."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(12, 20), nn.Linear(20, 12), nn.Linear(12, 7)

    def forward(self, x, y):
        return F.relu(self.two(F.relu(self.one(x))) + y), self.three(x)


class Pools(nn.Module):
    """As ResNet's: on codes."""

    def __init__(self):
        super().__init__()
        self.stem, self.a, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 6)
        self.largest, self.average = nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1, count_include_pad=False)

    def forward(self, x):
        x = self.average(F.relu(self.a(self.largest(F.relu(self.stem(x))))))
        return self.last(F.adaptive_avg_pool2d(x, 1).flatten(1))


CASES = {
    "pools": (Pools, lambda: (3 * torch.randn(2, 3, 21, 15),)),
    "trunk": (Trunk, lambda: (3 * torch.randn(2, 3, 13, 11),)),
    "several inputs and outputs": (TwoOfEach, lambda: (2 * torch.randn(6, 12), torch.randn(6, 12))),
}


def saved(tmp_path, name):
    build, make = CASES[name]
    inputs = make()
    given = Inputs(inputs)
    model = quantize(fuse(build().eval(), given), [given]).to("presil")
    on_device = tuple(t.to("presil") for t in inputs)
    path = tmp_path / "model.paot"
    return model, inputs, path, torch.presil.aot_save(torch.export.export(model, on_device), path)


def ran(tmp_path, path, inputs, summary, *options):
    files = [save_array(tmp_path / f"in{i}.npy", t) for i, t in enumerate(inputs)]
    outputs = [tmp_path / f"out{i}.npy" for i in range(summary["outputs"])]
    presil_run(*options, path, *files, *outputs)
    return [torch.from_numpy(np.load(o)) for o in outputs]


def eager(model, inputs):
    with torch.no_grad():
        results = model(*(t.to("presil") for t in inputs))
    return [t.cpu() for t in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("name", list(CASES))
def test_same_bits_as_eager(tmp_path, name):
    model, inputs, path, summary = saved(tmp_path, name)
    assert summary["launches"] == 1 + summary["host_operators"] - (name == "pools")
    assert summary["host_operators"] == (3 if name == "pools" else 0) and summary["bytes"] == path.stat().st_size
    expected = eager(model, inputs)
    for got, want in zip(ran(tmp_path, path, inputs, summary, "--mode", "model"), expected, strict=True):
        assert got.dtype == torch.float32 and torch.equal(got, want)
    # Ties, both ends of the range and beyond, and what is no number.
    info = presil_run("--info", path)
    assert "float32" in info and "as int8: factor" in info
    factor = struct.unpack("<f", path.read_bytes()[HEADER + TENSOR : HEADER + TENSOR + 4])[0]
    infinite = float("inf")
    odd = torch.tensor([-1e9, 1e9, 0.0, -0.0, infinite, -infinite, float("nan"), 3e-39, -130.5, 127.4999])
    for value in (*odd.tolist(), *((k + 0.5) / factor for k in range(-6, 7))):
        edge = (torch.full_like(inputs[0], value), *inputs[1:])
        for got, want in zip(ran(tmp_path, path, edge, summary, "--mode", "model"), eager(model, edge), strict=True):
            assert torch.equal(got, want), value


def test_same_bits_and_cycles_on_the_rtl(tmp_path, rtl):
    model, inputs, path, summary = saved(tmp_path, "trunk")
    run = tmp_path / "run.json"
    (got,) = ran(tmp_path, path, inputs, summary, "--mode", "rtl", "--json", run)
    compiled, on_device = torch.compile(model, backend="presil"), inputs[0].to("presil")
    with torch.no_grad(), torch.presil.reports() as reports:
        here = compiled(on_device).cpu()
        launches = reports.take()
    assert torch.equal(got, here)
    ran_there = json.loads(run.read_text())["launches"]
    assert [r["cycles"] for r in launches] == [launch["cycles"] for launch in ran_there] and launches[0]["cycles"] > 0


def test_codes_may_be_given(tmp_path):
    model, inputs, path, summary = saved(tmp_path, "trunk")
    (quantizer,) = (m for m in model.modules() if isinstance(m, Quantize))
    codes = quantizer(inputs[0])
    assert codes.dtype == torch.int8
    np.save(tmp_path / "in0.npy", codes.numpy())
    presil_run("--mode", "model", path, tmp_path / "in0.npy", tmp_path / "o.npy")
    assert torch.equal(torch.from_numpy(np.load(tmp_path / "o.npy")), eager(model, inputs)[0])
    np.save(tmp_path / "in0.npy", inputs[0].numpy().astype(np.int32))
    text = presil_run("--mode", "model", path, tmp_path / "in0.npy", tmp_path / "o.npy", status=2)
    assert "is float32 [2, 3, 13, 11], the file has int32" in text


def test_a_program_without_codes_is_of_version_1(tmp_path):
    torch.presil.aot_save(torch.export.export(nn.Linear(4, 3), (torch.randn(2, 4),)), tmp_path / "plain.paot")
    assert struct.unpack("<I", (tmp_path / "plain.paot").read_bytes()[8:12]) == (1,)
    _, _, path, _ = saved(tmp_path, "trunk")
    assert struct.unpack("<I", path.read_bytes()[8:12]) == (2,)


@pytest.mark.parametrize(
    "field, value, text",
    [
        (0, struct.pack("<f", -0.5), "factor -0.5"),
        (0, struct.pack("<f", float("inf")), "factor inf"),
        (0, struct.pack("<f", float("nan")), "factor nan"),
        (0, struct.pack("<f", 0.0), "zero point"),
        (4, struct.pack("<i", 128), "zero point 128"),
        (4, struct.pack("<i", -129), "zero point -129"),
    ],
)
def test_damaged_codes_are_refused(tmp_path, field, value, text):
    _, _, path, _ = saved(tmp_path, "trunk")
    data, at = bytearray(path.read_bytes()), HEADER + TENSOR + field
    data[at : at + 4] = value
    path.write_bytes(with_checksum(data))
    said = presil_run("--info", path, status=2)
    assert text in said and "the file is damaged" in said


def test_what_needs_the_host_is_refused_by_name(tmp_path):
    x = torch.randn(1, 3, 8, 8)
    model = quantize(fuse(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Softplus()).eval(), x), [x])
    with pytest.raises(aot.AotError, match="log1p|softplus"):
        torch.presil.aot_save(torch.export.export(model.to("presil"), (x.to("presil"),)), tmp_path / "no.paot")
    with pytest.raises(aot.AotError, match=r'a quantized model after .to\("presil"\)'):
        torch.presil.aot_save(torch.export.export(model.cpu(), (x,)), tmp_path / "no.paot")
    assert list(tmp_path.iterdir()) == []
