# SPDX-License-Identifier: Apache-2.0
"""presil cosim --dtype int8 --calibrate … --mixed …: noise against numpy on hooks, the trade, files of data, and the
command."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from int8_net import Net, data, make, train
from torch_presil import cosim
from torch_presil.commands.cosimulate import cosim as command
from torch_presil.fuse import fuse
from torch_presil.inputs import Inputs, ModelError
from torch_presil.int8 import calibration, mixed, noise
from torch_presil.quantize import Calibrated, QuantizedLayer

HERE = Path(__file__).parent
MODEL, DATA = f"{HERE}/int8_net.py:make", f"{HERE}/int8_net.py:train"
LAYERS = ["first", "depthwise", "second", "third", "last"]
AS_WRITTEN = {"first": "six", "depthwise": "relu", "second": None, "third": "third", "last": "last"}


def run(**kwargs):
    return cosim.run(cosim.Options(MODEL, **{"dtype": "int8", "mode": "model", "baseline": False, **kwargs}))


@pytest.fixture(scope="module")
def found():
    return run(calibrate=DATA, observer="percentile:99", mixed=(0, 1, 5))["int8"]


def decibels(expected: list, got: list) -> float:
    x, q = (np.concatenate([np.asarray(t, np.float64).ravel() for t in side]) for side in (expected, got))
    return 10 * np.log10(np.sum(x**2) / np.sum((x - q) ** 2))


class Reference:
    """The same network by itself: in fp32 as it was written, its layers' results by hooks; in int8 on the CPU, by the
    quantized layers' own integers there."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = make()
        self.inputs = [x for x, _ in train()]
        self.calibrated = Calibrated(fuse(self.model, self.inputs[0]), self.inputs, "percentile:99")
        self.int8 = self.calibrated.build()
        self.layers = {m.name: m for m in self.int8.modules() if isinstance(m, QuantizedLayer)}
        self.taken, self.given = {n: [] for n in LAYERS}, {n: [] for n in LAYERS}
        self.chained = {n: [] for n in LAYERS}
        with torch.inference_mode():
            self._hook()
            self.outputs = [self.model(x) for x in self.inputs]
            self.outputs_int8 = [self.int8(x) for x in self.inputs]

    def _hook(self) -> None:
        relus = []  # `relu` is called twice: behind depthwise, and behind the add

        def relu(_, args, out):
            relus.append(out)
            self.given["depthwise" if len(relus) % 2 else "second"].append(out.clone())

        self.model.relu.register_forward_hook(relu)
        for name in LAYERS:
            self.model.get_submodule(name).register_forward_hook(
                lambda m, args, out, name=name: self.taken[name].append(args[0].clone())
            )
        for name in ("six", "third", "last"):
            layer = next(n for n, where in AS_WRITTEN.items() if where == name)
            self.model.get_submodule(name).register_forward_hook(
                lambda m, args, out, layer=layer: self.given[layer].append(out.clone())
            )
        for name, layer in self.layers.items():
            layer.register_forward_hook(
                lambda m, args, out, name=name: self.chained[name].append(self.value(name, out))
            )

    def value(self, name: str, codes) -> np.ndarray:
        q = self.layers[name].out
        return (codes.numpy().astype(np.float64) - q.zero_point) * q.scale


@pytest.fixture(scope="module")
def reference():
    return Reference()


def rows(found) -> dict:
    return {row["name"]: row for row in found["layers"]}


def test_noise_end_to_end_is_that_of_hooks(found, reference):
    for name, row in rows(found).items():
        assert row["sqnr_db"] == pytest.approx(decibels(reference.given[name], reference.chained[name]), abs=1e-3), name
    assert found["output"]["sqnr_db"] == pytest.approx(
        decibels(reference.outputs, [t.numpy() for t in reference.outputs_int8]), abs=1e-3
    )
    same = [(a.argmax(-1) == b.argmax(-1)).numpy() for a, b in zip(reference.outputs, reference.outputs_int8)]
    assert found["output"]["top1"] == np.concatenate(same).mean() and found["output"]["rows"] == 8


