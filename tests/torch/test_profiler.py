# SPDX-License-Identifier: Apache-2.0
"""torch.profiler: launches on their device's track in simulated time, linked to the operator that enqueued them; no
clock, no time."""

import json

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch_presil import _C


@pytest.fixture
def trace(tmp_path):
    """Runs a function under the profiler; (profile, kernel events of the chrome trace in order, all of its events)."""

    def run(body, **options):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], **options) as p:
            body()
        path = tmp_path / "trace.json"
        p.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
        return p, [e for e in events if e.get("cat") == "kernel"], events

    return run


def model():
    return nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).to("presil"), torch.randn(
        1, 4, 8, 8
    ).to("presil")


def forward(m, x):
    with torch.no_grad():
        return m(x).cpu()


def test_activity_is_known_by_the_devices_name():
    assert ProfilerActivity.PRESIL == ProfilerActivity.PrivateUse1
    assert ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()


def test_kernels_in_simulated_time(trace, rtl):
    m, x = model()
    forward(m, x)
    with torch.presil.reports() as r:
        _, kernels, events = trace(lambda: forward(m, x))
        reports = r.take()
    assert [k["name"] for k in kernels] == [r["label"] for r in reports] and len(reports) == 2
    mhz = torch.presil.get_device_properties().clock_mhz
    at = kernels[0]["ts"]
    for kernel, report in zip(kernels, reports, strict=True):
        assert kernel["dur"] == pytest.approx(report["cycles"] / mhz, abs=2e-3) and kernel["dur"] > 0
        assert kernel["ts"] == pytest.approx(at, abs=2e-3)  # stands still between launches
        at += report["cycles"] / mhz
        args = kernel["args"]
        assert (args["cycles"], args["macs"], args["read_bytes"], args["write_bytes"]) == (
            report["cycles"],
            report["macs"],
            report["read_bytes"],
            report["write_bytes"],
        )
        assert args["utilization"] == pytest.approx(
            report["macs"] * report["passes"] / report["cycles"] / report["peak_macs_per_cycle"]
        )
        assert {e: sum(c.values()) for e, c in args["stalls"].items()} == {
            e: sum(c.values()) for e, c in report["stalls"].items() if any(c.values())
        }
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    assert {rows[k["pid"], k["tid"]] for k in kernels} == {"presil:0 launches (simulated time)"}


def test_linked_to_the_operator(trace, rtl):
    m, x = model()
    p, kernels, _ = trace(lambda: forward(m, x))
    assert [k["args"]["operator"] for k in kernels] == ["aten::convolution_overrideable", "aten::addmm"]
    averages = {a.key: a for a in p.key_averages()}
    mhz = torch.presil.get_device_properties().clock_mhz
    assert averages["aten::addmm"].self_device_time_total == pytest.approx(kernels[1]["args"]["cycles"] / mhz, abs=2e-3)
    assert averages["aten::linear"].device_time_total == pytest.approx(kernels[1]["args"]["cycles"] / mhz, abs=2e-3)
    assert averages["aten::relu"].device_time_total == 0
    assert "PRESIL" in p.key_averages().table(sort_by="self_device_time_total").upper()


def test_no_clock_no_time(trace):
    m, x = model()
    p, kernels, _ = trace(lambda: forward(m, x))
    assert len(kernels) == 2
    for kernel in kernels:
        assert (
            kernel["args"]["cycles"] is None
            and kernel["args"]["utilization"] is None
            and kernel["args"]["stalls"] is None
        )
        assert kernel["args"]["macs"] > 0 and kernel["dur"] == 0
    assert sum(a.self_device_time_total for a in p.key_averages()) == 0


def test_backward_threads_and_ranges(trace):
    layer = nn.Linear(16, 16).to("presil")
    x = torch.randn(4, 16).to("presil").requires_grad_()

    def step():
        with record_function("my range"):
            layer(x).sum().backward()

    p, kernels, events = trace(step, record_shapes=True)
    operators = [k["args"].get("operator") for k in kernels]
    assert operators[0] == "aten::addmm" and operators.count("aten::mm") == len(operators) - 1 >= 1
    assert any(e.get("name") == "my range" for e in events)
    assert p.key_averages(group_by_input_shape=True)


def test_schedule_and_work_from_before(trace):
    a = torch.randn(16, 16).to("presil")
    a @ a
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PRESIL],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
    ) as p:
        for _ in range(4):
            a @ a
            p.step()
    kernels = [e for e in p.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1 and e.name == "mm"]
    assert len(kernels) == 2


def test_cpu_only_profile_has_no_kernels(tmp_path):
    a = torch.randn(16, 16).to("presil")
    with profile(activities=[ProfilerActivity.CPU]) as p:
        a @ a
        torch.presil.synchronize()
    assert any(e.name == "aten::mm" for e in p.events())
    assert not [e for e in p.events() if e.device_type != torch.autograd.DeviceType.CPU]


def test_a_launch_that_fails_is_shown_and_raises_as_ever(trace, rtl):
    a = torch.randn(16, 16).to("presil")
    (a @ a).cpu()

    def fail():
        _C.inject(0, f"slverr@{_C.device_address(0, a.data_ptr() + 64)}")
        with pytest.raises(RuntimeError, match="EBUS|bus"):
            (a @ a).cpu()
        _C.inject(0, "")

    _, kernels, _ = trace(fail)
    assert len(kernels) == 1
    assert torch.equal((a @ a).cpu(), (a @ a).cpu())
