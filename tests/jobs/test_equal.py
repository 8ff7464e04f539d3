# SPDX-License-Identifier: Apache-2.0
"""Parallel is sequential: for networks, numbers of processes and orders in which launches run, the same results and,
launch by launch, the same cycles, stalls and counters. nightly_equal.py has whole networks."""

import pytest
import torch
from networks import NETWORKS
from same import measured, run_with

WAYS = [(1, None), (2, None), (3, 11), (7, 5)]  # processes; seed of the order in which launches run


@pytest.mark.parametrize("name", NETWORKS)
def test_parallel_is_sequential(name, monkeypatch):
    build, dtype, use = NETWORKS[name]

    def once():
        torch.manual_seed(7)
        model, x = build(dtype)
        return use(model, x)

    once()  # weights are packed, buffers are there
    (results, launches), *others = (run_with(jobs, order, once, monkeypatch) for jobs, order in WAYS)
    assert len(launches) >= 4 and all(row["verified"] == 1 and row["cycles"] > 0 for row in launches)
    for (jobs, order), (found, parallel) in zip(WAYS[1:], others, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(results, found, strict=True)), (jobs, order)
        assert measured(parallel) == measured(launches), (jobs, order)