def codes_of(values: torch.Tensor, q) -> torch.Tensor:
    codes = np.rint(values.numpy().astype(np.float32) * np.float32(1.0 / q.scale) + np.float32(q.zero_point))
    return torch.from_numpy(np.clip(codes, -128, 127).astype(np.int8))


@pytest.mark.parametrize("name", ["first", "depthwise", "third", "last"])
def test_noise_of_a_layer_alone_and_what_it_costs_the_output(found, reference, name):
    layer, row = reference.layers[name], rows(found)[name]
    with torch.inference_mode():
        alone = [reference.value(name, layer.forward(codes_of(x, layer.x))) for x in reference.taken[name]]
        assert row["alone_sqnr_db"] == pytest.approx(decibels(reference.given[name], alone), abs=1e-3)
        model, outputs = Net().eval(), []
        model.load_state_dict(reference.model.state_dict())
        # The hook stands behind the activation, where the layer of the chip ends.
        calls = []
        target = model.relu if name == "depthwise" else model.get_submodule(AS_WRITTEN[name])

        def instead(_, args, out):
            calls.append(out)
            if name == "depthwise" and len(calls) % 2 == 0:
                return out
            return torch.from_numpy(alone[len(outputs)]).float()

        target.register_forward_hook(instead)
        for x in reference.inputs:
            outputs.append(model(x).numpy())
    assert row["output_sqnr_db"] == pytest.approx(decibels(reference.outputs, outputs), abs=1e-2)


def test_saturation_and_range_are_counted(found, reference):
    for name, row in rows(found).items():
        q, values = reference.layers[name].out, np.concatenate([t.numpy().ravel() for t in reference.given[name]])
        codes = np.rint(values / np.float64(q.scale)) + q.zero_point
        cut = np.mean((codes < -128) | (codes > 127))
        assert row["saturation"] == pytest.approx(cut, abs=2 / len(values)), name
        used = np.concatenate([np.rint(c / q.scale).ravel() for c in reference.chained[name]])
        assert row["codes"] == used.max() - used.min() and row["range_used"] == row["codes"] / 255
    assert rows(found)["third"]["saturation"] > 0.001 and rows(found)["first"]["input_saturation"] > 0.001
    whole = run(calibrate=DATA, losses=True, check_layers=False)["int8"]  # min and max cut nothing of what they saw
    assert all(row["saturation"] == row["input_saturation"] == 0 for row in whole["layers"])


def test_the_worst_layer_is_the_one_that_was_broken():
    torch.manual_seed(0)
    model = make()
    calibrated = Calibrated(fuse(model, data(7)[0]), data(7))
    device = calibrated.build()
    (second,) = (m for m in device.modules() if getattr(m, "name", None) == "second")
    second.scale.mul_(0.3)
    place = lambda x: x.map(lambda t: t.contiguous(memory_format=torch.channels_last).to("presil"))
    found = noise.measure(calibrated.model, device.to("presil"), [Inputs((x,)) for x in data(7)], place)
    assert noise.worst(found["layers"])[0] == "second" and rows(found)["second"]["alone_sqnr_db"] < 16
    assert rows(found)["first"]["alone_sqnr_db"] > 25 and rows(found)["second"]["sqnr_db"] < 16


def test_mixed_keeps_the_worst(found):
    assert sorted(found["worst"]) == sorted(LAYERS) and found["kept"] == []
    costs = [rows(found)[name]["output_sqnr_db"] for name in found["worst"]]
    assert costs == sorted(costs)
    assert [row["kept"] for row in found["mixed"]] == [found["worst"][:n] for n in (0, 1, 5)]
    noises = [row["sqnr_db"] for row in found["mixed"]]
    assert noises[0] == found["output"]["sqnr_db"] < noises[1] < noises[2] and noises[2] > 40
    assert all(row["cycles"] is row["cycles_from"] is row["front"] is None for row in found["mixed"])


