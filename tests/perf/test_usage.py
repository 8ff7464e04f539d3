# SPDX-License-Identifier: Apache-2.0
"""What launches move, by tensor, and hold on the chip: added up on paper, shown everywhere, and on the RTL of `tiny`
what the bus counts."""

import csv
import json
import re

import pytest
from browser import in_a_browser, opened
from perf import paper
from perf.test_command import MODELS, presil
from perf.test_page import part, rows
from perf.test_perfetto import named, read  # noqa: F401 (a fixture)
from rich.console import Console
from torch_presil.perf import from_plans, page, table

WORD = 16  # of `tiny`


def by_role(row: dict) -> dict:
    return {t["role"]: (t["read_bytes"], t["again_bytes"], t["write_bytes"]) for t in row["by_tensor"]}


def test_layers_and_all_have_the_sums_of_their_launches():
    made = paper.made(paper.used(again=8))
    assert made["problems"] == []
    twice = made["layers"][2]
    assert by_role(twice) == {
        "weights": (128, 0, 0), "activations": (32 * 400 - 128, 16, 0), "results": (0, 0, 640),
        "partial sums": (0, 0, 0), "commands": (8192, 0, 0),
    }  # fmt: skip
    assert twice["memories"] == [{"name": "pad", "capacity": 1000, "peak": 300, "reserved": 800,
                                  "mean": 0.25 * 50 + 0.75 * 150}]  # fmt: skip
    total = made["total"]
    assert by_role(total)["activations"] == (total["read_bytes"] - 5 * 64, 5 * 8, 0)
    assert total["memories"][0]["peak"] == 500 and [t["apart"] for t in total["by_tensor"]] == [False] * 4 + [True]
    assert json.loads(json.dumps(made)) == made


def test_a_chip_that_does_not_tell_has_none_of_it():
    made = paper.made()
    for row in (*made["layers"], made["total"]):
        assert row["by_tensor"] is row["memories"] is None
    one = paper.made([paper.usage(paper.reports()[0]), *paper.reports()[1:]])
    assert one["layers"][0]["by_tensor"] and one["total"]["by_tensor"] is one["total"]["memories"] is None


def test_what_the_bus_did_not_count_is_said():
    taken = paper.used()
    taken[1]["traffic"][0]["read_bytes"] += 1
    assert paper.made(taken)["problems"] == [
        "launch 1 (body.0.a): by its plan its tensors read 6,401 bytes, the bus counted 6,400"
    ]
    taken = paper.used()
    taken[0]["traffic"][2]["write_bytes"] -= 20
    taken[0]["memories"][0]["peak"] = 1001
    assert paper.made(taken)["problems"] == [
        "launch 0 (stem): by its plan its tensors write 300 bytes, the bus counted 320",
        "launch 0 (stem): 1,001 bytes in use of the 1,000 of pad",
    ]


def test_operands_in_the_model_s_parameters_are_weights():
    at = lambda role, pointer: {"role": role, "pointer": pointer}
    found = [at("activations", 100), at("activations", 163), at("activations", 164), at("residual", 301),
             at("results", 100), {"role": "commands"}]  # fmt: skip
    from_plans.name_constants([{"traffic": found}, {}], {100: (64, 2), 300: (8, 1)})
    assert [row["role"] for row in found] == ["weights", "weights", "activations", "parameters", "results", "commands"]
    assert all("pointer" not in row for row in found)


def test_the_table_has_the_peak_of_capacity(tmp_path):
    with open(tmp_path / "told", "w") as f:
        table.print_document(paper.made(paper.used()), Console(file=f, width=140))
        table.print_document(paper.made(), Console(file=f, width=140))
    told, without = (tmp_path / "told").read_text().split("paper:net")[1:]
    assert "pad" in told and "50.0 %" in re.search("stem.*", told)[0] and "pad" not in without
    table.write_csv(paper.made(paper.used(again=8)), tmp_path / "x.csv")
    stem, *_, host = csv.DictReader((tmp_path / "x.csv").open())
    assert (stem["activations.read_bytes"], stem["activations.again_bytes"]) == ("15936", "8")
    assert (stem["pad.peak_bytes"], stem["pad.mean_bytes"], stem["pad.capacity_bytes"]) == ("500", "250.0", "1000")
    assert stem["partial_sums.write_bytes"] == "0" and host["where"] == "host" and host["pad.peak_bytes"] == ""


def test_counters_of_the_trace(read):  # noqa: F811
    events, tracks = read(paper.made(paper.used()))
    for key, first in (("peak", 500), ("mean", 250)):
        track = named(tracks)[f"pad in use, {key} of a launch"]
        told = [(p.timestamp, p.track_event.double_counter_value) for p in events if p.track_event.track_uuid == track]
        assert told[:3] == [(0, first), (2000, 0), (2084, first * 0.4)] and told[-1][1] == 0
    note = next(a for p in events if p.track_event.name == "stem" for a in p.track_event.debug_annotations
                if a.name == "by_tensor")  # fmt: skip
    assert {e.name for e in note.dict_entries} == {"input", "weight", "output", "pages", "partial sums"}


