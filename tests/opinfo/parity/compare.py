# SPDX-License-Identifier: Apache-2.0
"""Bit equality of two results: values, dtypes, shapes, strides, flags and what aliases what. Each function gives the
first difference as text, or None."""

import torch
from torch.utils._pytree import tree_flatten


def values(got: torch.Tensor, expected: torch.Tensor) -> str | None:
    """got: on any device; every NaN equals every NaN, zeros are compared with their signs."""
    if got.layout != torch.strided:
        got = got.to_dense() if expected.layout == got.layout else got
        expected = expected.to_dense()
    a, b = got.detach().cpu().resolve_conj().resolve_neg(), expected.detach().resolve_conj().resolve_neg()
    if a.dtype == torch.complex32:  # no comparison is implemented for it
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if torch.equal(a, b) and not (a.is_floating_point() and not torch.equal(a.signbit(), b.signbit())):
        return None
    wrong = a != b
    if a.is_floating_point() or a.is_complex():
        wrong &= ~(a.isnan() & b.isnan())
        if a.is_floating_point():
            wrong |= (a.signbit() != b.signbit()) & ~a.isnan()
    count = int(wrong.sum())
    if not count:
        return None
    where = tuple(wrong.nonzero()[0].tolist())
    return f"{count} of {a.numel()} values differ, first at {where}: {a[where].item()!r} instead of {b[where].item()!r}"


def tensors(got, expected, device: str, strides: bool = True) -> str | None:
    """One tensor of the device beside the CPU's, all but its values."""
    if not isinstance(got, torch.Tensor):
        return f"{type(got).__name__} instead of a tensor"
    if got.device.type != device:
        return f"result on {got.device}"
    for name in ("dtype", "layout", "shape", "requires_grad") + (
        ("is_conj", "is_neg") if got.layout == torch.strided else ()
    ):
        a, b = getattr(got, name), getattr(expected, name)
        a, b = (a() if callable(a) else a), (b() if callable(b) else b)
        if a != b:
            return f"{name} {a} instead of {b}"
    if strides and got.layout == torch.strided and got.numel() and got.stride() != expected.stride():
        return f"strides {got.stride()} instead of {expected.stride()} at shape {tuple(got.shape)}"
    return None


def aliases(results: list, inputs: list) -> list:
    """For each result the inputs whose storage it shares, and its offset if there is one."""
    found = []
    for r in results:
        if not isinstance(r, torch.Tensor) or r.layout != torch.strided or not r.untyped_storage().nbytes():
            found.append(None)
            continue
        storage = r.untyped_storage()._cdata
        shared = tuple(
            i for i, t in enumerate(inputs) if t.layout == torch.strided and t.untyped_storage()._cdata == storage
        )
        found.append((shared, r.storage_offset() if shared else 0))
    return found


def trees(got, expected, device: str, strides: bool = True, exact=values) -> str | None:
    """Two results of any nesting. exact: compares the values of two tensors."""
    a, structure = tree_flatten(got)
    b, other = tree_flatten(expected)
    if len(a) != len(b) or structure != other:
        return f"structure {structure} instead of {other}"
    for i, (x, y) in enumerate(zip(a, b)):
        difference = leaf(x, y, device, strides, exact)
        if difference:
            return difference if len(a) == 1 else f"result {i}: {difference}"
    return None


def leaf(got, expected, device, strides, exact) -> str | None:
    if isinstance(expected, torch.Tensor):
        return tensors(got, expected, device, strides) or exact(got, expected)
    if isinstance(expected, torch.device):
        return (
            None
            if torch.device(got).type == (device if expected.type == "cpu" else expected.type)
            else f"{got} instead of {expected}"
        )
    same = got == expected or (isinstance(expected, float) and got != got and expected != expected)
    return None if same else f"{got!r} instead of {expected!r}"
