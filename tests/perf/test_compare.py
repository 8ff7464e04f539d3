# SPDX-License-Identifier: Apache-2.0
"""`presil perf A.json B.json`: every layer that changed is named, with the causes that the change lies in."""

import csv
import json
import re

import pytest
from browser import in_a_browser, opened
from click.testing import CliRunner
from perf import paper
from perf.test_page import rows
from torch_presil.perf import compare
from torch_presil.perf.command import perf


def slower(label: str, by: int = 7) -> list:
    """One launch waits longer."""
    out = []
    for r in paper.reports():
        if r["label"] == label:
            stalls = {e: dict(causes) for e, causes in r["stalls"].items()}
            for engine, cause in (("fetch", "at_work"), ("grid", "starved"), ("unused", "nothing")):
                stalls[engine][cause] += by
            r = {**r, "cycles": r["cycles"] + by, "stalls": stalls}
        out.append(r)
    return out


def named(found: dict) -> dict:
    return {row["name"]: row for row in found["layers"]}


@pytest.mark.parametrize("label", paper.LAYERS)
def test_a_layer_that_changed_is_named_with_its_cause(label):
    found = compare.changes(paper.made(), paper.made(slower(label)))
    times = 2 if label == "body.0.b" else 1
    assert [row["name"] for row in found["layers"] if row["changed"]] == [label] == [found["layers"][0]["name"]]
    row = found["layers"][0]
    assert row["change"] == 7 * times == found["total"]["change"] and row["causes"]["grid"] == {"starved": 7 * times}
    assert all(sum(causes.values()) == row["change"] for causes in row["causes"].values())
    assert compare.why(row, found["array"]) == f"grid: starved +{7 * times}"
    assert found["problems"] == [] and found["facts"] == {}


def test_bytes_and_causes_alone_are_changes_too():
    moved = [{**r, "read_bytes": r["read_bytes"] + 1} if r["label"] == "stem" else r for r in paper.reports()]
    assert [r["name"] for r in compare.changes(paper.made(), paper.made(moved))["layers"] if r["changed"]] == ["stem"]
    traded = paper.reports()
    traded[0]["stalls"] = {**traded[0]["stalls"], "grid": {"at_work": 400, "starved": 600, "nothing": 0}}
    found = named(compare.changes(paper.made(), paper.made(traded)))
    assert found["stem"]["changed"] and found["stem"]["change"] == 0
    assert found["stem"]["causes"]["grid"] == {"at_work": -100, "starved": 100}
    assert not any(r["changed"] for r in compare.changes(paper.made(), paper.made())["layers"])


def test_layers_that_are_in_one_alone():
    events = [*paper.events(), paper.event("tail")]
    more = [*paper.reports(), paper.report("tail", 6, 50)]
    for a, b, side, change in ((None, more, "second", 50), (more, None, "first", -50)):
        found = compare.changes(*(paper.made(taken, events) for taken in (a, b)))
        row = named(found)["tail"]
        assert row["only"] == side and row["change"] == change == found["total"]["change"] and row["changed"]
        assert compare.why(row, "grid") == f"only in the {side}" and row["cycles"].count(None) == 1


def test_layers_of_one_name_are_told_apart():
    second = paper.made()
    second["layers"][2] = {**second["layers"][2], "name": "body.0.a"}
    found = compare.changes(second, second)
    assert [row["name"] for row in found["layers"]] == ["stem", "body.0.a", "body.0.a (2)", "head"]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [("a1" * 32, "b2" * 32, f"RTL differs: {'a1' * 32} / {'b2' * 32}"), ("a1" * 32, "a1" * 32, None),
     (None, "b2" * 32, f"RTL: not known → {'b2' * 32}"), (None, None, None)],
)  # fmt: skip
def test_other_rtl_is_told_by_its_hash(tmp_path, first, second, says):
    files = []
    for name, rtl in (("a", first), ("b", second)):
        files.append(str(tmp_path / f"{name}.json"))
        (tmp_path / f"{name}.json").write_text(json.dumps(paper.made(**{"rtl": rtl} if rtl else {})))
    done = CliRunner().invoke(perf, [*files, "--html", "", "--json", str(tmp_path / "c.json")])
    assert done.exit_code == 0 and (says in " ".join(done.output.split()) if says else "RTL" not in done.output)
    assert ("RTL" in json.loads((tmp_path / "c.json").read_text())["facts"]) == bool(says)


def test_what_was_run_differently_is_told():
    other = paper.made(dtype="bf16", batch=4, memory={"model": "ideal", "seed": 0}, properties={"rows": 16, "new": 1})
    facts = compare.changes(paper.made(), other)["facts"]
    assert facts["dtype"] == ["int8", "bf16"] and facts["rows"] == [8, 16] and facts["new"] == [None, 1]
    assert facts["memory"][1]["model"] == "ideal" and "model" not in facts