@in_a_browser
def test_the_page_shows_both(tmp_path):
    (tmp_path / "p.html").write_text(page.render(paper.made(paper.used(again=8))))
    document = opened(tmp_path / "p.html")
    head = re.findall(r"<th[^>]*>(.*?)</th>", part(document, "layers"))
    at = head.index("pad")
    assert [row[at] for row in rows(document, "layers")] == ["50.0 %", "20.0 %", "30.0 %", "5.0 %", "50.0 %"]
    drawn = re.findall(r'<path d="([^"]*)"', part(document, "timeline"))
    assert len(drawn) == 5
    moves = [float(y) for y in re.findall(r"V([\d.]+)H", drawn[0])]
    bottom = float(re.match(r"M[\d.]+ ([\d.]+)", drawn[0])[1])
    assert [round(bottom - y, 1) for y in moves] == [0, 13, 2.6, 0], "half of the lane, then a tenth"
    names = re.findall(r'class="name"[^>]*>(.*?)</text>', part(document, "timeline"))
    assert names.index("pad") == names.index("bus") + 1
    told = rows(document, "traffic-table")
    assert [row[0] for row in told] == ["weights", "activations", "results", "partial sums", "commands"]
    assert told[1][1] == "input" and told[1][3] == "40 B" and told[3][2:] == ["0 B"] * 3
    note = part(document, "traffic-note")
    assert "commands come on top" in note and "No partial sum leaves the chip" in note
    keys = re.sub(r"<[^>]*>", " ", part(document, "traffic-keys").split('id="traffic"')[0])
    assert "read again" in keys and "partial" not in keys
    (tmp_path / "p.html").write_text(page.render(paper.made()))
    assert "this chip doesn't tell" in opened(tmp_path / "p.html")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Of a model and dtype, on the RTL of `tiny`."""
    folder, known = tmp_path_factory.mktemp("usage"), {}

    def measured(model: str, dtype: str) -> dict:
        if (model, dtype) not in known:
            to = folder / f"{model}-{dtype}.json"
            presil(
                "perf", f"{MODELS}:{model}", "--dtype", dtype, "--jobs", 1, "--html", "", "--json", to, folder=folder
            )
            known[model, dtype] = json.loads(to.read_text())
        return known[model, dtype]

    return measured


CASES = [("traceable", "bf16"), ("traceable", "int8"), ("traceable", "fp32"), ("eager", "bf16"), ("eager", "fp32")]


@pytest.mark.parametrize(("model", "dtype"), CASES)
def test_tensors_add_up_to_what_the_bus_counted(measured, model, dtype):
    document = measured(model, dtype)
    assert document["problems"] == [] and len(document["launches"]) == 4
    for launch in document["launches"]:
        for way in ("read", "write"):
            inside = [row for row in launch["traffic"] if not row["apart"]]
            assert sum(row[f"{way}_bytes"] for row in inside) == launch[f"{way}_bytes"] > 0, launch["label"]
        (commands,) = (row for row in launch["traffic"] if row["apart"])
        assert commands["role"] == "commands"
        assert commands["read_bytes"] == launch["counters"]["fetch_beats"] * WORD == launch["commands"] * 128


@pytest.mark.parametrize(("model", "dtype"), CASES)
def test_what_is_read_once_is_what_the_tensors_hold(measured, model, dtype):
    """Beyond that: tiles that overlap, and fp32 as it lies, which is read for each of its three terms (packed weights
    have all three). Results are written once, no partial sum at all."""
    document = measured(model, dtype)
    for layer in document["layers"]:
        found, held = by_role(layer), layer["tensors"]
        assert found["results"] == (0, 0, held["results"]) and found["partial sums"] == (0, 0, 0)
        once = {role: taken - again for role, (taken, again, _) in found.items()}
        assert once["activations"] + once.get("residual", 0) == held["inputs"], layer["name"]
        taken, again, _ = found["activations"]
        assert dtype != "fp32" or 2 * taken == 3 * again, layer["name"]
        assert found.get("weights", (0, 0, 0))[1] == 0, layer["name"]
    if model == "traceable":
        assert "residual" in by_role(document["layers"][2]) and "parameters" in by_role(document["layers"][0])
    else:  # an operator that takes its operands as they lie: which is a parameter, the model tells
        roles = [set(by_role(layer)) for layer in document["layers"]]
        assert all("weights" in found for found in roles[:2]) and not any("weights" in found for found in roles[2:])


@pytest.mark.parametrize(("model", "dtype"), CASES)
def test_memories_hold_something_and_not_more_than_they_can(measured, model, dtype):
    document = measured(model, dtype)
    sizes = document["properties"]
    capacity = sizes["banks"] * sizes["bank_words"] * sizes["word_bytes"]
    for launch in document["launches"]:
        pad, sums = launch["memories"]
        assert (pad["name"], pad["capacity"], sums["name"]) == ("scratchpad", capacity, "accumulators")
        for memory in (pad, sums):
            assert 0 < memory["mean"] < memory["peak"] <= memory["capacity"] and max(memory["in_use"]) == memory["peak"]
            assert memory["steps"] == launch["commands"] and len(memory["in_use"]) == min(32, memory["steps"])
        assert pad["peak"] <= pad["reserved"] <= capacity and sums["reserved"] is None
