# SPDX-License-Identifier: Apache-2.0
"""The document of a chip on paper: sums, what follows from them, and that what doesn't add up is said."""

import copy
import json

import pytest
from perf import paper
from torch_presil.perf import document


def test_it_adds_up():
    made = paper.made()
    assert made["problems"] == [] and made["perf"] == document.FORM
    assert [row["name"] for row in made["layers"]] == list(paper.LAYERS)
    assert [row["launches"] for row in made["layers"]] == [1, 1, 2, 1]
    assert [row["cycles"] for row in made["layers"]] == [1000, 400, 800, 101]
    assert made["total"]["cycles"] == 2301 and made["total"]["macs"] == 8 * 1150
    assert [launch["start"] for launch in made["launches"]] == [0, 1000, 1400, 1600, 2200]
    for row in [*made["layers"], made["total"], *made["launches"]]:
        assert all(sum(causes.values()) == row["cycles"] for causes in row["stalls"].values()), row
    assert json.loads(json.dumps(made)) == made


def test_what_follows_from_the_sums():
    stem = paper.made()["layers"][0]
    assert stem["utilization"] == 0.5 and stem["array_cycles"] == 500
    assert stem["bus_cycles"] == (16000 + 320) / 32 == 510 and stem["roof_cycles"] == 510
    assert stem["bus_share"] == 0.51
    assert stem["bound"] == "grid", "of two causes as frequent as each other that which works"
    assert paper.made()["layers"][3]["bound"] == "memory"


