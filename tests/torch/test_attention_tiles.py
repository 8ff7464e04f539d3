# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention of more than 256 queries: in tiles of as many, with the bits of the whole, and without
its memory."""

import pytest
import torch
from torch.nn import functional as F

TILE = 256
MASKS = {
    "none": lambda n, m: {},
    "causal": lambda n, m: {"is_causal": True},
    "bool": lambda n, m: {"attn_mask": (torch.rand(n, m) < 0.7).index_fill(1, torch.tensor([0]), True)},
    "added, a head": lambda n, m: {"attn_mask": torch.randn(1, 4, n, m)},
    "padding": lambda n, m: {"attn_mask": (torch.arange(m) < m - 3)[None, None, None]},
    "bool, causal": lambda n, m: {"attn_mask": torch.ones(n, m).bool().tril(40), "is_causal": True},
    "grouped": lambda n, m: {"scale": 0.3, "enable_gqa": True},
}


def operands(queries, keys, kv_heads=4, width=16):
    return [torch.randn(2, h, n, width) for h, n in ((4, queries), (kv_heads, keys), (kv_heads, keys))]


def moved(options):
    return {name: o.to("presil") if isinstance(o, torch.Tensor) else o for name, o in options.items()}


def gradients(q, k, v, **options):
    q, k, v = (t.detach().clone().requires_grad_() for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, **options)
    out.backward(torch.linspace(-1, 1, out.numel()).view(out.shape).to(out))
    return [out.detach(), q.grad, k.grad, v.grad]


@pytest.mark.parametrize("queries,keys", [(TILE, TILE), (TILE + 1, TILE + 1), (2 * TILE, 300), (2 * TILE + 3, 700)])
@pytest.mark.parametrize("causal", [False, True])
def test_bits_of_the_whole(queries, keys, causal):
    """PyTorch's own operators on the device compute all queries at once."""
    given = [t.to("presil") for t in operands(queries, keys)]
    whole = torch.ops.aten._scaled_dot_product_attention_math(*given, is_causal=causal)[0]
    assert torch.equal(F.scaled_dot_product_attention(*given, is_causal=causal), whole)


@pytest.mark.parametrize("mask", MASKS)
def test_masks_and_gradients(mask):
    options = MASKS[mask](300, 290)
    given = operands(300, 290, 2 if mask == "grouped" else 4)
    expected = gradients(*given, **options)
    for g, e in zip(gradients(*(t.to("presil") for t in given), **moved(options)), expected, strict=True):
        torch.testing.assert_close(g.cpu(), e, rtol=2e-5, atol=2e-5)


def test_gradients_of_gradients():
    def second(*leaves):
        out = F.scaled_dot_product_attention(*leaves, is_causal=True)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    given = [t.double() for t in operands(TILE + 4, TILE + 4, width=4)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = second(*(t.requires_grad_() for t in given))
    for g, e in zip(second(*(t.detach().to("presil").requires_grad_() for t in given)), expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)


def test_function_transforms():
    given = operands(TILE + 4, TILE + 4)
    call = lambda q, k, v: F.scaled_dot_product_attention(q, k, v).square().sum()
    got = torch.func.grad(call)(*(t.to("presil") for t in given))
    torch.testing.assert_close(got.cpu(), torch.func.grad(call)(*given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    given = [t.to("presil").requires_grad_() for t in operands(TILE + 4, TILE + 4)]
    call = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(torch.compile(call, dynamic=dynamic)(*given), call(*given))


@pytest.mark.parametrize("learns", [False, True])
def test_scores_are_never_whole(learns):
    """512 more queries cost no more than their own rows; their scores of 1,024 keys would be 8 MB in bfloat16."""

    def peak(queries):
        given = [t.bfloat16().to("presil").requires_grad_(learns) for t in operands(queries, 1024)]
        torch.presil.synchronize()
        before = torch.presil.memory_allocated()
        torch.presil.reset_peak_memory_stats()
        out = F.scaled_dot_product_attention(*given)
        if learns:
            out.sum().backward()
        torch.presil.synchronize()
        return torch.presil.max_memory_allocated() - before

    rows = 512 * 2 * 4 * 16 * 2  # bytes of 512 more of everything that has the queries' shape
    assert peak(1024) - peak(512) < 8 * rows < 512 * 1024 * 2 * 8 / 4