@pytest.fixture
def files(tmp_path):
    out = []
    for name, taken in (("a", None), ("b", slower("body.0.b"))):
        out.append(tmp_path / f"{name}.json")
        out[-1].write_text(json.dumps(paper.made(taken)))
    return out


def test_the_command_writes_table_page_and_json(files, tmp_path):
    page, told = tmp_path / "c.html", tmp_path / "c.json"
    done = CliRunner().invoke(perf, [*map(str, files), "--html", str(page), "--json", str(told)])
    assert done.exit_code == 0, done.output
    assert re.search(r"│ body\.0\.b +│ +800 +│ +814 +│ +\+14 │ \+1\.75 │ grid: starved \+14", done.output), done.output
    assert "1 of 4 layers changed" in done.output
    found = json.loads(told.read_text())
    assert named(found)["body.0.b"]["cycles"] == [800, 814] and page.stat().st_size < 100_000


@in_a_browser
def test_the_page_shows_it(files, tmp_path):
    page = tmp_path / "c.html"
    CliRunner().invoke(perf, [*map(str, files), "--html", str(page)])
    document = opened(page)
    shown = rows(document, "layers")
    assert [row[0] for row in shown] == ["body.0.b", "all"] and shown[0][1:4] == ["800", "814", "+14"]
    assert [row[:2] for row in rows(document, "causes")] == [
        ["fetch at work", "+14"], ["grid starved", "+14"], ["unused nothing", "+14"],
    ]  # fmt: skip
    assert "<b>+14</b><span>cycles, +0.61 %</span>" in document
    everything = opened(page, script="document.getElementById('all').click();")
    assert len(rows(everything, "layers")) == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "is no JSON"), ("[]", "is not of presil perf --json"), ('{"perf": 1}', "is not of presil perf --json"),
     ('{"perf": 99, "layers": []}', "has form 99, this presil reads 1"), (None, "can't be read"),
     ("[" * 100_000, "is no JSON"), ('{"perf": 1, "layers": 3}', "is not whole"), (b"\xff\xfe", "is no JSON"),
     ('{"perf": 1, "layers": []}', "total is missing"), ("no name", "layers[0].name is missing or wrong"),
     ("no bound", "layers[0].bound"), ("cycles", "layers[0].cycles"), ("stalls", "layers[0].stalls.grid")],
)  # fmt: skip
def test_another_file_is_refused(files, tmp_path, text, says):
    bad, broken = tmp_path / "bad.json", paper.made()
    changes = {"no name": lambda row: row.pop("name"), "no bound": lambda row: row.pop("bound"),
               "cycles": lambda row: row.update(cycles="many"),
               "stalls": lambda row: row["stalls"].update(grid=1)}  # fmt: skip
    if text in changes:
        changes[text](broken["layers"][0])
        text = json.dumps(broken)
    if text is not None:
        bad.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = CliRunner().invoke(perf, [str(files[0]), str(bad), "--html", ""])
    assert done.exit_code == 2 and says in " ".join(done.output.split()), done.output


def test_a_document_that_does_not_add_up_is_not_compared_in_silence(files):
    broken = json.loads(files[1].read_text())
    broken["layers"] = broken["layers"][:-1]
    files[1].write_text(json.dumps(broken))
    done = CliRunner().invoke(perf, [*map(str, files), "--html", ""])
    assert done.exit_code == 1 and "off the whole's" in " ".join(done.output.split())


def test_names_keep_their_brackets(tmp_path):
    made = paper.made(slower("stem"))
    files = []
    for name, document in (("[a]", paper.made()), ("[b]", made)):
        document["layers"][0]["name"], document["model"] = "[bold]stem[/bold]", f"net.py:{name}"
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(document))
    done = CliRunner().invoke(perf, [*map(str, files), "--html", ""])
    assert done.exit_code == 0 and "[bold]stem[/bold]" in done.output and "net.py:[a] → net.py:[b]" in done.output
    assert "[a].json" in done.output.replace("\n", "")


def test_its_csv(files, tmp_path):
    done = CliRunner().invoke(perf, [*map(str, files), "--html", "", "--csv", str(tmp_path / "c.csv")])
    assert done.exit_code == 0, done.output
    told = list(csv.DictReader((tmp_path / "c.csv").open()))
    assert len(told) == 4 and told[0]["name"] == "body.0.b" and told[0]["change"] == "14"
    assert (told[0]["cycles_before"], told[0]["cycles_after"], told[0]["why"]) == ("800", "814", "grid: starved +14")


@pytest.mark.parametrize("option", ["--png=x.png", "--perfetto=x", "--explorer=x", "--sweep=latency=1", "--dtype=int8"])
def test_what_has_no_effect_is_refused(files, option, tmp_path):
    done = CliRunner().invoke(perf, [*map(str, files), "--html", str(tmp_path / "c.html"), option])
    assert done.exit_code == 2 and f"{option.partition('=')[0]} can't be had of two files" in done.output
    assert not (tmp_path / "c.html").exists()
