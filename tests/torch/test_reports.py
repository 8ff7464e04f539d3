# SPDX-License-Identifier: Apache-2.0
"""torch.presil.reports(): each context has the launches of its own time."""

import threading

import torch

P = torch.presil


def test_contexts_nest():
    x = torch.ones(8, 8, device="presil")
    with P.reports() as outer:
        torch.mm(x, x)
        with P.reports() as inner:
            torch.bmm(x[None], x[None])
            assert [r["label"] for r in inner.take()] == ["bmm"]
        torch.mm(x, x)
        assert [r["label"] for r in outer.take()] == ["mm", "bmm", "mm"]
        torch.mm(x, x)
    torch.mm(x, x)
    P.synchronize()
    assert [r["label"] for r in outer.take()] == ["mm"] and inner.take() == []


def test_beside_the_collector_of_commands():
    x = torch.ones(8, 8, device="presil")
    from torch_presil import _C

    _C.collect_reports(True)
    try:
        with P.reports() as reports:
            torch.mm(x, x)
            assert len(reports.take()) == 1
        torch.mm(x, x)
        P.synchronize()
        assert len(_C.take_reports()) == 2
    finally:
        _C.collect_reports(False)


def test_contexts_of_two_threads():
    x = torch.ones(8, 8, device="presil")
    counts = []

    def work():
        for _ in range(50):
            with P.reports() as reports:
                torch.mm(x, x)
                counts.append(len(reports.take()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert len(counts) == 100 and all(1 <= n for n in counts), counts
