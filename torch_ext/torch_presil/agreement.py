# SPDX-License-Identifier: Apache-2.0
"""How near results are to PyTorch's in fp32."""

import hashlib
import math

import torch

from torch_presil.inputs import named_leaves

__all__ = ["agreement", "compare", "cosine", "digest"]


def cosine(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """Of two tensors with their means removed; None if b, the reference, is constant, which has no direction; 0 if a
    alone is, or anything is not finite."""
    a, b = a.detach().double().flatten(), b.detach().double().flatten()
    if b.numel() == 0 or bool((b == b[0]).all()):
        return None
    a, b = a - a.mean(), b - b.mean()
    norm = a.norm() * b.norm()
    value = float(a @ b / norm) if norm > 0 else 0.0
    return value if math.isfinite(value) else 0.0


def compare(out: torch.Tensor, expected: torch.Tensor) -> dict:
    """{cosine, max_abs: largest absolute error, top1: same index of the largest along the last dimension, reference:
    "varied", "constant" or "zeros"}; a constant reference has neither cosine nor top-1 (None)."""
    if out.shape != expected.shape:
        raise ValueError(f"the result on the device has shape {tuple(out.shape)}, PyTorch's {tuple(expected.shape)}")
    out, expected = out.detach().double(), expected.detach().double()
    value = cosine(out, expected)
    constant = value is None
    zeros = constant and not bool(expected.any())
    ranked = out.dim() > 0 and out.numel() > 0 and not constant
    return {
        "cosine": value,
        "max_abs": float((out - expected).abs().max()) if out.numel() else 0.0,
        "top1": bool((out.argmax(-1) == expected.argmax(-1)).all()) if ranked else None,
        "reference": "zeros" if zeros else "constant" if constant else "varied",
    }


def agreement(out, expected) -> dict:
    """Of two results of one structure. One tensor: compare(). Several: compare() of the first, with the least cosine
    and the largest error of all, and `outputs`: name -> compare()."""
    found, wanted = named_leaves(out), named_leaves(expected)
    if list(found) != list(wanted):
        raise ValueError(f"the result on the device has the tensors {list(found)}, PyTorch's {list(wanted)}")
    if not wanted:
        raise ValueError(f"the model returns no tensor, but {type(expected).__name__}: there is nothing to compare")
    each = {name: compare(found[name], wanted[name]) for name in wanted}
    first = next(iter(each.values()))
    if len(each) == 1:
        return first
    cosines = [c["cosine"] for c in each.values() if c["cosine"] is not None]
    return {
        **first,
        "cosine": min(cosines, default=None),
        "max_abs": max(c["max_abs"] for c in each.values()),
        "reference": "varied" if cosines else first["reference"],
        "outputs": each,
    }


def digest(out) -> str:
    """SHA-256 of all tensors of a result: names, dtypes, shapes, bits. Equal results have equal ones."""
    whole = hashlib.sha256()
    for name, leaf in named_leaves(out).items():
        leaf = leaf.detach().cpu().contiguous()
        whole.update(f"{name} {leaf.dtype} {tuple(leaf.shape)}\n".encode())
        whole.update(leaf.reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
