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
    """Each has what was launched while it was open, whoever launched, also if the other has taken it."""
    x, taken = torch.ones(8, 8, device="presil"), []
    step = threading.Barrier(2)

    def work(launch):
        for _ in range(20):
            with P.reports() as reports:
                step.wait()
                launch()
                P.synchronize()
                step.wait()
                taken.append(sorted(r["label"] for r in reports.take()))
                step.wait()

    launches = (lambda: torch.mm(x, x), lambda: torch.bmm(x[None], x[None]))
    threads = [threading.Thread(target=work, args=(launch,)) for launch in launches]
    [t.start() for t in threads], [t.join() for t in threads]
    assert taken == [["bmm", "mm"]] * 40