def test_cycles_of_a_mixture_are_those_of_the_rtl():
    result = run(calibrate=DATA, mixed=(2,), mode="rtl", check_layers=False)
    (row,) = result["int8"]["mixed"]
    assert row["cycles_from"] == "RTL" and row["cycles"] == result["total"]["cycles"] > 1000
    assert result["int8"]["kept"] == row["kept"] == result["int8"]["worst"][:2]
    plain = run(calibrate=DATA, mode="rtl", check_layers=False)
    by_name = [
        {r["name"]: (r["cycles"], r["dram_bytes"]) for r in one["layers"] if r["where"] == "chip"}
        for one in (result, plain)
    ]
    same = [name for name in LAYERS if by_name[0][name] == by_name[1][name]]
    assert set(same) == set(LAYERS) - set(row["kept"])


def test_cycles_of_a_mixture_in_mode_hybrid(tmp_path):
    """What is simulated the first time is known the second: the RTL's cycles both times."""
    wanted = {"calibrate": DATA, "mixed": (0, 5), "check_layers": False}
    rtl = run(mode="rtl", **wanted)
    with torch.backends.presil.flags(store=str(tmp_path / "timings.sqlite"), jobs=1):
        first, again = (run(mode="hybrid", **wanted) for _ in range(2))
    assert again["total"]["store_hits"] == again["total"]["launches"] > 0
    rows, *hybrid = (r["int8"]["mixed"] for r in (rtl, first, again))
    assert rows[0]["cycles"] != rows[1]["cycles"]
    for found in hybrid:
        assert [r["cycles_from"] for r in found] == ["timing store"] * 2
        for name in ("cycles", "dram_bytes", "kept", "sqnr_db", "front"):
            assert [r[name] for r in found] == [r[name] for r in rows]


def test_front():
    made = [(10, 5.0), (12, 5.0), (12, 9.0), (20, 8.0), (None, 99.0), (30, 20.0)]
    rows = [{"cycles": c, "sqnr_db": s} for c, s in made]
    mixed.mark_front(rows)
    assert [row["front"] for row in rows] == [True, False, True, False, None, True]


def test_numbers_of_layers():
    assert mixed.counts("3") == [3] and mixed.counts("0:3") == [0, 1, 2, 3] and mixed.counts("0:9:4,2") == [0, 2, 4, 8]
    for text in ("", "a", "3:1", "0:3:0", "-1"):
        with pytest.raises(ModelError, match="--mixed"):
            mixed.counts(text)


def test_data_of_every_form(tmp_path, monkeypatch):
    x = torch.arange(2 * 3 * 4, dtype=torch.float32).reshape(6, 4)

    def loaded(value, **more):
        torch.save(value, tmp_path / "d.pt")
        return calibration.load(str(tmp_path / "d.pt"), **more)

    for value in (x, list(x.split(1)), tuple(x.split(1)), [(row, torch.tensor([0])) for row in x.split(1)], x.double()):
        got = loaded(value)
        assert got.samples == 6 and [i.args[0].tolist() for i in got.inputs] == [[row] for row in x.tolist()]
    assert len(loaded(x, most=4).inputs) == 4
    assert [i.batch for i in loaded(x, form=Inputs((torch.zeros(4, 4),))).inputs] == [4, 2]
    named = loaded({"a": x, "labels": x}, form=Inputs(kwargs={"a": x[:1]}))
    assert named.samples == 6 and list(named.inputs[0].kwargs) == ["a"]
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "def loader():\n    return DataLoader(TensorDataset(torch.ones(5, 4), torch.zeros(5)), batch_size=2)\n"
        "def endless():\n    while True:\n        yield torch.ones(1, 4)\n"
    )
    assert calibration.load(f"{tmp_path}/mine.py:loader").samples == 5
    assert calibration.load(f"{tmp_path}/mine.py:endless", most=7).samples == 7


