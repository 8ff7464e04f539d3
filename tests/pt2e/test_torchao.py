# SPDX-License-Identifier: Apache-2.0
"""torchao's quantize_: linear layers of a language model with int8 weights, and quantization-aware training."""

import copy

import pytest
import torch
from flow import compare
from torch import nn
from torch_presil.compiler import backend
from torch_presil.pt2e import PresilQuantizer
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
from transformers import LlamaConfig, LlamaForCausalLM


def run(model, config, *inputs):
    """(on the CPU, on the device, rows of explain())"""
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        quantize_(model, config)
        expected = model(*inputs)
        model.to("presil")
        with torch.presil.explain() as explained:
            got = model(*(x.to("presil") for x in inputs))
    return expected, got, explained.operators()


def small():
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))


def test_dynamic_activations_are_int8_launches_with_the_cpus_bits():
    expected, got, rows = run(small(), Int8DynamicActivationInt8WeightConfig(), torch.randn(2, 20, 64))
    assert torch.equal(got.cpu(), expected)
    assert [(r["op"], r["calls"]) for r in rows if r["where"] == "chip"] == [("aten::_int_mm", 2)]


def test_any_width_with_weights_as_they_lie():
    """torchao's own kernel copies a weight at each call, and takes 33 columns to the CPU."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 33))
    expected, got, rows = run(model, Int8DynamicActivationInt8WeightConfig(), torch.randn(5, 64))
    assert torch.equal(got.cpu(), expected)
    assert [(r["op"], r["calls"]) for r in rows if r["where"] == "chip"] == [("aten::_int_mm", 2)]
    assert not {"aten::clone", "aten::contiguous"} & {r["op"] for r in rows}


@pytest.mark.parametrize("shape", [(5, 64), (2, 3, 64)])
def test_compiled(shape):
    """The same launches and bits; each product is in a partition."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 33)).eval(), torch.randn(shape)
    with torch.no_grad():
        quantize_(model, Int8DynamicActivationInt8WeightConfig())
        expected = model(x)
        model.to("presil")
        backend.reset()
        got = torch.compile(model)(x.to("presil"))
    assert torch.equal(got.cpu(), expected)
    assert [(g.partitions, g.chip_operators, g.left_out, g.refused) for g in backend.graphs] == [(2, 2, {}, [])]


class Token(nn.Module):
    """What a token of GPT-2 small multiplies with in one of its layers, as torchao finds it: nn.Linear."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in [(768, 2304), (768, 768), (768, 3072), (3072, 768)])

    def forward(self, x, wide):
        return [layer(wide if layer.in_features == 3072 else x) for layer in self.layers]


def test_a_token_of_gpt2_costs_half_the_bytes_and_cycles():
    """Bound by DRAM: 64 bytes a cycle on base."""
    torch.manual_seed(0)
    model, inputs, cost = Token().eval(), (torch.randn(1, 768), torch.randn(1, 3072)), {}
    for name, convert in (
        ("int8", lambda m: quantize_(m, Int8DynamicActivationInt8WeightConfig())),
        ("bf16", lambda m: m.bfloat16()),
    ):
        ours = copy.deepcopy(model)
        with torch.no_grad():
            convert(ours)
            expected = ours(*inputs) if name == "int8" else None
            ours.to("presil")
            given = [x.to("presil") if name == "int8" else x.bfloat16().to("presil") for x in inputs]
            with torch.backends.presil.flags(mode="verify"), torch.presil.reports() as reports:
                got = ours(*given)
                torch.presil.synchronize()
                rows = reports.take()
        cost[name] = sum(r["read_bytes"] for r in rows), sum(r["cycles"] for r in rows)
        for y, e in zip(got, expected or []):
            assert torch.equal(y.cpu(), e)
    weights = sum(layer.weight.numel() for layer in model.layers)
    assert weights <= cost["int8"][0] < 1.02 * weights and 2 * weights <= cost["bf16"][0] < 2.02 * weights
    assert cost["int8"][1] < 1.1 * weights / 64


def test_weights_alone_are_products_of_float32():
    expected, got, rows = run(small(), Int8WeightOnlyConfig(), torch.randn(2, 20, 64))
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)
    assert [(r["op"], r["calls"]) for r in rows if r["where"] == "chip"] == [("aten::mm", 2)]


def test_llama():
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    model, tokens = LlamaForCausalLM(config), torch.randint(0, 64, (1, 9))
    expected, got, rows = run(model, Int8DynamicActivationInt8WeightConfig(), tokens)
    assert next(r["calls"] for r in rows if r["op"] == "aten::_int_mm" and r["where"] == "chip") == 8  # 7 and the head
    torch.testing.assert_close(got.logits.cpu(), expected.logits, rtol=0.05, atol=0.05)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fully = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8 * 36, 5)

    def forward(self, x):
        return self.fully(torch.relu(self.norm(self.conv(x))).flatten(1))


def test_trained_with_quantization_on_the_device():
    x, y = torch.randn(8, 3, 6, 6), torch.randint(0, 5, (8,))
    prepared = prepare_qat_pt2e(torch.export.export(Small(), (x,)).module(), PresilQuantizer(qat=True)).to("presil")
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(prepared(x.to("presil")), y.to("presil"))
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    lowered = compare(convert_pt2e(prepared.cpu()), (x,), 2)
    assert lowered.report().launches_count() == 2 and not lowered.report().floats_between
