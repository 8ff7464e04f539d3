# SPDX-License-Identifier: Apache-2.0
"""`presil bench` fails when what it measures is not the right result."""

import copy
import io

import pytest
import torch
from rich.console import Console
from torch_presil import bench
from torch_presil.agreement import digest

LAYER = {"where": "chip", "name": "layer1.0.conv2", "utilization": 0.99, "fill_drain": 10}
RIGHT = {"cosine": 0.9999, "max_abs": 0.01, "top1": True, "reference": "varied"}
TOTAL = {"macs": 4e12, "sim_seconds": 1.0, "host_seconds": 0.0, "twin_seconds": 0.01, "cpu_seconds": 0.5}


def measured(monkeypatch, agreement: dict, outputs=("aa", "aa")) -> dict:
    """bench.run() of ResNet-50 int8 with an agreement, and the digests of the RTL's and the twin's output, put in."""
    totals = iter([{**TOTAL, "utilization": 0.99, "agreement": agreement, "output_sha256": o} for o in outputs])
    monkeypatch.setattr(bench.cosim, "run", lambda _: {"total": next(totals), "layers": [copy.deepcopy(LAYER)]})
    return bench.run("resnet50_int8", Console(file=io.StringIO()))


def test_a_right_result_passes(monkeypatch):
    result = measured(monkeypatch, RIGHT)
    assert result["checks"]["resnet50_int8_cosine"]["ok"] and result["threads"] >= 1
    text = io.StringIO()
    bench.print_result(result, Console(file=text, width=200))
    assert f"on {result['threads']} threads" in " ".join(text.getvalue().split())  # whatever the processor is called


@pytest.mark.parametrize("cosine", [0.5, 0.0, None])
def test_a_wrong_result_is_a_missed_figure(monkeypatch, cosine):
    wrong = {**RIGHT, "cosine": cosine}
    assert not measured(monkeypatch, wrong)["checks"]["resnet50_int8_cosine"]["ok"]


def test_a_result_that_is_not_the_twins_ends_the_measurement(monkeypatch):
    with pytest.raises(RuntimeError, match="the RTL's result is not the twin's"):
        measured(monkeypatch, RIGHT, ("aa", "ab"))


def test_the_digest_of_an_output_sees_a_bit_a_shape_a_name():
    x = torch.tensor([1.0, -0.0])
    others = [torch.tensor([1.0, 0.0]), x.reshape(2, 1), x.view(torch.int32), {"y": x}, (x, x)]
    assert len({digest(out) for out in (x, *others)}) == len(others) + 1
    assert digest(x) == digest(x.clone()) and digest(torch.tensor(2)) and digest(torch.zeros(0))


def test_a_launch_in_c_has_its_cost(monkeypatch):
    """Of fewer rounds: the best of two hundred takes 16 s."""
    ran = bench.ran
    monkeypatch.setattr(bench, "ran", lambda c: ran([*c, "base", "10"] if c[0].endswith("bench_launch") else c))
    checks = bench.run("launch", Console(file=io.StringIO()))["checks"]
    assert set(checks) == {f"launch_{name}_us" for name in ("nop", "matmul16", "gemv4096")}
    assert all(0 < check["value"] < 1000 for check in checks.values()), checks


def test_a_launch_that_cannot_be_measured_ends_the_measurement(monkeypatch):
    monkeypatch.setenv("PRESIL_BUILD_DIR", "/nonexistent")
    with pytest.raises(RuntimeError, match="cc .* failed"):
        bench.run("launch", Console(file=io.StringIO()))


@pytest.mark.parametrize("only", ["nonesuch", "launch,lanch"])
def test_a_part_that_is_none_is_refused(only, monkeypatch):
    monkeypatch.setitem(bench.PARTS, "launch", lambda tell: pytest.fail("it was measured"))
    with pytest.raises(ValueError, match="no part is called '(nonesuch|lanch)': graph, "):
        bench.run(only, Console(file=io.StringIO()))


def test_what_could_not_be_measured_is_said(monkeypatch):
    text = io.StringIO()
    for part in ("dpi", "dpi.registers"):
        monkeypatch.setitem(bench.PARTS, part, lambda tell: {})
    with pytest.raises(RuntimeError, match="nothing was measured"):
        bench.run("dpi", Console(file=text, width=200))
    assert "dpi: not measured" in text.getvalue()
    monkeypatch.setitem(bench.PARTS, "socket", lambda tell: {"socket_launch_extra_us": 1.0})
    assert set(bench.run("dpi,socket", Console(file=text))["figures"]) == {"socket_launch_extra_us"}


def test_registers_are_read_in_both():
    """Through a socket a register is read far more slowly than in this process."""
    figures = bench.run("dpi.registers", Console(file=io.StringIO()))["figures"]
    assert set(figures) == {"dpi_plain_registers_khz", "dpi_registers_khz", "dpi_registers_slowdown"}
    assert figures["dpi_registers_khz"] > 0.1 and figures["dpi_registers_slowdown"] > 3, figures


def test_a_program_beside_a_server_that_fails_ends_the_measurement(monkeypatch):
    monkeypatch.setattr(bench, "c_program", lambda *_: "false")
    with pytest.raises(RuntimeError, match="measuring beside presil-dpi-base failed"):
        bench.run("dpi.registers", Console(file=io.StringIO()))
