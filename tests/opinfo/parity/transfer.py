# SPDX-License-Identifier: Apache-2.0
"""Arguments of one call on either device, with the storages, offsets, strides and aliases of the original."""

import torch
from torch.utils._pytree import tree_map


class Transfer:
    """Copies a call's arguments to `device`: one new storage for each storage, so that aliases stay aliases.

    wide: float32 becomes float64. shift: elements put in front of each storage, so that every tensor is a view with
    an offset.
    Sparse tensors and tensor subclasses go through Tensor.to(); what is on `meta` stays there. `leaves` are the
    copied tensors that require a gradient, in order of their first appearance.
    """

    def __init__(self, device: str, shift: int = 0, wide: bool = False):
        self.device, self.shift, self.wide = device, shift, wide
        self.storages, self.tensors = {}, {}
        self.inputs, self.leaves, self.bases = [], [], []
        self.used = False  # whether anything was on, or named, a device

    def __call__(self, tree):
        return tree_map(self._leaf, tree)

    def _leaf(self, value):
        self.used |= isinstance(value, (torch.Tensor, torch.Generator, torch.device)) or (
            isinstance(value, str) and value == "cpu"
        )
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.Generator):
            return torch.Generator(self.device).manual_seed(value.initial_seed())
        if isinstance(value, str):
            return self.device if value == "cpu" else value
        if isinstance(value, torch.device) and value.type == "cpu":
            return torch.device(self.device)
        return value

    def _tensor(self, t):
        if self.wide and t.dtype == torch.float32:
            copy = t.detach().double().requires_grad_(t.requires_grad)
            self.inputs.append(copy)
            return copy
        known = self.tensors.get(id(t))
        if known is not None:
            return known[1]
        if t.device.type == "meta":  # an error input: on another device than the rest
            copy = t.detach().clone()
        else:
            copy = (
                self._strided(t.detach())
                if t.layout == torch.strided and not t.is_quantized and type(t) in (torch.Tensor, torch.nn.Parameter)
                else t.detach().to(self.device, copy=True)
            )
        if t.requires_grad:
            copy.requires_grad_()
            self.leaves.append(copy)
        self.tensors[id(t)] = (t, copy)
        self.inputs.append(copy)
        return copy

    def _strided(self, t):
        storage = t.untyped_storage()
        key = (storage._cdata, t.element_size())
        if key not in self.storages:
            size = t.element_size()
            count = storage.nbytes() // size
            whole = torch.empty(0, dtype=t.dtype).set_(storage, 0, (count,), (1,))
            base = torch.zeros(count + 2 * self.shift, dtype=t.dtype, device=self.device)
            base[self.shift : self.shift + count].copy_(whole)
            self.storages[key] = (storage, base)
            self.bases.append(base)
        base = self.storages[key][1]
        copy = torch.empty(0, dtype=t.dtype, device=self.device).set_(
            base.untyped_storage(), t.storage_offset() + self.shift, t.size(), t.stride()
        )
        if t.is_conj():
            copy = copy.conj()
        return torch._neg_view(copy) if t.is_neg() else copy
