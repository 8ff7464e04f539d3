# SPDX-License-Identifier: Apache-2.0
"""Files that can't be written are told before the run, and one that fails after it takes no other with it."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from perf import paper
from torch_presil.perf import command, measure, outputs
from torch_presil.perf.command import perf

PACKAGES = {"--png": "matplotlib", "--perfetto": "perfetto"}


@pytest.fixture
def measured(monkeypatch):
    """How often the model was run: it is the chip on paper."""
    runs = []
    monkeypatch.setattr(measure, "run", lambda wanted: runs.append(wanted) or paper.made())
    monkeypatch.setattr("torch_presil.commands.parts.own_simulator", lambda *_: None)
    return runs


def invoke(*arguments):
    return CliRunner().invoke(perf, ["net.py:make", *map(str, arguments)])


def said(done) -> str:
    return " ".join(done.output.split())


@pytest.mark.parametrize("option", ["--html", "--json", "--csv", "--png", "--perfetto", "--explorer"])
def test_a_place_that_can_t_be_is_told_before_the_run(option, measured, tmp_path):
    (tmp_path / "file").write_text("")
    done = invoke("--html", "", option, tmp_path / "file" / "x.png")
    assert done.exit_code == 2 and "can't be written" in said(done) and measured == [], done.output
    if option != "--explorer":
        (tmp_path / "folder.png").mkdir()
        done = invoke("--html", "", option, tmp_path / "folder.png")
        assert done.exit_code == 2 and "there is a folder" in said(done) and measured == []


@pytest.mark.parametrize("name", ["x.jpg", "x", "x.pdf"])
def test_a_picture_of_an_unknown_kind(name, measured, tmp_path):
    done = invoke("--html", "", "--png", tmp_path / name)
    assert done.exit_code == 2 and ".png or .svg was expected" in said(done) and measured == []


@pytest.mark.parametrize("option", PACKAGES)
def test_a_package_that_is_not_there(option, measured, tmp_path, monkeypatch):
    there = outputs.importlib.util.find_spec
    absent = lambda name, *more: None if name == PACKAGES[option] else there(name, *more)
    monkeypatch.setattr(outputs.importlib.util, "find_spec", absent)
    done = invoke("--html", "", option, tmp_path / "x.png")
    assert done.exit_code == 2 and f"pip install {PACKAGES[option]}" in said(done) and measured == []


def test_two_of_one_name(measured, tmp_path):
    done = invoke("--html", "", "--json", tmp_path / "x", "--csv", f"{tmp_path}/y/../x")
    assert done.exit_code == 2 and "two names were expected" in said(done) and measured == []


def test_nothing_is_there_before_it_is_whole(measured, tmp_path):
    (tmp_path / "r.json").write_text("old")
    done = invoke("--html", "", "--json", tmp_path / "r.json", "--csv", tmp_path / "new" / "r.csv")
    assert done.exit_code == 0 and len(measured) == 1, done.output
    assert json.loads((tmp_path / "r.json").read_text())["perf"] == 1
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["new", "r.csv", "r.json"]


def test_one_that_fails_takes_no_other_with_it(measured, tmp_path, monkeypatch):
    def full(path, text):
        if path.suffix == ".json":
            Path.write_bytes(path, b"{")
            raise OSError(28, "No space left on device")
        return path.write_bytes(text.encode())

    (tmp_path / "r.json").write_text("old")
    monkeypatch.setattr(Path, "write_text", full)
    done = invoke("--html", tmp_path / "r.html", "--json", tmp_path / "r.json", "--csv", tmp_path / "r.csv")
    assert done.exit_code == 4 and "No space left on device" in said(done), done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.csv", "r.html", "r.json"]
    assert (tmp_path / "r.json").read_text() == "old"
    kept = Path("".join(done.output.split()).partition("isin")[2].partition("instead")[0])
    assert json.loads(kept.read_text())["model"] == "paper:net"
    kept.unlink()


def test_what_is_no_file_is_written_through(measured, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    done = invoke("--html", "", "--csv", tmp_path / "pipe")
    assert done.exit_code == 0 and os.read(reader, 5) == b"where"
    os.close(reader)


def test_their_options_are_those_of_the_command():
    names = {option.name for option in perf.params}
    assert command.OF_COMPARISON | command.NOT_OF_SWEEP | command.OF_SWEEP <= names
