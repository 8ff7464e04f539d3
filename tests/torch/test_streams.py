# SPDX-License-Identifier: Apache-2.0
"""Streams order work; waits across streams hold."""

import threading

import pytest
import torch

P = torch.presil


def test_current_default_and_context():
    assert P.current_stream() == P.default_stream() and P.current_stream().stream_id == 0
    s = P.Stream()
    assert isinstance(s, torch.Stream) and s.device == torch.device("presil:0") and s.stream_id != 0
    with P.stream(s) as inside:
        assert inside is s and P.current_stream() == s == torch.accelerator.current_stream()
        with s, P.stream(None):
            assert P.current_stream() == s
    assert P.current_stream() == P.default_stream()
    P.set_stream(s)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(P.current_stream()))
    thread.start(), thread.join()
    assert P.current_stream() == s and seen == [P.default_stream()], "a thread's own"
    P.set_stream(P.default_stream())


def test_pool_of_streams():
    assert len({P.Stream().stream_id for _ in range(32)}) == 32
    assert len({P.Stream().stream_id for _ in range(200)}) == 32
    high = P.Stream(priority=-1)
    assert (high.priority, P.Stream().priority, P.default_stream().priority) == (
        -1,
        0,
        0,
    ) and P.Stream.priority_range() == (0, -1)
    with pytest.raises(RuntimeError, match="no stream with id 999"):
        P.set_stream(torch.Stream(stream_id=999, device_index=0, device_type=high.device_type))


@pytest.mark.parametrize("wait", ["stream", "event", "none"])
def test_work_of_one_stream_is_seen_by_another(wait):
    """The bits of one stream, with whichever wait; the one queue keeps the order without one, too."""
    a = torch.randn(64, 64, device="presil")
    expected = a
    for _ in range(40):
        expected = torch.mm(expected, expected) / 64
    streams = [P.Stream() for _ in range(4)]
    d = a
    try:
        for i in range(40):
            before, s = P.current_stream(), streams[i % 4]
            if wait == "stream":
                s.wait_stream(before)
            elif wait == "event":
                s.wait_event(before.record_event())
            P.set_stream(s)
            d = torch.mm(d, d) / 64
    finally:
        P.set_stream(P.default_stream())
    assert torch.equal(d.cpu(), expected.cpu())


def test_launches_of_all_streams_run_in_the_order_of_enqueuing():
    operands = [torch.ones(8, 8 * (i % 5 + 1), device="presil") for i in range(30)]
    streams = [P.Stream(priority=-(i % 2)) for i in range(4)] + [P.default_stream()]
    with P.reports() as reports:
        for i, x in enumerate(operands):
            with P.stream(streams[i * 3 % 5]):
                x @ x.t()
        taken = reports.take()
    assert [r["macs"] for r in taken] == [64 * x.shape[1] for x in operands]
    assert [r["launch"] for r in taken] == sorted(r["launch"] for r in taken)


def test_query_before_and_after():
    with torch.backends.presil.flags(mode="rtl"):
        s = P.Stream()
        assert s.query()
        x = torch.randn(96, 96, device="presil")
        with P.stream(s):
            for _ in range(20):
                x @ x
            busy = s.query()
        s.synchronize()
        assert not busy and s.query()


def test_memory_freed_on_one_stream_is_safe_to_use_on_another():
    """No record_stream needed (it is accepted): reuse follows the order of enqueuing."""
    w = torch.eye(256, device="presil")
    side = P.Stream()
    for i in range(20):
        x = torch.full((256, 256), float(i), device="presil")
        with P.stream(side):
            y = x @ w
            x.record_stream(side)
        del x
        z = torch.full((256, 256), -1.0, device="presil") @ w
        assert y.mean().item() == i and z.mean().item() == -1


def test_streams_of_threads():
    """Two threads with their own streams get their own results."""
    w = torch.eye(128, device="presil")
    wrong = []

    def work(value):
        with P.stream(P.Stream()):
            for i in range(30):
                x = torch.full((128, 128), float(value + i), device="presil") @ w
                if x.amin().item() != value + i or x.amax().item() != value + i:
                    wrong.append((value, i))

    threads = [threading.Thread(target=work, args=(1000 * (t + 1),)) for t in range(2)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong
