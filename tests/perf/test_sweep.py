# SPDX-License-Identifier: Apache-2.0
"""`presil perf --sweep`: every point of the grid, each as if run alone; what fails is told, what is known is kept."""

import csv
import json

import pytest
from perf.test_command import MODELS, presil
from torch_presil.perf import grid


def test_points_are_all_combinations():
    axes = grid.parse("latency=50,100 chip=tiny,odd batch=1")
    assert grid.points(axes) == [
        {"latency": n, "chip": c, "batch": "1"} for n in ("50", "100") for c in ("tiny", "odd")
    ]  # fmt: skip
    point = {"latency": "50", "bytes": "8", "chip": "odd", "clock": "500"}
    assert grid.arguments(point, None) == ["--chip=odd", "--clock=500", "--memory=latency=50,bytes=8"]
    assert grid.arguments({"latency": "5"}, "ideal") == ["--memory=ideal,latency=5"]
    assert grid.arguments({"memory": "ideal", "stall": "0.1"}, "default") == ["--memory=ideal,stall=0.1"]
    assert grid.arguments({"batch": "2"}, None) == ["--batch=2"]


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "was expected"), ("latency", "NAME=VALUE"), ("latency=", "NAME=VALUE"), ("latency=1,1", "that differ"),
     ("latency=1 latency=2", "given twice"), ("lanes=32,64", "build it"), ("lat=1", "one of latency")],
)  # fmt: skip
def test_what_is_no_grid_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        grid.parse(text)


def test_the_front():
    sizes = {
        "a": (10, 100),
        "b": (20, 50),
        "c": (20, 60),
        "d": (30, 50),
        "e": (10, 100),
        "f": (None, 1),
        "g": (5, None),
    }
    rows = [{"name": n, "area": a, "cycles": c} for n, (a, c) in sizes.items()]
    grid.pareto(rows)
    assert {row["name"] for row in rows if row["front"]} == {"a", "b", "e"}
    assert [row["front"] for row in rows[-2:]] == [None, None]
    with pytest.raises(ValueError, match="CHIP=NUMBER"):
        grid.parse_area("base=large")
    assert grid.parse_area("a=1,b=2.5") == {"a": 1.0, "b": 2.5}


def test_a_sweep_on_the_rtl(tmp_path):
    call = ["perf", f"{MODELS}:traceable", "--jobs", 1, "--sweep", "latency=10,300", "--sweep-dir", tmp_path / "s",
            "--json", tmp_path / "s.json", "--csv", tmp_path / "s.csv", "--area", "tiny=21741"]  # fmt: skip
    told = presil(*call, folder=tmp_path)
    found = json.loads((tmp_path / "s.json").read_text())
    fast, slow = found["points"]
    assert (fast["point"], slow["point"]) == ({"latency": "10"}, {"latency": "300"}) and fast["cycles"] < slow["cycles"]
    for row in found["points"]:
        alone = json.loads((tmp_path / "s" / row["json"]).read_text())
        assert alone["total"]["cycles"] == row["cycles"] and alone["memory"]["latency"] == int(row["point"]["latency"])
    assert fast["front"] and not slow["front"] and "failed" not in told and ": known" not in told
    rows = list(csv.DictReader((tmp_path / "s.csv").open()))
    assert [row["cycles"] for row in rows] == [str(fast["cycles"]), str(slow["cycles"])]
    # Again, with a point that is known and one that can't be had.
    call[call.index("latency=10,300")] = "latency=10,x"
    told = presil(*call, "--resume", folder=tmp_path, status=4)
    rows = json.loads((tmp_path / "s.json").read_text())["points"]
    assert told.count(": known") == 1 and rows[0] == fast
    assert "latency" in rows[1]["error"] and rows[1]["cycles"] is None and rows[1]["front"] is None
