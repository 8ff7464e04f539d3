# SPDX-License-Identifier: Apache-2.0
"""Models of the transformers library with random weights and small configurations: training step, inference,
generation."""

import copy

import pytest
import torch
import transformers
from compare import compare


def tokens(batch: int, length: int, vocabulary: int = 99) -> torch.Tensor:
    return torch.randint(3, vocabulary, (batch, length))


def bert():
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    mask = torch.ones(2, 21, dtype=torch.int64)
    mask[1, 15:] = 0
    ids = tokens(2, 21)
    return transformers.BertForMaskedLM(config), {"input_ids": ids, "attention_mask": mask, "labels": ids}


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=99, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
    )
    ids = tokens(2, 17)
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def llama():
    config = transformers.LlamaConfig(
        vocab_size=99,
        hidden_size=64,
        intermediate_size=112,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    ids = tokens(2, 19)
    return transformers.LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}


def vit():
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=64,
        patch_size=16,
        num_labels=10,
    )
    return transformers.ViTForImageClassification(config), {
        "pixel_values": torch.randn(2, 3, 64, 64),
        "labels": torch.tensor([3, 7]),
    }


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=99,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        num_mel_bins=40,
        max_source_positions=50,
        max_target_positions=32,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return transformers.WhisperForConditionalGeneration(config), {
        "input_features": torch.randn(2, 40, 100),
        "labels": tokens(2, 9),
    }


def t5():
    config = transformers.T5Config(
        vocab_size=99,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config), {"input_ids": tokens(2, 21), "labels": tokens(2, 8)}


MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "vit": vit, "whisper": whisper, "t5": t5}


@pytest.mark.parametrize("name", MODELS)
def test_trains_like_on_the_cpu(name):
    model, inputs = MODELS[name]()
    compare(model, inputs, lambda output: output.loss)


@pytest.mark.parametrize("name", MODELS)
def test_infers_like_on_the_cpu(name):
    model, inputs = MODELS[name]()
    compare(model, inputs, None)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "whisper"])
@pytest.mark.parametrize("how", [{"do_sample": False}, {"do_sample": False, "num_beams": 3}], ids=["greedy", "beams"])
def test_generates_the_cpus_tokens(name, how):
    model, inputs = MODELS[name]()
    model.eval()
    inputs = {k: v for k, v in inputs.items() if k != "labels"}
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.3)  # so that the choices are far apart
    expected = model.generate(**inputs, max_new_tokens=12, **how)
    device = copy.deepcopy(model).to("presil")
    got = device.generate(**{k: v.to("presil") for k, v in inputs.items()}, max_new_tokens=12, **how)
    assert expected.shape[1] > 2 and torch.equal(got.cpu(), expected)
