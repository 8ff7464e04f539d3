# SPDX-License-Identifier: Apache-2.0
"""torchao's quantize_: linear layers of a language model with int8 weights, and quantization-aware training."""

import copy

import torch
from flow import compare
from torch import nn
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