def test_wrong_data_say_which_input(tmp_path):
    x = torch.ones(3, 4)
    nan = torch.where(torch.arange(12).reshape(3, 4) == 9, torch.nan, x)
    for value, text in (
        (nan, "input 2: 1 of 4 values are NaN"),
        ([], "at least one input, found none"),
        (torch.ones(0, 4), "found a tensor of 0×4"),
        ([x, torch.ones(3, 5)], "input 1: expected a tensor of N×4, found 3×5"),
        ([x, x.int()], "input 1: expected torch.float32, found torch.int32"),
        ([x, 7], "input 1: expected a tensor, a tuple or a dictionary, found a int"),
        ({"a": x, "b": torch.ones(2)}, "as many rows"),
        (7, "DataLoader"),
    ):
        torch.save(value, tmp_path / "d.pt")
        with pytest.raises(ValueError, match=text):
            calibration.load(str(tmp_path / "d.pt"))
    with pytest.raises(ValueError, match="there is no such file"):
        calibration.load(str(tmp_path / "e.pt"))
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(ValueError, match="name a callable"):
        calibration.load(str(tmp_path / "model.pt"))


def test_wrong_calls():
    for options, text in (
        ({"dtype": "bf16", "calibrate": DATA}, "expected --dtype int8, found bf16"),
        ({"layers": "first", "losses": True}, "can't be combined"),
        ({"observer": "median"}, "minmax, histogram"),
        ({"calibrate": f"{HERE}/int8_net.py:narrow"}, "does not take the input.*it is the first of --calibrate"),
    ):
        with pytest.raises(ValueError, match=text):
            run(**options)


def test_it_is_said_where_inputs_come_from():
    kwargs = {"dtype": "int8", "mode": "model", "baseline": False, "check_layers": False, "losses": True}
    for model, shape, source, samples in (
        ("make", (1, 3, 12, 12), "drawn", 8),
        ("with_input", None, "the model's own input", 2),
    ):
        found = cosim.run(cosim.Options(f"{HERE}/int8_net.py:{model}", shape=shape, **kwargs))["int8"]
        assert found["calibration"] == {"source": source, "inputs": None, "samples": None}
        assert (found["evaluation"]["source"], found["evaluation"]["samples"]) == (source, samples)


def test_a_trained_batch_norm_keeps_its_statistics(tmp_path):
    (tmp_path / "trained.py").write_text(
        "import torch\nfrom torch import nn\ndef make():\n    norm = nn.BatchNorm2d(4)\n"
        "    norm.running_mean.fill_(3.0)\n    return nn.Sequential(nn.Conv2d(3, 4, 1), norm)\n"
    )
    made = cosim.prepare(cosim.Options(f"{tmp_path}/trained.py:make", shape=(1, 3, 8, 8), dtype="fp32"))
    assert made.source[1].running_mean.tolist() == [3.0] * 4


def test_command_writes_table_json_and_picture(tmp_path):
    call = lambda *more: CliRunner().invoke(command, [MODEL, "--dtype", "int8", "--mode", "verify", *map(str, more)])
    options = ["--calibrate", DATA, "--observer", "mse", "--mixed", "0:2", "--json", tmp_path / "r.json"]
    done = call(*options, "--plot", tmp_path / "p.svg")
    assert done.exit_code == 0, done.output
    assert "Where int8 loses" in done.output and "costs most: with it alone in int8" in " ".join(done.output.split())
    assert "int8_net.py:train: 8 samples in 4 inputs" in done.output  # and not the picture of a train
    found = json.loads((tmp_path / "r.json").read_text())["int8"]
    assert found["calibration"] == {"source": DATA, "inputs": 4, "samples": 8}
    assert [row["bf16_layers"] for row in found["mixed"]] == [0, 1, 2]
    assert all(row["cycles"] > 1000 and row["bit_exact"] for row in found["mixed"])
    picture = (tmp_path / "p.svg").read_text()
    assert '"observer": "mse"' in picture and str(found["mixed"][2]["cycles"]) in picture
    bad = call("--plot", tmp_path / "p.gif")
    assert bad.exit_code == 2 and "ends in .png or .svg" in " ".join(bad.output.split())
