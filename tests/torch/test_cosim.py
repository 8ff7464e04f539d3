# SPDX-License-Identifier: Apache-2.0
"""Co-simulation: the JSON's members, accuracy per layer and end to end, the controls that must fail, what a wrong
call says. On the twin (same bits)."""

import json
import os
import subprocess
import sys
import warnings

import pytest
import torch
from torch_presil import _C, cosim
from torch_presil.models import (
    ModelError,
    calibrate_batch_norm,
    load_model,
    parse_batches,
    parse_shape,
    seeded_inputs,
    select,
)

RESNET18 = "torchvision.models:resnet18"
LAYER_COSINE = {"bf16": 0.999, "int8": 0.99, "fp32": 0.999999}


def run(**kwargs):
    return cosim.run(cosim.Options(**{"model": RESNET18, "mode": "model", "baseline": False, **kwargs}))


@pytest.fixture(scope="module", params=["bf16", "int8", "fp32"])
def result(request):
    return run(dtype=request.param, shape=(1, 3, 224, 224) if request.param != "fp32" else (1, 3, 96, 96))


def passes(result) -> bool:
    """The accuracy check: every layer and the whole."""
    limit = LAYER_COSINE[result["dtype"]]
    layers = [row["cosine"] for row in result["layers"] if row["where"] == "chip"]
    reference = result["total"]["agreement"].get("emulation_cosine", 0.995)
    return bool(layers) and min(layers) >= limit and result["total"]["agreement"]["cosine"] >= reference - 0.002


def test_every_layer_and_the_whole_agree_with_fp32(result):
    layers = [row for row in result["layers"] if row["where"] == "chip"]
    assert len(layers) == 21 and layers[0]["name"] == "conv1" and layers[-1]["name"] == "fc"
    assert passes(result), [(r["name"], r["cosine"]) for r in layers if r["cosine"] < LAYER_COSINE[result["dtype"]]] + [
        result["total"]["agreement"]
    ]


def test_json_members(result):
    text = json.loads(json.dumps(result))
    assert {"chip", "dtype", "mode", "total", "layers"} <= set(text)
    common = {"macs", "cycles", "utilization", "dram_bytes", "stalls", "bound", "bit_exact"}
    assert common | {"sim_seconds", "host_seconds", "agreement"} <= set(text["total"])
    assert {"cosine", "max_abs", "top1"} <= set(text["total"]["agreement"])
    for row in text["layers"]:
        assert common | {"name", "shape", "where"} <= set(row)
        assert row["bit_exact"] is None
    by_name = {row["name"]: row for row in text["layers"]}
    size = text["input"][2] // 2
    assert by_name["conv1"]["macs"] == 64 * size * size * 147
    host = {row["name"] for row in text["layers"] if row["where"] == "host"}
    assert any("max_pool2d" in name for name in host)
    assert sum(row["macs"] for row in text["layers"]) == text["total"]["macs"]


@pytest.mark.parametrize("control", [{"zero_layer": "layer2.0.conv1"}, {"other_input": True}])
@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_the_check_fails_on_a_zeroed_layer_and_on_another_input(dtype, control):
    assert not passes(run(dtype=dtype, shape=(1, 3, 96, 96), **control))


def qnnpack_cosine(shape, seed) -> float:
    """PyTorch's own static quantization of the same model (min/max observers, per-channel weights) on its qnnpack
    kernels."""
    from torch.ao.quantization import MinMaxObserver, PerChannelMinMaxObserver, QConfig, QConfigMapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    torch.backends.quantized.engine = "qnnpack"
    model, calibration, example = (
        load_model(RESNET18, None, seed),
        seeded_inputs(shape, 8, seed + 2),
        seeded_inputs(shape, 1, seed + 1)[0],
    )
    calibrate_batch_norm(model, calibration)
    config = QConfig(
        activation=MinMaxObserver.with_args(dtype=torch.quint8),
        weight=PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
    )
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = prepare_fx(model, QConfigMapping().set_global(config), example)
        for x in calibration:
            prepared(x)
        return cosim.cosine(convert_fx(prepared)(example), model(example))


def test_int8_is_as_accurate_as_qnnpack_end_to_end():
    ours = run(dtype="int8", check_layers=False)["total"]["agreement"]["cosine"]
    assert ours >= qnnpack_cosine((1, 3, 224, 224), 0) - 0.002


def test_layers_pattern_runs_those_alone():
    result = run(dtype="bf16", shape=(1, 3, 64, 64), layers="layer2.*")
    assert {row["name"].split(".")[0] for row in result["layers"]} == {"layer2"} and len(result["layers"]) == 5


def test_a_model_from_a_file_with_weights(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), "
        "torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))\n"
    )
    model = load_model(f"{tmp_path}/mine.py:make")
    torch.save(model.state_dict(), tmp_path / "w.pt")
    result = run(model=f"{tmp_path}/mine.py:make", weights=str(tmp_path / "w.pt"), shape=(2, 3, 8, 8))
    assert [row["name"] for row in result["layers"] if row["where"] == "chip"] == ["0", "3"]
    assert result["total"]["agreement"]["cosine"] > 0.999


