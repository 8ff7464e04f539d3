# SPDX-License-Identifier: Apache-2.0
"""torch.presil.explain(): every operator once, where it ran, why, from which line, and what it cost; strict mode."""

import inspect
import json

import pytest
import torch
from torch import nn


def here() -> int:
    """The caller's line number."""
    return inspect.currentframe().f_back.f_lineno


def row(e, op, where=None):
    found = [g for g in e.operators(metadata=True) if g["op"] == op and (where is None or g["where"] == where)]
    assert len(found) == 1, (op, where, [(g["op"], g["where"]) for g in e.operators(metadata=True)])
    return found[0]


def device(*shape, **options):
    return torch.randn(*shape, **options).to("presil")


def test_chip_host_composite_and_metadata():
    a, b = device(16, 32), device(32, 8)
    with torch.presil.explain() as e:
        for _ in range(3):
            c = a @ b
        c = c.transpose(0, 1)
        c.exp()
    chip = row(e, "aten::mm")
    assert (chip["where"], chip["calls"], chip["launches"], chip["macs"]) == ("chip", 3, 3, 3 * 16 * 32 * 8)
    assert row(e, "aten::matmul")["where"] == "composite"
    assert row(e, "aten::transpose.int")["where"] == "metadata"
    host = row(e, "aten::exp.out")
    assert (
        host["where"] == "host"
        and host["calls"] == 1
        and host["reason"]
        and host["host_seconds"] > 0
        and host["launches"] == 0
    )
    assert row(e, "aten::exp")["where"] == "composite"


def test_the_users_line():
    a = device(8, 8)
    with torch.presil.explain() as e:
        first = here() + 1
        a @ a
        second = here() + 1
        a @ a
        nn.functional.gelu(a)
    lines = row(e, "aten::mm")["lines"]
    assert {(line["file"], line["line"], line["calls"]) for line in lines} == {
        (__file__, first, 1),
        (__file__, second, 1),
    }
    assert lines[0]["function"] == "test_the_users_line"
    (line,) = row(e, "aten::gelu.out", "host")["lines"]
    assert (line["file"], line["line"]) == (__file__, second + 1)


def test_backward_has_the_line_of_its_forward():
    layer = nn.Linear(32, 16).to("presil")
    x = device(4, 32)
    with torch.presil.explain() as e:
        forward = here() + 1
        y = layer(x)
        y.sum().backward()
    mm = row(e, "aten::mm", "chip")
    assert mm["calls"] >= 1 and {(line["line"], line["backward"]) for line in mm["lines"]} == {(forward, True)}
    assert not row(e, "aten::addmm", "chip")["lines"][0]["backward"]


def test_bytes_moved_by_the_host():
    x = torch.randn(1000)
    with torch.presil.explain() as e:
        d = x.to("presil")
        d.to(torch.bfloat16)
        d.cpu()
        d.view(10, 100).t().contiguous()
    moved = {g["reason"]: g["host_bytes"] for g in e.operators() if g["op"] == "aten::_copy_from"}
    assert moved == {
        "copy to the device": 4000,
        "conversion to another dtype": 2000,
        "copy to the host": 4000,
        "conversion to another layout": 4000,
    }
    assert e.totals()["host"]["host_bytes"] == 14000 and e.totals()["chip"]["launches"] == 0


def test_weights_are_packed_once():
    layer = nn.Conv2d(8, 16, 3).to("presil")
    x = device(1, 8, 9, 9)
    with torch.presil.explain() as e, torch.no_grad():
        layer(x)
        layer(x)
    pack = row(e, "presil::pack_weights")
    assert pack["calls"] == 1 and pack["host_bytes"] > 0 and pack["where"] == "host"
    assert sum(g["launches"] for g in e.operators() if g["where"] == "chip") == 2


def test_model_has_no_cycles():
    a = device(16, 16)
    with torch.presil.explain() as e:
        a @ a
        a.cpu()
    assert row(e, "aten::mm")["cycles"] is None and row(e, "aten::mm")["dram_bytes"] is None
    assert e.totals()["chip"]["cycles"] is None and e.json()["mode"] == "model"
    assert row(e, "aten::mm")["sim_seconds"] > 0


def test_cycles_on_the_rtl(rtl):
    a = device(16, 16)
    with torch.presil.explain() as e, torch.presil.reports() as reports:
        a @ a
        a @ a
        launches = reports.take()
    mm = row(e, "aten::mm")
    assert mm["cycles"] == sum(r["cycles"] for r in launches) > 0
    assert mm["dram_bytes"] == sum(r["read_bytes"] + r["write_bytes"] for r in launches) >= 2 * 3 * 16 * 16 * 4


def test_work_from_before_is_not_counted():
    a = device(16, 16)
    a @ a
    with torch.presil.explain() as e:
        a.exp()
    assert not [g for g in e.operators() if g["where"] == "chip"]


def test_cpu_work_is_not_listed():
    x = torch.randn(4, 4)
    with torch.presil.explain() as e:
        x @ x
        torch.relu(x)
    assert e.operators(metadata=True) == []


def test_table_json_and_sort(tmp_path):
    layer = nn.Conv2d(3, 4, 3).to("presil")
    with torch.presil.explain() as e, torch.no_grad():
        nn.functional.softmax(layer(device(1, 3, 8, 8)), 1)
    assert (
        "aten::convolution_overrideable" in str(e) and "test_explain.py" in str(e) and "no kernel on the chip" in str(e)
    )
    value = e.json(tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_text()) == json.loads(json.dumps(value))
    calls = [g["calls"] for g in e.operators(sort="calls", metadata=True)]
    assert calls == sorted(calls, reverse=True)
    assert sum(g["calls"] for g in e.operators(by="line")) == sum(g["calls"] for g in e.operators())
    with pytest.raises(ValueError, match="sort must be one of"):
        e.operators(sort="price")


def test_one_at_a_time_and_usable_after_an_error():
    a = device(4, 4)
    with pytest.raises(RuntimeError, match="mat1 and mat2|shapes cannot"):
        with torch.presil.explain() as e:
            a.exp()
            a @ device(3, 3)
    assert row(e, "aten::exp.out")["calls"] == 1
    with torch.presil.explain() as outer:
        with pytest.raises(RuntimeError, match="active already"):
            with torch.presil.explain():
                pass
        a.exp()
    assert row(outer, "aten::exp.out")["calls"] == 1
    with pytest.raises(RuntimeError, match="nothing is recorded"):
        str(torch.presil.explain())


def test_threads():
    import threading

    a = device(16, 16)
    with torch.presil.explain() as e:
        threads = [threading.Thread(target=lambda: [a @ a for _ in range(50)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    mm = row(e, "aten::mm")
    assert (mm["calls"], mm["launches"], mm["macs"]) == (200, 200, 200 * 16**3)


def test_strict_names_operator_reason_and_line():
    a = device(4)
    with torch.backends.presil.flags(strict=True):
        with pytest.raises(RuntimeError) as caught:
            line = here() + 1
            a.exp()
    text = str(caught.value)
    assert (
        "aten::exp" in text
        and "no kernel on the chip" in text
        and f"{__file__}:{line} (test_strict_names_operator_reason_and_line)" in text
    )
