# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention on the CPU, made of the parts that the device makes it of (docs/operators.md): PyTorch's
SDPBackend.MATH, but in bf16 without gradients two bf16 products around a softmax in float32."""

import contextlib
import math

import torch

OPERATOR = torch.ops.aten.scaled_dot_product_attention.default


def in_bf16(tensors, mask, dropout, grouped) -> bool:
    learned = torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, mask) if t is not None)
    alike = len({t.shape[: -3 if grouped else -2] for t in tensors}) == 1  # none of them is repeated for another
    return not learned and dropout == 0 and alike and all(t.dtype == torch.bfloat16 and t.numel() for t in tensors)


def of_bf16(query, key, value, mask, causal, scale):
    heads = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1  # of queries, for one of keys and values
    key, value = (t.repeat_interleave(heads, -3) if heads > 1 else t for t in (key, value))
    flat = [t.flatten(0, -3) if t.dim() > 2 else t[None] for t in (query, key, value)]
    scores = torch.ops.aten.bmm.dtype(flat[0], flat[1].mT, torch.float32)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scores = scores.reshape(*query.shape[:-1], key.shape[-2])
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    chances = torch._safe_softmax(scores, -1).bfloat16()
    product = torch.bmm(chances.flatten(0, -3) if chances.dim() > 2 else chances[None], flat[2])
    return product.reshape(*query.shape[:-1], value.shape[-1])


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if in_bf16((query, key, value), attn_mask, dropout_p, enable_gqa):
        return of_bf16(query, key, value, attn_mask, is_causal, scale)
    parts = torch._C.DispatchKey.CompositeImplicitAutograd
    arguments = (query, key, value, attn_mask, dropout_p, is_causal)
    return OPERATOR._op_dk(parts, *arguments, scale=scale, enable_gqa=enable_gqa)


@contextlib.contextmanager
def as_the_device():
    with (
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        torch.library._scoped_library("aten", "IMPL") as library,
    ):
        for key in ("CPU", "AutogradCPU"):
            library.impl("scaled_dot_product_attention", attention, key)
        yield
