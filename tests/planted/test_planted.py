# SPDX-License-Identifier: Apache-2.0
"""Bugs planted in the RTL, from `presil regress` to the module: it fails, its first line names the unit, and the
launch's bundle and picture are there."""

import os
import re
import xml.etree.ElementTree as ElementTree

import pytest

from . import bench

NIGHTLY = bool(os.environ.get("PRESIL_PLANTED_ALL"))
CONFIG = "tiny"
BUGS = [bug for bug, _ in bench.bugs() if NIGHTLY or bug.ci]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return bench.Suite(tmp_path_factory.mktemp("planted"), CONFIG)


@pytest.fixture(scope="module")
def sound(suite):
    """The run without a bug: its cycles are what the others are compared with."""
    cases = sorted({f"planted/{bug.case}" for bug in BUGS})
    outcome = suite.run(cases[0], 0, *cases[1:], "--run", "sound")
    assert outcome.returncode == 0, outcome.printed
    return "sound"


@pytest.mark.skipif(not NIGHTLY, reason="nightly: compiles the chip base twice, and runs ResNet-18 on it")
def test_in_resnet18_on_base(tmp_path_factory):
    """Those that its layers show, at 224 × 224."""
    suite = bench.Suite(tmp_path_factory.mktemp("base"), "base")
    assert suite.run("layers/resnet18", 0, "--run", "sound").returncode == 0
    for bug in [bug for bug, _ in bench.bugs() if bug.resnet18]:
        look_at(suite.run("layers/resnet18", bug.number, "--good", suite.sound, "--against", "sound"), bug)


def test_there_are_twelve():
    assert len(bench.bugs()) == 12 and sum(bug.ci for bug, _ in bench.bugs()) == 4


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_named_with_bundle_and_picture(suite, sound, bug):
    look_at(suite.run(f"planted/{bug.case}", bug.number, "--good", suite.sound, "--against", sound), bug)


def test_without_a_last_good_simulator_there_is_a_waveform_too(suite, sound):
    """Of the cycles around the one in which the first wrong byte was written."""
    bug = next(bug for bug in BUGS if bug.case == "rare" and bug.command)
    found = suite.run(f"planted/{bug.case}", bug.number, "--against", sound)
    assert found.returncode == 1 and "no last good simulator (--good) of tiny" in found.record["evidence"]
    waveform, picture = (found.folder / found.record[name][0] for name in ("waveforms", "pictures"))
    assert waveform.suffix == ".fst" and 1000 < waveform.stat().st_size < 20e6
    assert f"  waveform: {found.record['waveforms'][0]}\n" in found.printed
    assert waveform.name in (found.folder / "report.html").read_text()
    (mark,) = re.findall(r">first difference[^<]*<", picture.read_text())
    assert mark


def look_at(found, bug) -> None:
    print(f"{bug.name}: {found.seconds:.0f} s\n{found.printed}")
    assert found.returncode in (1, 3, 5), found.printed
    assert found.unit in bug.units, found.printed
    command = (found.record.get("command") or "").partition(",")[0]
    # a random program shows its memory only by what it stores
    assert command == ("STORE" if bug.case == "programs" else bug.command), found.printed
    if bug.command:
        (first,) = (line for line in found.printed.splitlines() if bench.FIRST_LINE.match(line))
        assert f"), first wrong command {bug.command}, tile *: " in first, "unit and command in the first line"
        assert re.search(rf"first wrong command \d+ of \d+, {bug.command}, tile \d+", found.record["evidence"])
    bundle, waveform, picture = (found.folder / found.record[k][0] for k in ("bundles", "waveforms", "pictures"))
    assert bundle.read_bytes()[:7] == b"PRESILB" and bundle.stat().st_size < 20e6
    assert 0 < waveform.stat().st_size < 20e6
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert (bundle.parent / "parting.txt").stat().st_size
