# SPDX-License-Identifier: Apache-2.0
"""Co-simulation of what is not one image in, one tensor out: several inputs, dictionaries, classes of transformers;
figures that must not lie; what is refused before a model is made; settings afterwards. On the twin (same bits)."""

import io
import json
import os
import subprocess
import sys

import pytest
import torch
from rich.console import Console
from torch_presil import _C, cosim, cosim_prepare, cosim_report

MODELS = """
import time
import torch
from torch import nn

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 20), nn.Linear(8, 20)
    def forward(self, x, y):
        return self.a(x) + self.b(y), {"left": self.a(x), "sum": (x.sum(-1),)}

class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.out = nn.Embedding(50, 16), nn.Linear(16, 9)
    def forward(self, ids, mask=None, scale=None):
        h = self.e(ids)
        if mask is not None:
            h = h * mask.unsqueeze(-1)
        return {"logits": self.out(h), "count": mask.sum()}

class Zero(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 4))
        for p in self.parameters():
            p.data.zero_()

class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.slow, self.fc = nn.Flatten(), nn.Linear(12, 4)
    def forward(self, x):
        if x.device.type == "cpu":
            time.sleep(0.5)
        return self.fc(self.slow(x))

def with_tuple():
    return Two(), (torch.randn(3, 12), torch.randn(3, 8))

def with_dictionary():
    return Named(), {"ids": torch.randint(0, 50, (2, 7)), "mask": torch.ones(2, 7)}

def untraceable():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)
        def forward(self, x):
            h = self.conv(x).relu().mean((2, 3))
            return self.fc(h) if float(h.sum()) > -1e9 else h
    return Branches()

def never():
    raise AssertionError("the model was made")
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "cosim_models.py"
    path.write_text(MODELS)
    return str(path)


def run(**kwargs):
    return cosim.run(cosim.Options(**{"mode": "model", "baseline": False, "forwards": 1, **kwargs}))


def chip_rows(result):
    return [row["name"] for row in result["layers"] if row["where"] == "chip"]


@pytest.mark.parametrize("dtype", ["bf16", "int8", "fp32"])
def test_several_inputs_and_a_nested_result(file, dtype):
    result = run(model=f"{file}:with_tuple", dtype=dtype)
    assert result["input"] == {"[0]": [3, 12], "[1]": [3, 8]}
    agreement = result["total"]["agreement"]
    assert list(agreement["outputs"]) == ["[0]", "[1].left", "[1].sum[0]"]
    assert agreement["cosine"] == min(a["cosine"] for a in agreement["outputs"].values()) > 0.99
    assert json.loads(json.dumps(result))["total"]["macs"] == 3 * 20 * (12 + 12 + 8)


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_a_dictionary_in_and_out(file, dtype):
    result = run(model=f"{file}:with_dictionary", dtype=dtype)
    assert chip_rows(result) == ["out"] and result["input"] == {"ids": [2, 7], "mask": [2, 7]}
    assert list(result["total"]["agreement"]["outputs"]) == ["logits", "count"]
    assert result["total"]["agreement"]["cosine"] > 0.99
    assert result["total"]["agreement"]["outputs"]["count"]["reference"] == "constant"


def test_a_model_that_torch_fx_can_not_trace_runs_layer_by_layer(file):
    result = run(model=f"{file}:untraceable", shape=(2, 3, 9, 9), layers=None)
    assert chip_rows(result) == ["conv", "fc"] and result["total"]["agreement"]["cosine"] > 0.99
    alone = run(model=f"{file}:untraceable", shape=(2, 3, 9, 9), layers="fc")
    assert chip_rows(alone) == ["fc"] and alone["layers"][0]["cosine"] > 0.999


SMALL = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
TRANSFORMERS = {
    "BertModel": ({**SMALL, "vocab_size": 99}, ("last_hidden_state", "pooler_output"), 7),
    "GPT2LMHeadModel": ({"n_layer": 1, "n_embd": 32, "n_head": 2, "vocab_size": 99}, ("logits",), 5),
    "WhisperForConditionalGeneration": (
        {
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "num_mel_bins": 8,
            "max_source_positions": 20,
            "vocab_size": 99,
            "pad_token_id": 0,
        },
        ("logits", "encoder_last_hidden_state"),
        17,
    ),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_class_of_transformers_by_its_name(name):
    settings, outputs, layers = TRANSFORMERS[name]
    result = run(model=f"transformers:{name}", config=settings)
    agreement = result["total"]["agreement"]
    assert tuple(agreement.get("outputs", outputs)) == outputs and agreement["cosine"] > 0.99, agreement
    wrapped = [row for row in result["layers"] if row["where"] == "chip" and row["input"]]
    assert len(wrapped) == layers, [row["name"] for row in wrapped]
    assert all(row["cosine"] > 0.999 for row in wrapped)


def test_the_command_line_takes_a_class_of_transformers_and_inputs(tmp_path):
    out = tmp_path / "r.json"
    command = [sys.executable, "-m", "torch_presil.cli", "cosim", "transformers:BertModel", "--mode", "model"]
    config = ",".join(f"{k}={v}" for k, v in SMALL.items())
    more = ["--config", config, "--input", "2,5", "--input", "attention_mask=2,5:int64:2", "--json", str(out)]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(out.read_text())["input"] == {"input_ids": [2, 5], "attention_mask": [2, 5]}
    assert "least cosine" in done.stdout and "Moved by the host: " in done.stdout, done.stdout
    assert "copy to the device ×2" in " ".join(done.stdout.split()), done.stdout


def printed(result) -> str:
    text = io.StringIO()
    cosim_report.print_result(result, Console(file=text, width=200))
    return text.getvalue()


def test_a_reference_of_zeros_has_no_cosine(file):
    result = run(model=f"{file}:Zero", shape=(2, 8))
    agreement = result["total"]["agreement"]
    assert agreement == {"cosine": None, "max_abs": 0.0, "top1": None, "reference": "zeros", "emulation_cosine": None}
    assert "the reference is all zeros, so there is no cosine and no top-1; largest error 0" in printed(result)
    assert result["layers"][0]["cosine"] is None


def test_a_device_that_gives_a_constant_or_nan_does_not_agree():
    reference = torch.tensor([1.0, 2.0, 3.0])
    assert cosim.cosine(torch.zeros(3), reference) == 0.0
    assert cosim.cosine(torch.full((3,), float("nan")), reference) == 0.0


def test_the_reference_forward_is_not_in_the_hosts_time(file):
    """Its forward sleeps half a second on the CPU."""
    result = run(model=f"{file}:Slow", shape=(2, 12), layers="fc")
    assert 0 < result["total"]["host_seconds"] < 0.4


def test_the_twins_figure_says_on_how_many_threads(file):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        result = run(model=f"{file}:Zero", shape=(2, 8))
    finally:
        torch.set_num_threads(before)
    assert result["threads"] == 1 and "Twin on 1 thread:" in printed(result)


def test_moves_by_the_host_are_in_the_result(file):
    result = run(model=f"{file}:Zero", shape=(2, 8))
    assert result["host_moves"]["copy to the device"]["bytes"] == 2 * 8 * 2  # bf16
    assert result["host_moves"]["copy to the host"]["bytes"] == 2 * 4 * 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"layers": "head*"}, "matches none of the 1 layers"),
        ({"shape": (2, 9)}, r"does not take the input \[2, 9\].*--input"),
        ({"dtype": "int4"}, "dtype must be one of"),
    ],
)
def test_refused_before_the_model_is_calibrated(file, options, text, monkeypatch):
    monkeypatch.setattr(cosim_prepare, "calibrate_batch_norm", lambda *_: pytest.fail("calibrated"))
    with pytest.raises(ValueError, match=text):
        run(**{"model": f"{file}:Zero", "shape": (2, 8), **options})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--chip", "nonsense"], "libpresil_sim_nonsense_fast.so is neither"),
        (["--chip", "nonsense", "--mode", "model"], "no configuration named 'nonsense'"),
        (["--input", "1,x"], "expected integers separated by commas, [NAME=]SIZES"),
        (["--input", "1,3:int64"], "integers need an upper bound"),
        (["--config", "nonsense"], "expected NAME=VALUE"),
    ],
)
def test_refused_before_the_model_is_made(file, arguments, text):
    command = [sys.executable, "-m", "torch_presil.cli", "cosim", f"{file}:never", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=os.environ)
    assert done.returncode in (2, 4) and text in " ".join(done.stdout.split()), done.stdout + done.stderr
    assert "the model was made" not in done.stdout + done.stderr


def test_settings_are_as_they_were_after_an_error_and_after_none(file):
    with torch.backends.presil.flags(mode="verify"), torch.presil.reports():
        for shape in ((2, 9), (2, 8)):
            try:
                run(model=f"{file}:Zero", shape=shape)
            except ValueError:
                assert shape == (2, 9)
            assert _C.get_mode() == "verify"
    torch.ones(2, 2, device="presil") @ torch.ones(2, 2, device="presil")
    torch.presil.synchronize()
    assert _C.take_reports() == [], "reports are still collected"
