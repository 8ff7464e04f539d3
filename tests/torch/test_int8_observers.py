# SPDX-License-Identifier: Apache-2.0
"""quantize(): observers against numpy on the same values, layers kept in bf16, the state dict, and what calibration
refuses."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from int8_net import data, network
from torch.ao.quantization.observer import HistogramObserver, MinMaxObserver, MovingAverageMinMaxObserver
from torch_presil.fuse import fuse
from torch_presil.fused_layer import FusedLayer, wrap
from torch_presil.int8 import observers
from torch_presil.quantize import Calibrated, QuantizedLayer, quantize


def seen(model, names) -> dict:
    """What layers gave for data(1), by hooks on the model as it was written."""
    found = {name: [] for name in names}
    hooks = [model.get_submodule(n).register_forward_hook(lambda m, a, out, n=n: found[n].append(out)) for n in names]
    with torch.inference_mode():
        for x in data(1):
            model(x)
    for hook in hooks:
        hook.remove()
    return {name: torch.cat([o.flatten() for o in outs]).numpy() for name, outs in found.items()}


def affine(low, high) -> tuple:
    """(scale, zero point of int8 codes) of numerics.md, in numpy."""
    low, high = min(np.float64(low), 0.0), max(np.float64(high), 0.0)
    scale = np.float32((high - low) / 255)
    return float(scale), int(np.clip(np.rint(-low / np.float64(scale)), 0, 255)) - 128


def found(observer) -> dict:
    model = network(0)
    return Calibrated(fuse(model, data(1)[0]), data(1), observer).found


def test_minmax_is_least_and_largest():
    values = seen(network(0), ["six", "third", "last"])
    ours = found("minmax")
    for node, name in (("first", "six"), ("third", "third"), ("last", "last")):
        assert (ours[node].scale, ours[node].zero_point) == affine(values[name].min(), values[name].max()), name
    theirs = found(lambda: MinMaxObserver(dtype=torch.quint8, eps=2.0**-60))  # divides in fp32
    assert all(
        theirs[n].zero_point == q.zero_point and abs(theirs[n].scale / q.scale - 1) < 2e-7 for n, q in ours.items()
    )


def test_histogram_is_torchs():
    theirs = HistogramObserver(dtype=torch.quint8)
    for x in data(1):
        theirs(x)
    scale, zero_point = theirs.calculate_qparams()
    ours, whole = (found(name)["x"] for name in ("histogram", "minmax"))
    assert (ours.scale, ours.zero_point) == (float(scale), int(zero_point) - 128)
    assert ours.zero_point != whole.zero_point and ours.scale < 0.9999 * whole.scale, "the data are such that it cuts"


@pytest.mark.parametrize("percent", [99.99, 99.0, 90.0])
def test_percentile_cuts_as_many_below_as_above(percent):
    values = seen(network(0), ["third"])["third"]
    ours = found(f"percentile:{percent}")["third"]
    low, high = (ours.zero_point * -1 - 128) * ours.scale, (127 - ours.zero_point) * ours.scale
    part = (1 - percent / 100) / 2
    bins = (values.max() - values.min()) / 2048 + ours.scale
    assert abs(low - np.quantile(values, part)) < 2 * bins and abs(high - np.quantile(values, 1 - part)) < 2 * bins
    assert found("percentile")["third"] == found("percentile:99.99")["third"]


def error_of(values, low, high) -> float:
    scale, zero_point = affine(low, high)
    codes = np.clip(np.rint(values / scale) + zero_point, -128, 127)
    return float(np.mean((values - (codes - zero_point) * scale) ** 2))


@pytest.mark.parametrize("kind", ["two-sided", "rectified"])
def test_mse_is_the_best_range_that_a_search_finds(kind):
    values = np.random.default_rng(0).standard_t(3, 40000).astype(np.float32)
    values = np.maximum(values, 0) if kind == "rectified" else values
    observer = observers.maker("mse")()
    for part in np.split(values, 4):
        observer.note(torch.from_numpy(part))
    q = observer.parameters()
    ours = error_of(values, (-128 - q.zero_point) * q.scale, (127 - q.zero_point) * q.scale)
    shares = np.linspace(0.02, 1, 50)
    search = [(values.min() * a, values.max() * b) for a in (shares if kind == "two-sided" else [0.0]) for b in shares]
    best, whole = min(error_of(values, *r) for r in search), error_of(values, values.min(), values.max())
    assert ours <= 1.003 * best < 0.99 * whole, (ours, best, whole)


def test_observers_that_are_none():
    for wrong, text in (
        ("median", "minmax, histogram, percentile, mse"),
        ("percentile:120", "above 50"),
        ("percentile:x", "above 50"),
        ("mse:3", "expected one of"),
        (lambda: MinMaxObserver(dtype=torch.qint8), "quint8"),
    ):
        with pytest.raises(ValueError, match=text):
            quantize(fuse(network(0), data(1)[0]), data(1), wrong)
    quantize(fuse(network(0), data(1)[0]), data(1), lambda: MovingAverageMinMaxObserver(dtype=torch.quint8))


class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(3, 4, 1), torch.nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.b(torch.log(self.a(x)))


def test_calibration_names_input_and_layer():
    good = data(1)
    fused = fuse(network(0), good[0])
    bad = [good[0], torch.where(good[1] > 1, torch.nan, good[1])]
    for inputs, text in (
        ([], "at least one input"),
        (bad, "calibration input 1: [0-9]+ of 864 values are NaN"),
        ([good[0], good[1], torch.zeros(1, 4, 12, 12)], "calibration input 2, layer first: .*4 channels"),
        ([good[0], torch.zeros(0, 3, 12, 12)], r"calibration input 1: .*empty tensor \(0, 3, 12, 12\)"),
    ):
        with pytest.raises(ValueError, match=text):
            quantize(fused, inputs)
    broken = Broken().eval()
    with pytest.raises(ValueError, match=r"input 0, operator log .*NaN"):
        quantize(fuse(broken, good[0]), good)
    with pytest.raises(ValueError, match="input 0, what layer b takes: .*NaN"):
        quantize(wrap(broken, ["a", "b"]), good)


def watched(model, x) -> dict:
    """Name of a layer -> (inputs, output) as they were on the device."""
    calls = {}
    for m in model.modules():
        if isinstance(m, (FusedLayer, QuantizedLayer)):
            m.register_forward_hook(lambda m, a, out: calls.__setitem__(m.name, ([t.cpu() for t in a], out.cpu())))
    with torch.inference_mode():
        model(x.to("presil")).cpu()
    return calls


def values_of(codes, q):
    return ((codes.numpy().astype(np.float32) - np.float32(q.zero_point)) * np.float32(q.scale)).astype(np.float32)


def test_boundaries_between_int8_and_bf16():
    """depthwise is kept between `first` in int8 and `second`, whose residual comes past it; `third` takes what the host
    made of a layer, `last` what a pooling did."""
    fused = fuse(network(0), data(1)[0])
    calibrated = Calibrated(fused, data(1))
    q = calibrated.found
    calls = watched(calibrated.build(keep=["depthwise"]).to("presil"), data(2)[0])
    (x,), out = calls["depthwise"]
    pooled = torch.nn.functional.max_pool2d(calls["first"][1].float(), 2)
    assert torch.equal(x, torch.from_numpy(values_of(pooled, q["first"])).to(torch.bfloat16))
    assert out.dtype == torch.bfloat16
    codes, residual = calls["second"][0]
    wanted = np.clip(np.rint(out.float().numpy() * np.float32(1 / q["depthwise"].scale) + q["depthwise"].zero_point),
                     -128, 127)  # fmt: skip
    assert np.array_equal(codes.numpy(), wanted) and torch.equal(residual.float(), pooled)
    calls = watched(calibrated.build(keep=["first", "second", "last"]).to("presil"), data(2)[0])
    assert calls["second"][0][1].dtype == torch.bfloat16  # of the pooling behind `first`
    (x,), out = calls["depthwise"]
    assert x.dtype == torch.int8 and out.dtype == torch.int8
    assert torch.equal(calls["second"][0][0], torch.from_numpy(values_of(out, q["depthwise"])).to(torch.bfloat16))


def noise(model, x, reference) -> float:
    with torch.inference_mode():
        got, wanted = model.to("presil")(x.to("presil")).cpu().float(), reference(x)
    return float((got - wanted).norm() / wanted.norm())


def test_layers_in_bf16_are_nearer_to_fp32():
    model = network(0)
    calibrated = Calibrated(fuse(model, data(1)[0]), data(1))
    names = ["first", "depthwise", "second", "third", "last"]
    none, all_of_them = (noise(calibrated.build(keep), data(1)[1], model) for keep in ((), names))
    assert all_of_them < 0.75 * none
    layers = Calibrated(wrap(model, names), data(1))
    assert noise(layers.build(names), data(1)[1], model) < 0.75 * noise(layers.build(), data(1)[1], model)
    with pytest.raises(ValueError, match="expected names of layers such as first.*'seventh'"):
        calibrated.build(["seventh"])


@pytest.mark.parametrize("keep", [(), ("depthwise",)])
@pytest.mark.parametrize("whole", [True, False])
def test_a_state_dict_restores_a_quantized_model(tmp_path, keep, whole):
    names = ["first", "depthwise", "second", "third", "last"]

    def built(seed, calibration, observer):
        model = network(seed)
        ready = fuse(model, data(1)[0]) if whole else wrap(model, names)
        return Calibrated(ready, calibration, observer).build(keep)

    model, x = built(0, data(1), "minmax"), data(2)[0]
    with torch.inference_mode():
        wanted = model(x)
        on_device = model.to("presil")(x.to("presil")).cpu()
    torch.save(model.state_dict(), tmp_path / "int8.pt")
    afresh = built(5, [3 * t for t in data(3)], "mse")
    with torch.inference_mode():
        assert not torch.equal(afresh(x), wanted)
        afresh.load_state_dict(torch.load(tmp_path / "int8.pt", weights_only=True, map_location="cpu"))
        assert torch.equal(afresh(x), wanted)
        again = built(6, data(4), "minmax").to("presil")
        again.load_state_dict(torch.load(tmp_path / "int8.pt", weights_only=True, map_location="cpu"))
        assert torch.equal(again(x.to("presil")).cpu(), on_device)


def test_a_state_dict_of_another_model_is_refused():
    model = quantize(fuse(network(0), data(1)[0]), data(1))
    state = model.state_dict()
    state["q_second._extra_state"] = state["q_second._extra_state"][:2]
    with pytest.raises(ValueError, match=r"second has 3 pairs .* found a tensor \(2, 2\)"):
        model.load_state_dict(state)


def test_the_script_of_docs_int8(tmp_path, monkeypatch):
    page = (Path(__file__).resolve().parents[2] / "docs" / "int8.md").read_text()
    script = re.search(r"## In a script\n```python\n(.*?)```", page, re.S)[1].replace("features.0.0", "first")
    monkeypatch.chdir(tmp_path)
    known = {"model": network(0), "images": data(1)}
    exec(script, known)
    with torch.inference_mode():
        assert torch.equal(known["again"].to("presil")(data(1)[0].to("presil")).cpu(), known["out"].cpu())
