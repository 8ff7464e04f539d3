# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention: both products on the chip, forward and backward, every kind of mask, grouped heads."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F


def operands(dtype=torch.float32, heads=4, kv_heads=4, queries=7, keys=9, width=16):
    return [torch.randn(2, h, n, width).to(dtype) for h, n in ((heads, queries), (kv_heads, keys), (kv_heads, keys))]


def run(q, k, v, **options):
    q, k, v = (t.detach().clone().requires_grad_() for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, **options)
    out.backward(torch.linspace(-1, 1, out.numel()).view(out.shape).to(out))
    return [out.detach(), q.grad, k.grad, v.grad]


def compare(q, k, v, tolerance=2e-5, **options):
    expected = run(q, k, v, **options)
    got = run(
        *(t.to("presil") for t in (q, k, v)),
        **{name: o.to("presil") if isinstance(o, torch.Tensor) else o for name, o in options.items()},
    )
    for g, e in zip(got, expected):
        assert g.dtype == e.dtype
        torch.testing.assert_close(g.cpu(), e, rtol=tolerance, atol=tolerance * max(1.0, e.abs().max().item()))


MASKS = {
    "none": None,
    "bool": torch.rand(7, 9) < 0.7,
    "added": torch.randn(7, 9),
    "a head": torch.randn(2, 4, 7, 9),
    "padding": torch.tensor([1, 1, 1, 1, 1, 1, 1, 0, 0]).bool()[None, None, None],
}
MASKS["bool"][:, 0] = True


@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask):
    compare(*operands(), attn_mask=MASKS[mask])


@pytest.mark.parametrize("queries,keys", [(9, 9), (5, 9)])
def test_causal(queries, keys):
    compare(*operands(queries=queries, keys=keys), is_causal=True)


@pytest.mark.parametrize("mask", [m for m in MASKS if m != "none"])
def test_causal_with_a_mask(mask):
    """The CPU's kernel takes both; PyTorch's own operators, which other devices get, refuse them together."""
    compare(*operands(), attn_mask=MASKS[mask], is_causal=True)


def test_causal_with_a_mask_in_inference_mode_and_compiled():
    q, k, v = operands()
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=MASKS["bool"], is_causal=True)
    on_chip = [t.to("presil") for t in (q, k, v, MASKS["bool"])]
    call = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, is_causal=True)
    with torch.inference_mode():
        torch.testing.assert_close(call(*on_chip).cpu(), expected, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(torch.compile(call)(*on_chip).cpu(), expected, rtol=2e-5, atol=2e-5)


def test_grouped_heads_scale_and_strides():
    compare(*operands(heads=8, kv_heads=2), enable_gqa=True)
    compare(*operands(), scale=0.3)
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in operands())  # as projections leave them
    compare(q, k, v)
    compare(*(t[0, 0] for t in operands()))


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-12), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_other_types(dtype, tolerance):
    compare(*operands(dtype), tolerance=tolerance, is_causal=False)


def moved(options):
    return {name: o.to("presil") if isinstance(o, torch.Tensor) else o for name, o in options.items()}


BF16 = {
    "plain": {},
    "causal": {"is_causal": True},
    "bool": {"attn_mask": MASKS["bool"]},
    "added": {"attn_mask": MASKS["added"].bfloat16()},
    "a head": {"attn_mask": MASKS["a head"].bfloat16()},
    "padding": {"attn_mask": MASKS["padding"]},
    "bool, causal": {"attn_mask": MASKS["bool"], "is_causal": True},
    "scaled": {"scale": 0.3},
    "grouped": {"enable_gqa": True},
}


