# SPDX-License-Identifier: Apache-2.0
"""The fixture `verify` fails where nothing was verified, or not everything."""

import pytest
import torch
from verified import all_verified


def product():
    (torch.randn(5, 6, device="presil") @ torch.randn(6, 3, device="presil")).cpu()


def test_without_a_launch_it_fails():
    with pytest.raises(AssertionError, match="no launch was made"), all_verified():
        torch.randn(4, device="presil").exp()


@pytest.mark.parametrize("mode", ["model", "rtl"])
def test_a_launch_that_was_not_compared_fails(mode):
    with pytest.raises(AssertionError, match="1 of 2 launches were not verified"), all_verified():
        product()
        torch.backends.presil.mode = mode
        product()


def test_verified_launches_pass():
    with all_verified():
        product()
    assert torch.backends.presil.mode == "model"
