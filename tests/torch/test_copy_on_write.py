# SPDX-License-Identifier: Apache-2.0
"""Lazily cloned tensors share memory until one of them is written, by whomever."""

import pytest
import torch
import torch.nn.functional as F

P = torch.presil
WRITES = {
    "operator": lambda y, a: y.add_(1),
    "copy": lambda y, a: y.copy_(torch.zeros(16, 16)),
    "copy_later": lambda y, a: y.copy_(torch.zeros(16, 16).pin_memory(), non_blocking=True),
    "index": lambda y, a: y.__setitem__(0, 5),
    "launch": lambda y, a: torch.mm(a, a, out=y),
    "launch_in_place": lambda y, a: y.addmm_(a, a),
    "foreach": lambda y, a: torch._foreach_add_([y], 1),
    "unmarked": lambda y, a: F.batch_norm(a, y[0], y[1], training=True),
    "storage": lambda y, a: y.untyped_storage().fill_(0),
    "resize": lambda y, a: y.resize_(20, 20).fill_(1),
}


@pytest.mark.parametrize("of", ["clone", "original"])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_stays_with_the_one_that_is_written(name, of):
    a = torch.randn(16, 16)
    x = a.to("presil")
    y = torch._lazy_clone(x)
    written, kept = (y, x) if of == "clone" else (x, y)
    WRITES[name](written, a.to("presil"))
    P.synchronize()
    assert torch.equal(kept.cpu(), a)
    assert not torch.equal(written.cpu()[:16, :16], a)


def test_a_copy_is_made_after_the_launches_that_write_what_is_copied():
    a = torch.eye(64, device="presil")
    for i in range(20):
        x = torch.full((64, 64), float(i), device="presil") @ a
        y = torch._lazy_clone(x)
        torch.mm(a, a, out=x)
        assert y.amin().item() == i == y.amax().item()
