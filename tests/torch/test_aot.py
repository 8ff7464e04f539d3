# SPDX-License-Identifier: Apache-2.0
"""Programs compiled ahead of time: presil-run gives the bits and cycles of the launch in this process; what can't run
without the host is refused by name."""

import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_presil import aot

RUN = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).parents[2] / "build" / "fast")) / "bin" / "presil-run"


def presil_run(*arguments, status=0):
    done = subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def save_array(path, tensor):
    np.save(
        path, tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()
    )
    return path


def load_array(path, dtype):
    array = np.load(path)
    return (
        torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if dtype == torch.bfloat16
        else torch.from_numpy(array)
    )


class Trunk(nn.Module):
    """A stem and two of ResNet-18's basic blocks, as far as they are the chip's."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
        self.a1, self.an1, self.a2, self.an2 = (
            nn.Conv2d(16, 16, 3, 1, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.Conv2d(16, 16, 3, 1, 1, bias=False),
            nn.BatchNorm2d(16),
        )
        self.b1, self.bn1, self.b2, self.bn2 = (
            nn.Conv2d(16, 32, 3, 2, 1, bias=False),
            nn.BatchNorm2d(32),
            nn.Conv2d(32, 32, 3, 1, 1, bias=False),
            nn.BatchNorm2d(32),
        )
        self.down, self.dn = nn.Conv2d(16, 32, 1, 2, bias=False), nn.BatchNorm2d(32)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                nn.init.uniform_(m.running_mean, -0.3, 0.3)
                nn.init.uniform_(m.running_var, 0.5, 1.5)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = F.relu(self.an2(self.a2(F.relu(self.an1(self.a1(x))))) + x)
        return F.relu(self.bn2(self.b2(F.relu(self.bn1(self.b1(x))))) + self.dn(self.down(x)))


class TwoOfEach(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(12, 20), nn.Linear(20, 12)

    def forward(self, x, y):
        h = F.relu6(self.one(x))
        return self.two(h) + y, torch.bmm(h.view(2, 3, 20), h.view(2, 3, 20).transpose(1, 2))


CASES = {
    "trunk": (Trunk, lambda: (torch.randn(1, 3, 21, 18),)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 9, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(9, 9, 3, groups=3),
            nn.ReLU6(),
            nn.ConvTranspose2d(9, 5, 2, stride=2),
        ),
        lambda: (torch.randn(2, 4, 8, 7),),
    ),
    "mlp": (
        lambda: nn.Sequential(nn.Linear(30, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 10)),
        lambda: (torch.randn(5, 30),),
    ),
    "several inputs and outputs": (TwoOfEach, lambda: (torch.randn(6, 12), torch.randn(6, 12))),
}


def saved(tmp_path, name, dtype=torch.float32):
    build, make = CASES[name]
    model, inputs = build().eval().to(dtype), tuple(t.to(dtype) for t in make())
    path = tmp_path / "model.paot"
    summary = torch.presil.aot_save(torch.export.export(model, inputs), path)
    return model, inputs, path, summary


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", list(CASES))
def test_same_bits_as_the_launch_in_this_process(tmp_path, name, dtype):
    model, inputs, path, summary = saved(tmp_path, name, dtype)
    assert summary["launches"] == 1 and summary["bytes"] == path.stat().st_size
    files = [save_array(tmp_path / f"in{i}.npy", t) for i, t in enumerate(inputs)]
    outputs = [tmp_path / f"out{i}.npy" for i in range(summary["outputs"])]
    presil_run("--mode", "model", path, *files, *outputs)
    with torch.no_grad():
        expected = model.float()(*[t.float() for t in inputs])
        model = model.to(dtype).to("presil")
        compiled = torch.compile(model, backend="presil")(*[t.to("presil") for t in inputs])
    for file, reference, here in zip(outputs, *(v if isinstance(v, tuple) else (v,) for v in (expected, compiled))):
        got = load_array(file, dtype)
        assert torch.equal(got, here.cpu())
        tolerance = (2e-5 if dtype == torch.float32 else 3e-2) * reference.abs().max().item()
        torch.testing.assert_close(got.float(), reference, rtol=0, atol=tolerance)


def test_same_bits_and_cycles_on_the_rtl(tmp_path, rtl):
    model, inputs, path, _ = saved(tmp_path, "trunk")
    save_array(tmp_path / "in.npy", inputs[0])
    ran = json.loads(presil_run("--mode", "rtl", "--json", "-", path, tmp_path / "in.npy", tmp_path / "rtl.npy"))
    model = model.to("presil")
    with torch.no_grad(), torch.presil.reports() as reports:
        here = torch.compile(model, backend="presil")(inputs[0].to("presil"))
        launches = reports.take()
    assert [r["cycles"] for r in launches] == [launch["cycles"] for launch in ran["launches"]] and ran["cycles"] > 0
    assert torch.equal(load_array(tmp_path / "rtl.npy", torch.float32), here.cpu())
    presil_run("--mode", "model", "--json", tmp_path / "model.json", path, tmp_path / "in.npy", tmp_path / "model.npy")
    assert (tmp_path / "model.npy").read_bytes() == (tmp_path / "rtl.npy").read_bytes()
    assert json.loads((tmp_path / "model.json").read_text())["cycles"] is None


class Rows(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x):
        return super().forward(x).mean(1)


@pytest.mark.parametrize(
    "model, shape, text",
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.LogSoftmax(1)), (1, 3, 8, 8), "softmax"),
        (nn.Sequential(nn.Linear(4, 4), nn.Softplus()), (2, 4), "aten.log1p.default"),
        (Rows(), (2, 4), "aten.mean.dim"),
        (nn.Linear(4, 4, dtype=torch.float64), (2, 4), "aten.addmm.default"),
    ],
)
def test_what_needs_the_host_is_refused_by_name(tmp_path, model, shape, text):
    x = torch.randn(shape, dtype=next(model.parameters()).dtype)
    with pytest.raises(aot.AotError, match=text):
        torch.presil.aot_save(torch.export.export(model.eval(), (x,)), tmp_path / "no.paot")
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_names_node_and_line(tmp_path):
    class Twice(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return torch.cumsum(torch.cumsum(y, 0), 1)

    line = Twice.forward.__code__.co_firstlineno + 2
    with pytest.raises(aot.AotError) as refused:
        torch.presil.aot_save(torch.export.export(Twice(4, 4).eval(), (torch.randn(2, 4),)), tmp_path / "no.paot")
    place = f"aten.cumsum.default x2, first at node cumsum ({__file__}:{line})"
    assert place in str(refused.value) and "Export the part of the model between" in str(refused.value)


def test_training_mode_and_dynamic_shapes_are_refused(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(aot.AotError, match="eval mode"):
        torch.presil.aot_save(torch.export.export(model.train(), (torch.randn(2, 3, 5, 5),)), tmp_path / "no.paot")
    exported = torch.export.export(nn.Linear(4, 4), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(aot.AotError, match="dynamic"):
        torch.presil.aot_save(exported, tmp_path / "no.paot")


def test_wrong_arguments_are_named(tmp_path):
    _, inputs, path, _ = saved(tmp_path, "mlp")
    right = save_array(tmp_path / "in.npy", inputs[0])
    assert "input  0" in presil_run("--info", path) and "[5, 30]" in presil_run("--info", path)
    assert "1 inputs and 1 outputs, 1 files" in presil_run(path, right, status=2)
    np.save(tmp_path / "shape.npy", np.zeros((5, 31), np.float32))
    assert "float32 [5, 30], the file has float32 [5, 31]" in presil_run(
        path, tmp_path / "shape.npy", tmp_path / "o.npy", status=2
    )
    np.save(tmp_path / "dtype.npy", np.zeros((5, 30), np.int8))
    assert "the file has int8" in presil_run(path, tmp_path / "dtype.npy", tmp_path / "o.npy", status=2)
    np.save(tmp_path / "double.npy", np.zeros((5, 30)))
    assert "float32 ('<f4')" in presil_run(path, tmp_path / "double.npy", tmp_path / "o.npy", status=2)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.zeros((5, 30), np.float32)))
    assert "Fortran" in presil_run(path, tmp_path / "fortran.npy", tmp_path / "o.npy", status=2)
    assert "No such file" in presil_run(path, tmp_path / "none.npy", tmp_path / "o.npy", status=2)
    assert "--mode fast" in presil_run("--mode", "fast", path, right, tmp_path / "o.npy", status=2)
    assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize(
    "start, found",
    [
        (b"", "found an empty file"),
        (b"PRESILB\n" + bytes(400), "found a bundle of launches: presil-replay runs it"),
        (b"\x93NUMPY\x01\x00" + bytes(200), "found a NumPy array: the program comes before the arrays"),
        (b"PK\x03\x04" + bytes(200), "found a zip archive"),
        (b"PRESIL", 'found "PRESIL" (50 52 45 53 49 4c)'),
        (b"%\x00PRESILPR" + bytes(200), 'found "%.PRESIL" (25 00 50 52 45 53 49 4c)'),
    ],
)
def test_another_kind_of_file_is_named(tmp_path, start, found):
    stranger = tmp_path / "stranger"
    stranger.write_bytes(start)
    text = presil_run("--info", stranger, status=2)
    expected = "expected a program of torch.presil.aot_save (.paot, which begins with PRESILPR)"
    assert f"{stranger}: {expected}, {found}" in text
    stranger.write_bytes(b"PRESILPR" + bytes(183))
    assert "191 bytes, at least 192 expected: the file is truncated" in presil_run("--info", stranger, status=2)


def with_checksum(data: bytearray) -> bytes:
    import zlib

    data[20:24] = bytes(4)
    data[20:24] = zlib.crc32(bytes(data)).to_bytes(4, "little")
    return bytes(data)


def test_another_chip_is_refused(tmp_path):
    _, inputs, path, _ = saved(tmp_path, "mlp")
    data = bytearray(path.read_bytes())
    data[128] ^= 1
    path.write_bytes(with_checksum(data))
    text = presil_run("--mode", "model", path, save_array(tmp_path / "in.npy", inputs[0]), tmp_path / "o.npy", status=2)
    assert "hash" in text and "save the program again" in text


def test_damaged_files_are_refused_and_never_crash(tmp_path):
    _, inputs, path, _ = saved(tmp_path, "mlp")
    good, array, out = path.read_bytes(), save_array(tmp_path / "in.npy", inputs[0]), tmp_path / "o.npy"
    broken = tmp_path / "broken.paot"
    r = random.Random(20261121)
    for length in [0, 7, 191, 192, 500, len(good) - 1]:
        broken.write_bytes(good[:length])
        presil_run("--mode", "model", broken, array, out, status=2)
    for _ in range(10):
        data = bytearray(good)
        data[r.randrange(len(good))] ^= 1 << r.randrange(8)
        broken.write_bytes(data)
        presil_run("--mode", "model", broken, array, out, status=2)
    tables = 192 + 2 * 208 + 24
    crashed = []
    for i in range(60):  # with a right checksum: header, tables and commands have to hold by themselves
        data = bytearray(good)
        for _ in range(r.randint(1, 3)):
            data[r.choice([r.randrange(32, tables), r.randrange(tables, min(len(good), tables + 20000))])] = (
                r.randrange(256)
            )
        broken.write_bytes(with_checksum(data))
        done = subprocess.run([RUN, "--mode", "model", broken, array, out], capture_output=True, text=True, timeout=60)
        if done.returncode not in (0, 2, 4):
            crashed.append((i, done.returncode, done.stderr))
    assert not crashed
