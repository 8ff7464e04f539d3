# SPDX-License-Identifier: Apache-2.0
"""`presil perf --sweep`: every point of the grid, each as if run alone; what fails is told, what is known is kept."""

import csv
import importlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from perf.test_command import MODELS, presil
from torch_presil.inputs import Drawn, Given, InputSpec, parse_input
from torch_presil.perf import configured, grid, identity, proxies, sequence
from torch_presil.perf.command import perf

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", "build/check"))


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
     ("latency=1 latency=2", "given twice"), ("wires=32,64", "build it"), ("lat=1", "one of latency")],
)  # fmt: skip
def test_what_is_no_grid_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        grid.parse(text)


def test_lengths_of_a_sequence():
    specs = ["input_ids=1,16:int64:100", "attention_mask=1,16:int64:2", "states=1,7,32", "pixel_values=1,3,16,16"]
    drawn = Drawn([parse_input(text) for text in specs])
    found = ["input_ids=1,64:int64:100", "attention_mask=1,64:int64:2", "states=1,7,32:float32",
             "pixel_values=1,3,16,16:float32"]  # fmt: skip
    assert sequence.inputs_of(drawn, "64") == found
    again = [parse_input(text) for text in found]
    assert [(s.shape, s.dtype, s.below, s.name) for s in again[2:]] == [
        (s.shape, s.dtype, s.below, s.name) for s in drawn.specs[2:]
    ]
    assert sequence.inputs_of(Drawn([parse_input("2,8,16"), parse_input("2,8:bool")]), "5") == [
        "2,5,16:float32", "2,5:bool"]  # fmt: skip
    for inputs, length, says in ((Drawn([InputSpec((1, 3, 8, 8))]), "5", "1,3,8,8:float32"), (drawn, "0", "1 or more"),
                                 (Given(torch.ones(2, 8)), "5", "name their sizes by --input")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            sequence.inputs_of(inputs, length)


@pytest.mark.nightly
def test_a_sweep_over_the_sequence(tmp_path):
    call = ["perf", f"{MODELS}:eager", "--jobs", 1, "--sweep-dir", tmp_path / "s", "--json", tmp_path / "s.json"]
    presil(*call, "--sweep", "seq=24,8", "--input", "2,16,16", folder=tmp_path)
    longer, short = json.loads((tmp_path / "s.json").read_text())["points"]
    assert (longer["point"], short["point"]) == ({"seq": "24"}, {"seq": "8"}) and longer["cycles"] > short["cycles"]
    for row, sizes in ((longer, [2, 24, 16]), (short, [2, 8, 16])):
        assert json.loads((tmp_path / "s" / row["json"]).read_text())["input"] == sizes
    again = presil(*call, "--sweep", "seq=8,12", "--input", "2,16,16", "--resume", folder=tmp_path)
    assert again.count(": known") == 1 and "seq=8: known" in again
    told = presil(*call, "--sweep", "seq=8", folder=tmp_path, status=2)
    assert "name their sizes by --input" in " ".join(told.split())


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
        assert alone["rtl"].encode() in (BUILD / "lib" / "libpresil_sim_tiny_fast.so").read_bytes()
    assert fast["front"] and not slow["front"] and "failed" not in told and ": known" not in told
    rows = list(csv.DictReader((tmp_path / "s.csv").open()))
    assert [row["cycles"] for row in rows] == [str(fast["cycles"]), str(slow["cycles"])]
    # Again, with a point that is known and one that can't be had.
    call[call.index("latency=10,300")] = "latency=10,x"
    told = presil(*call, "--resume", folder=tmp_path, status=4)
    rows = json.loads((tmp_path / "s.json").read_text())["points"]
    assert told.count(": known") == 1 and rows[0] == fast
    assert "latency" in rows[1]["error"] and rows[1]["cycles"] is None and rows[1]["front"] is None
    # What made the point is another now; then nothing tells what made it.
    call[call.index("latency=10,x")] = "latency=10"
    assert "measured again, other model" in presil(*call, "--resume", "--seed", 1, folder=tmp_path)
    kept = tmp_path / "s" / "latency=10.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "made_by": None}))
    assert "nothing tells what made it" in presil(*call, "--resume", "--seed", 1, folder=tmp_path)
    assert ": known" in presil(*call, "--resume", "--seed", 1, "--jobs", 2, folder=tmp_path)


MODEL = """
import torch, sizes
def make():
    torch.manual_seed(0)
    return torch.nn.Linear(sizes.WIDTH, 8), torch.ones(2, sizes.WIDTH)
"""


@pytest.fixture
def identified(tmp_path, monkeypatch):
    """sweep() -> of a model that lies here, beside a module that it imports; its document and what made it."""
    (tmp_path / "net_of_sweep.py").write_text(MODEL)
    (tmp_path / "sizes.py").write_text("WIDTH = 8\n")
    (tmp_path / "libpresil_sim_x_fast.so").write_text("one")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = {"area": None, "jobs": 1, "model": "net_of_sweep:make", "input": (), "seed": 0, "config": (),
             "memory": None, "sweep_dir": tmp_path, "resume": True, "weights": None}  # fmt: skip

    def sweep(**more):
        for name in ("sizes", "net_of_sweep"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        made = grid.Sweep.of("latency=1", {**given, **more})
        made.identify()
        return made

    return sweep


def kept(sweep, folder) -> dict:
    library = str(folder / "libpresil_sim_x_fast.so")
    made_by = sweep.of_point({"latency": "1"})
    return {**made_by, "libraries": {library: identity.file_hash(library)}}


def test_a_point_is_known_by_all_that_made_it(identified, tmp_path, monkeypatch):
    first = kept(identified(), tmp_path)
    again = lambda **more: identity.differs(first, identified(**more).of_point({"latency": "1"}))
    assert again() is None
    assert identity.differs(first, identified().of_point({"latency": "2"})) == "other point"
    assert again(memory="ideal") == "other point" and again(seed=1) in ("other model", "other options")
    (tmp_path / "weights.pt").write_text("x")
    assert again(weights=str(tmp_path / "weights.pt")) == "other options"
    monkeypatch.setenv("PRESIL_BUILD", "check")
    assert again() == "other environment"
    monkeypatch.delenv("PRESIL_BUILD")
    (tmp_path / "sizes.py").write_text("WIDTH = 9\n")
    assert again() == "other model"
    (tmp_path / "sizes.py").write_text("WIDTH = 8  # as before\n")
    assert again() == "other sources"
    (tmp_path / "sizes.py").write_text("WIDTH = 8\n")
    assert again() is None
    (tmp_path / "libpresil_sim_x_fast.so").write_text("two")
    assert again() == "other libpresil_sim_x_fast.so"
    assert identity.differs({**first, "libraries": {}}, identified().of_point({"latency": "1"})) is not None


def test_points_run_side_by_side():
    given = {"area": None, "model": "m", "input": (), "seed": 0, "config": (), "memory": None, "sweep_dir": "s",
             "resume": False}  # fmt: skip
    split = lambda jobs, axes: (lambda s: (s.at_once, s.jobs))(grid.Sweep.of(axes, {**given, "jobs": jobs}))
    assert (
        split(8, "latency=1,2,3") == (3, 2) and split(2, "latency=1,2,3") == (2, 1) and split(1, "latency=1") == (1, 1)
    )


@pytest.mark.parametrize("option", ["--png=x.png", "--html=x.html", "--perfetto=x", "--explorer=x"])
def test_what_has_no_effect_is_refused(option, tmp_path):
    done = CliRunner().invoke(perf, ["m.py:m", "--sweep", "latency=1", "--sweep-dir", str(tmp_path), option])
    assert done.exit_code == 2 and f"{option.partition('=')[0]} can't be had of a --sweep" in done.output
    assert CliRunner().invoke(perf, ["m.py:m", "--resume"]).exit_code == 2


def test_a_point_of_the_rtl_is_known_by_what_it_is_built_from(identified, monkeypatch):
    sweep = identified()
    point = {"latency": "1", "cells": "4"}
    first, other = sweep.rtl(point), sweep.rtl({**point, "cells": "12"})
    assert sweep.rtl({"latency": "1"}) is None and first.name == "tiny_cells4" and first.values["lanes"] == 16
    assert first.key == sweep.rtl(point).key != other.key and sweep.of_point(point)["RTL"] == first.key
    assert sweep.rtl({"chip": "base", "cells": "4"}).values["lanes"] == 64
    monkeypatch.setattr(configured, "_of_sources", lambda: "other RTL")
    assert sweep.rtl(point).key != first.key
    for wrong in ({"cells": "many"}, {"chip": "nosuch", "cells": "4"}):
        with pytest.raises(configured.NotBuilt):
            sweep.rtl(wrong)


def test_bus_and_scratchpad_by_their_bytes(identified):
    sweep = identified()
    rtl = sweep.rtl({"latency": "1", "bus": "32", "spad": "128K"})
    assert rtl.values["word_bytes"] == 32 and rtl.values["bank_words"] * rtl.values["banks"] * 32 == 128 << 10
    assert "bus" not in rtl.values and "spad" not in rtl.values and rtl.name == "tiny_bus32_spad128K"
    assert rtl.values["lanes"] == 16 and sweep.rtl({"spad": "65536"}).values["bank_words"] == 1024
    for wrong in ({"spad": "1000"}, {"spad": "K"}, {"spad": "0"}, {"bus": "32", "word_bytes": "32"}, {"bus": "wide"}):
        with pytest.raises(configured.NotBuilt):
            sweep.rtl(wrong)


@pytest.mark.nightly
def test_parameters_of_the_rtl(tmp_path, monkeypatch):
    """A configuration that no file names is built, runs, and its array is as wide as it says; one that the RTL refuses
    is told in the RTL's words; neither is built again."""
    monkeypatch.setenv("PRESIL_CACHE", str(tmp_path / "cache"))
    call = ["perf", f"{MODELS}:traceable", "--jobs", 2, "--mode", "verify", "--chip", "tiny", "--sweep", "cells=4,6",
            "--sweep-dir", tmp_path / "s", "--json", tmp_path / "s.json"]  # fmt: skip
    told = presil(*call, folder=tmp_path, status=4)
    built, refused = json.loads((tmp_path / "s.json").read_text())["points"]
    document = json.loads((tmp_path / "s" / built["json"]).read_text())
    assert document["properties"]["cells"] == 4 and document["problems"] == [] and built["chip"] == "tiny_cells4"
    assert document["roof"]["peaks"] == [16 * 4 / 2] and all(x["verified"] == 1 for x in document["launches"])
    assert built["front"] and 1e5 < built["area"] < grid_area("tiny")
    assert "CELLS = 6: a multiple of 4" in refused["error"] and "can't be built" in refused["error"]
    assert "built tiny_cells4 in" in told
    again = presil(*call, "--resume", folder=tmp_path, status=4)
    assert "cells=4: known" in again and "building tiny_cells4" not in again
    call[call.index("cells=4,6")] = "cells=4"
    assert "building" not in presil(*call, folder=tmp_path)


def grid_area(name: str) -> float:
    return proxies.area_of({"chip": "presil", "config": name})["total"]