def test_time_and_rate():
    total = paper.made()["total"]
    assert total["seconds"] == 2301 / 500e6 and total["images_per_second"] == 2 * 500e6 / 2301
    assert total["host_least_cycles"] == -(-1320 // 32) == 42
    assert total["images_per_second_with_host"] == 2 * 500e6 / (2301 + 42)
    unclocked = paper.made(clock=None)["total"]
    assert unclocked["cycles"] == 2301 and unclocked["seconds"] is unclocked["images_per_second"] is None
    assert unclocked["images_per_second_with_host"] is None


@pytest.mark.parametrize(
    ("beats", "bytes_of_beat", "memory", "width"),
    [(500, 32, {}, 32), (500, 31.5, {}, 32), (500, 33, {}, 64), (500, 1, {}, 1), (500, 32, {"bytes": 8}, 8),
     (500, 32, {"bytes": 0}, 64), (500, 32, {"bytes": 64}, 64), (500, 32, {"bytes": 48}, 48), (0, 32, {}, None)],
)  # fmt: skip
def test_width_of_the_bus(beats, bytes_of_beat, memory, width):
    one = paper.report(
        "x", 1, 1000, read_beats=beats, write_beats=0, read_bytes=int(500 * bytes_of_beat), write_bytes=0
    )
    found = document.bus_width([one], memory)
    assert found == width if found is None else (found["bytes_per_cycle"] == width and found["source"])


def test_no_share_is_above_the_whole():
    """A memory without a limit gives a read and a write in one cycle; a beat that is partly used takes as long."""
    both = {"read_beats": 900, "write_beats": 900, "read_bytes": 900 * 32, "write_bytes": 900 * 3}
    taken = [paper.report("stem", 1, 1000, **both), *paper.reports()[1:]]
    stem = paper.made(taken, memory={"model": "ideal", "bytes": 0})["layers"][0]
    assert stem["bus_share"] == 0.9 and stem["bus_cycles"] == 900 * 35 / 64
    found = paper.made(taken)["problems"]
    assert found == ["launch 0 (stem): 1,000 cycles are 180.0 % of what the bus allows"]
    more = [{**taken[0], **both, "write_beats": 50, "macs": 9000}, *taken[1:]]
    assert paper.made(more)["problems"] == ["launch 0 (stem): 1,000 cycles are 112.5 % of what the array's peak allows"]
    assert paper.made([{**more[0], "macs": 4000}, *taken[1:]])["layers"][0]["bus_share"] == 0.95


def test_a_bus_of_unknown_width_leaves_bounds_out():
    taken = [{**r, "read_beats": 0, "write_beats": 0} for r in paper.reports()]
    made = paper.made(taken)
    assert made["bus"] is None and made["problems"] == []
    assert made["total"]["host_least_cycles"] is made["total"]["images_per_second_with_host"] is None
    assert made["layers"][0]["bus_share"] is None and made["layers"][0]["roof_cycles"] == 500


def test_traffic_by_tensor():
    row = {"tensors": {"weights": 100, "inputs": 200, "results": 50}, "read_bytes": 360, "write_bytes": 50}
    told = document.traffic(row)
    assert told["again"] == 60 and told["unread"] == told["written_again"] == told["unwritten"] == 0
    skipping = document.traffic({**row, "read_bytes": 250, "write_bytes": 80})
    assert skipping["unread"] == 50 and skipping["again"] == 0 and skipping["written_again"] == 30
    kinds = ("weights", "activations", "results", "again", "written_again")
    for told, moved in ((told, 410), (skipping, 330)):
        assert sum(told[k] for k in kinds) - told["unread"] - told["unwritten"] == moved


def test_the_tree_has_every_module_once():
    tree = paper.made()["tree"]
    assert [(n["depth"], n["path"]) for n in tree] == [
        (0, ""), (1, "stem"), (1, "body"), (2, "body.0"), (3, "body.0.a"), (3, "body.0.b"), (1, "head"),
    ]  # fmt: skip
    cycles = {n["path"]: n["cycles"] for n in tree}
    assert cycles[""] == 2301 and cycles["body"] == cycles["body.0"] == 1200
    assert next(n for n in tree if n["path"] == "body")["utilization"] == 0.5


def test_the_host_has_a_bound_for_all_that_it_moves():
    moved = {"copy to the device": {"calls": 1, "bytes": 33, "seconds": 1e-5}}
    operators = paper.events()
    operators[2]["moves"] = {"conversion to another layout": {"calls": 1, "bytes": 640, "seconds": 1e-5}}
    rows = paper.made(operators=operators, extra=moved)["host"]
    assert [(r["name"], r["bytes"], r["least_cycles"]) for r in rows] == [
        ("max_pool2d", 1320, 42), ("presil.conv2d", 640, 20), ("copy to the device", 33, 2),
    ]  # fmt: skip
    assert rows[0]["why"] == "no kernel on the chip" and rows[0]["module"] == "pool"


def test_a_model_without_a_launch_says_why():
    found = paper.made([], paper.events()[1:2], missing=[])["problems"]
    assert found == [
        "the model made no launch on the chip, all of it ran on the host (max_pool2d: no kernel on the chip)"
    ]


def without(taken: list, label: str) -> list:
    return [r for r in taken if r["label"] != label]


def one_cycle_more(taken: list) -> list:
    taken = copy.deepcopy(taken)
    taken[1]["stalls"]["grid"]["starved"] += 1
    return taken


@pytest.mark.parametrize(
    ("taken", "text"),
    [
        (one_cycle_more(paper.reports()), "launch 1 (body.0.a): the causes of grid add up to 401 cycles, the launch"),
        (without(paper.reports(), "body.0.b"), "no launch of 1 of 4 layers: body.0.b"),
        ([*paper.reports(), paper.report("stray", 0, 10)], "launch 5 (stray) belongs to no operator"),
        ([*paper.reports(), paper.report("stray", 6, 10)], "launch 5 (stray) belongs to no operator"),
        ([{**r, "verified": 0} for r in paper.reports()[:1]] + paper.reports()[1:], "RTL and twin differ"),
        ([{**r, "cycles": 0, "stalls": {}} for r in paper.reports()], "no launch took a cycle"),
    ],
)
def test_what_does_not_add_up_is_said(taken, text):
    found = paper.made(taken)["problems"]
    assert any(text in line for line in found), found