def test_wrong_calls_say_what_was_expected():
    for call, text in (
        (lambda: load_model("torchvision"), "package.module:callable"),
        (lambda: load_model("no.such.module:f"), "can't import"),
        (lambda: load_model("missing.py:f"), "there is no file"),
        (lambda: load_model("math:pi"), "expected a callable"),
        (lambda: load_model("math:sqrt2"), "has no"),
        (lambda: parse_shape("1,x"), "integers"),
        (lambda: select(["a", "b"], "c*"), "matches none"),
    ):
        with pytest.raises(ModelError, match=text):
            call()


def test_command_line(tmp_path):
    out = tmp_path / "r.json"
    command = [
        sys.executable,
        "-m",
        "torch_presil.cli",
        "cosim",
        RESNET18,
        "--input",
        "1,3,64,64",
        "--mode",
        "model",
        "--json",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "layer4.1.conv2" in done.stdout and "cosine" in done.stdout and json.loads(out.read_text())["mode"] == "model"
    )
    bad = subprocess.run(
        [*command[:3], "cosim", "nothing"], capture_output=True, text=True, timeout=100, env=os.environ
    )
    assert bad.returncode == 2 and "package.module:callable" in bad.stdout


def test_reports_are_complete(rtl):
    with torch.presil.reports() as reports:
        a = torch.randn(64, 64, device="presil", dtype=torch.bfloat16)
        (a @ a).cpu()
        taken = reports.take()
    assert len(taken) == 1 and taken[0]["cycles"] > 0 and taken[0]["macs"] == 64**3
    for engine, causes in taken[0]["stalls"].items():
        assert sum(causes.values()) == taken[0]["cycles"], engine
    assert _C.get_mode() == "rtl"


SMALL = """
from torch import nn
def make():
    convolutions = nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3)
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(32 * 14 * 14, 10))
def one():
    return nn.Sequential(nn.Conv2d(8, 4, 3), nn.Flatten(0))
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SMALL)
    return str(path)


def test_latency_and_throughput_by_batch(small):
    result = run(model=f"{small}:make", shape=(1, 8, 16, 16), mode="rtl", batches=(1, 2, 32))
    clock = result["properties"]["clock_mhz"]
    assert [row["batch"] for row in result["batches"]] == [1, 2, 32]
    for row in result["batches"]:
        assert row["images_per_second_simulated"] == pytest.approx(row["batch"] * clock * 1e6 / row["latency_cycles"])
        assert row["macs"] == row["batch"] * result["total"]["macs"]
    assert result["batches"][0]["latency_cycles"] == result["total"]["latency_cycles"] == result["total"]["cycles"] > 0
    cycles = [row["latency_cycles"] for row in result["batches"]]
    assert cycles[0] < cycles[1] < 2 * cycles[0] and cycles[1] < cycles[2] < 32 * cycles[0]


def test_batches_without_a_clock_and_wrong_ones(small):
    result = run(model=f"{small}:make", shape=(1, 8, 16, 16), batches=(1, 2))
    for row in [result["total"], *result["batches"]]:
        assert row["latency_cycles"] is None and row["images_per_second_simulated"] is None
    for row in [result["total"], *result["layers"]]:
        assert (
            row["macs"] >= 0 and [row[name] for name in ("cycles", "utilization", "dram_bytes", "stalls")] == [None] * 4
        ), row
    with pytest.raises(ValueError, match="does not keep the first dimension"):
        run(model=f"{small}:one", shape=(1, 8, 16, 16), batches=(2,))
    with pytest.raises(ValueError, match="can't be combined"):
        run(model=f"{small}:make", layers="*", batches=(2,))
    assert parse_batches("1, 2,32") == (1, 2, 32) and parse_batches(None) == ()
    for text in ("0", "a", "1,,2", "-1"):
        with pytest.raises(ModelError, match="expected positive numbers"):
            parse_batches(text)


def test_what_bounds_a_launch_is_the_chips_word():
    from torch_presil.cosim import bound

    ours = torch.presil.chip_names()
    assert [e["name"] for e in ours["engines"] if e.get("array")] == ["matrix"]
    assert "fetch_beats" in [c["name"] for c in ours["counters"]]
    assert bound({"matrix": {"busy": 7, "wait_load": 7}}, ours) == "compute"
    assert bound({"matrix": {"busy": 7, "wait_load": 8}}, ours) == "load"
    assert bound({"matrix": {"busy": 7, "command": 8}}, ours) == "overhead"
    theirs = {
        "engines": [{"name": "paper"}, {"name": "pen", "array": True}],
        "causes": [{"name": "dry", "bound": "ink"}, {"name": "writes", "bound": "hand", "works": True}],
    }
    assert bound({"paper": {"dry": 9}, "pen": {"dry": 3, "writes": 2}}, theirs) == "ink"
    assert bound({"paper": {"dry": 9}, "pen": {"dry": 3, "writes": 3}}, theirs) == "hand"
    assert bound({"paper": {"dry": 9}}, {"engines": [{"name": "paper"}], "causes": []}) is None
