# SPDX-License-Identifier: Apache-2.0
"""Events: order, queries, and time in the chip's cycles."""

import pytest
import torch

P = torch.presil


def test_query_wait_and_synchronize():
    e = P.Event()
    assert e.query(), "never recorded"
    s = P.Stream()
    x = torch.randn(64, 64, device="presil")
    with P.stream(s):
        y = x @ x
        e.record()
    e.wait(P.current_stream())
    e.synchronize()
    assert e.query()
    assert torch.allclose(y.cpu(), x.cpu() @ x.cpu(), atol=1e-3)
    z = y @ y  # waits in the queue: nobody has asked for it
    later = s.record_event()
    assert not later.query()
    later.synchronize()
    assert later.query() and torch.equal(z.cpu(), (y @ y).cpu())
    assert torch.Event(device="presil").device.type == "presil"


def test_an_event_is_not_passed_before_its_work():
    with torch.backends.presil.flags(mode="rtl"):
        x = torch.randn(96, 96, device="presil")
        e = P.Event()
        for _ in range(20):
            x @ x
        e.record()
        early = e.query()
        P.synchronize()
        assert not early and e.query()


def test_elapsed_time_is_simulated_time():
    with torch.backends.presil.flags(mode="rtl"):
        x = torch.randn(64, 64, dtype=torch.bfloat16, device="presil")
        x @ x
        P.synchronize()
        begin, middle, end = (P.Event(enable_timing=True) for _ in range(3))
        with P.reports() as reports:
            begin.record()
            x @ x
            middle.record()
            x @ x, x @ x
            end.record()
            P.synchronize()
            cycles = [r["cycles"] for r in reports.take()]
        assert len(cycles) == 3 and cycles[0] == cycles[1] == cycles[2] > 0
        to_ms = 1e-3 / P.get_device_properties().clock_mhz
        one, two = begin.elapsed_time(middle), middle.elapsed_time(end)
        assert cycles[0] * to_ms <= one <= (cycles[0] + 2000) * to_ms, (one, cycles)
        assert two == pytest.approx(2 * one, rel=1e-9), "the same launch takes the same time"
        assert end.elapsed_time(begin) == pytest.approx(-one - two)


def test_without_a_clock_elapsed_time_says_which_modes_have_one():
    begin, end = (P.Event(enable_timing=True) for _ in range(2))
    begin.record()
    end.record()
    P.synchronize()
    with pytest.raises(NotImplementedError, match="mode 'model', which has no clock. Modes with one: 'rtl', 'verify'"):
        begin.elapsed_time(end)


def test_misuse():
    begin, end = P.Event(), P.Event()
    begin.record(), end.record()
    with pytest.raises(ValueError, match="enable_timing"):
        begin.elapsed_time(end)
    with pytest.raises(NotImplementedError, match="another process"):
        P.Event(interprocess=True)


def test_thousands_of_events_leave_nothing():
    x = torch.ones(16, 16, device="presil")
    for _ in range(2000):
        e = P.Event()
        e.record()
        e.wait()
    x @ x
    P.synchronize()
    assert e.query()