def steps(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """One operator after the other, by their own kernels: scores and probabilities in float32."""
    if enable_gqa:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    flat = lambda t: t.reshape(-1, *t.shape[-2:])
    scores = torch.bmm(flat(q), flat(k).transpose(1, 2), out_dtype=torch.float32).view(*q.shape[:3], k.shape[2])
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(~torch.ones(q.shape[2], k.shape[2]).bool().tril().to(q.device), float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.bmm(flat(scores.softmax(-1).bfloat16()), flat(v)).view(*q.shape[:3], v.shape[-1])


@pytest.mark.parametrize("queries", [7, 300])
@pytest.mark.parametrize("case", BF16)
def test_bf16_in_inference_takes_one_pass_a_product(case, queries):
    """More than 256 queries are tiles; the bits are those of the steps, and near the CPU's fused kernel."""
    options = BF16[case]
    if queries != 7 and "attn_mask" in options and options["attn_mask"].shape[-2] == 7:
        mask = options["attn_mask"]
        options = options | {"attn_mask": mask[..., torch.arange(queries) % 7, :]}
    q, k, v = operands(torch.bfloat16, kv_heads=2 if case == "grouped" else 4, queries=queries)
    d = [t.to("presil") for t in (q, k, v)]
    with torch.inference_mode(), torch.presil.reports() as reports:
        got = F.scaled_dot_product_attention(*d, **moved(options))
        taken = reports.take()
    assert taken and all(r["passes"] == 1 for r in taken)
    assert torch.equal(got, steps(*d, **moved(options)))
    expected = F.scaled_dot_product_attention(q, k, v, **options)
    torch.testing.assert_close(got.cpu(), expected, rtol=2e-2, atol=2e-2)


def test_bf16_query_that_sees_no_key_gives_zeros():
    q, k, v = (t.to("presil") for t in operands(torch.bfloat16))
    mask = torch.ones(7, 9).bool()
    mask[3] = False
    with torch.inference_mode():
        got = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to("presil")).cpu()
    assert got.isfinite().all() and not got[:, :, 3].any() and got[:, :, 2].any()


def test_bf16_with_gradients_is_wide():
    """Forward and backward belong together: scores and probabilities stay float32, as PyTorch's parts keep them."""
    q, k, v = (t.to("presil") for t in operands(torch.bfloat16))
    wide = torch.ops.aten._scaled_dot_product_attention_math(q, k, v)[0]
    assert torch.equal(F.scaled_dot_product_attention(q.requires_grad_(), k, v), wide)
    with torch.no_grad():
        assert not torch.equal(F.scaled_dot_product_attention(q, k, v), wide)


def test_bf16_by_pytorchs_parts_when_asked_for_them():
    d = [t.to("presil") for t in operands(torch.bfloat16)]
    with torch.inference_mode(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.equal(F.scaled_dot_product_attention(*d), torch.ops.aten._scaled_dot_product_attention_math(*d)[0])


def test_bf16_compiled_and_mapped():
    d = [t.to("presil") for t in operands(torch.bfloat16)]
    call = lambda *t: F.scaled_dot_product_attention(*t, is_causal=True)
    with torch.inference_mode():
        assert torch.equal(torch.compile(call)(*d), call(*d))
    mapped = torch.func.vmap(F.scaled_dot_product_attention)(*d)
    torch.testing.assert_close(mapped, F.scaled_dot_product_attention(*d), rtol=2e-2, atol=2e-2)


def test_bf16_of_wrong_shapes_is_pytorchs_to_refuse():
    q, k, v = (t.to("presil") for t in operands(torch.bfloat16))
    with torch.inference_mode():
        for wrong in ((q, k[..., :8], v), (q, k[:, :3], v), (q, k, v[:, :, :4])):
            with pytest.raises(RuntimeError):
                F.scaled_dot_product_attention(*wrong)
        assert F.scaled_dot_product_attention(q[:, :, :0], k, v).shape == (2, 4, 0, 16)
        assert F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0]).shape == (7, 16)


def test_dropout_drops():
    q, k, v = (t.to("presil") for t in operands())
    torch.manual_seed(1)
    a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    b = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(1)
    assert not torch.equal(a, b) and torch.equal(a, F.scaled_dot_product_attention(q, k, v, dropout_p=0.5))


def test_both_products_run_on_the_chip_forward_and_backward():
    q, k, v = (t.to("presil") for t in operands())
    product = 2 * 4 * 7 * 9 * 16
    torch.presil.reset_host_operators()
    with torch.presil.reports() as reports:
        F.scaled_dot_product_attention(q, k, v)
        assert sum(r["macs"] for r in reports.take()) >= 2 * product
        run(q, k, v)
        assert sum(r["macs"] for r in reports.take()) >= 6 * product
    assert not [name for name in torch.presil.host_operators() if "mm" in name]


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_modules(need_weights, training):
    attention = nn.MultiheadAttention(16, 4, batch_first=True).train(training)
    x = torch.randn(2, 5, 16)
    expected = attention(x, x, x, need_weights=need_weights)
    d = x.to("presil")
    got = attention.to("presil")(d, d, d, need_weights=need_weights)
    for g, e in zip(got, expected):
        assert (g is None) == (e is None)
        if e is not None:
            torch.testing.assert_close(g.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_transformer_layer_with_padding(training):
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True).train(training)
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.set_grad_enabled(training):
        expected = layer(x, src_key_padding_mask=padding)
        got = layer.to("presil")(x.to("presil"), src_key_padding_mask=padding.to("presil"))
    keep = ~padding
    torch.testing.assert_close(got.cpu()[keep], expected[keep], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_layers_in_eval_mode_keep_their_products_on_the_chip(norm_first, activation):
    """The CPU has one kernel a layer there (aten::_transformer_encoder_layer_fwd); and padded input stays padded,
    where the CPU makes a nested tensor."""
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 4, 32, activation=activation, norm_first=norm_first, batch_first=True), 2
    ).eval()
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        expected, unpadded = encoder(x, src_key_padding_mask=padding), encoder(x, mask=torch.ones(5, 5).triu(1).bool())
        encoder.to("presil")
        with torch.presil.reports() as reports:
            got = encoder(x.to("presil"), src_key_padding_mask=padding.to("presil"))
            assert len(reports.take()) == 12  # a layer: qkv, scores, context, output, two of the feed-forward part
        masked = encoder(x.to("presil"), mask=torch.ones(5, 5).triu(1).bool().to("presil"))
    torch.testing.assert_close(got.cpu()[~padding], expected[~padding], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(masked.cpu(), unpadded, rtol=1e-4, atol=1e-5)


def test_fused_attention_of_different_operands():
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    q, k, v = torch.randn(2, 3, 16), torch.randn(2, 5, 16), torch.randn(2, 5, 16)
    arguments = (
        16,
        4,
        attention.in_proj_weight,
        attention.in_proj_bias,
        attention.out_proj.weight,
        attention.out_proj.bias,
    )
    for average in (False, True):
        with torch.no_grad():
            expected = attention(q, k, v, average_attn_weights=average)
            got = torch._native_multi_head_attention(
                *(t.to("presil") for t in (q, k, v)),
                *(a.to("presil") if isinstance(a, torch.Tensor) else a for a in arguments),
                None,
                True,
                average,
            )
        for g, e in zip(got, expected, strict=True):
            torch.testing.assert_close(g.cpu(), e, rtol=1e-4, atol=1e-5)
