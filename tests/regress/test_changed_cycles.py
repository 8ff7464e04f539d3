# SPDX-License-Identifier: Apache-2.0
"""A case of which cycles alone changed is run again to keep its launches: the shortest that takes other cycles is its
bundle, and the module is named as of any other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch_presil.regress import recapture

from planted import bench as planted

from .conftest import CLI

CASES = ["smoke/cnn-bf16", "smoke/sweep", "smoke/programs"]
# With other seeds the bug changes no program's cycles, or the shortest program that takes other cycles does so only
# behind the others of its run (replayed by itself both simulators take as many), as what a random memory stalls depends
# on all that came before.
SEEDS = {"smoke/programs": "7"}
BUG = next(bug for bug, _ in planted.bugs() if bug.name == "arbitration starvation")


def regress(folder: Path, number: int, *words) -> subprocess.CompletedProcess:
    command = [sys.executable, CLI, "regress", *words, "--runs", folder, "-j", "1", "--library"]
    environment = {**os.environ, "PRESIL_MUTANT": str(number)}
    command = [*command, planted.library("tiny")]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """With a run `sound`, of the same library without a bug."""
    folder = tmp_path_factory.mktemp("runs")
    done = regress(folder, 0, *CASES, "--run", "sound")
    assert done.returncode == 0, done.stdout + done.stderr
    for case, seed in SEEDS.items():
        done = regress(folder, 0, case, "--seed", seed, "--run", f"seed {seed}")
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def records(folder: Path, run: str = "latest") -> list[dict]:
    lines = (folder / run / "records.jsonl").read_text().splitlines()
    return list({record["key"]: record for record in map(json.loads, lines)}.values())


def cycles(bundle: Path, *words) -> list[int]:
    told = bundle.with_suffix(".told")
    program = planted.BUILD / "bin" / "presil-replay"
    done = subprocess.run([program, bundle, "--json", told, *words], capture_output=True, timeout=200, check=False)
    assert done.returncode in (0, 5), done.stderr  # 5: other cycles than recorded
    return [row["cycles"] for row in json.loads(told.read_text())["launches"]]


@pytest.mark.parametrize("case", CASES)
def test_the_launch_is_kept_and_the_module_named(case, runs, monkeypatch):
    sound = planted.sound_library("tiny")
    seed = SEEDS.get(case)
    which = ["--seed", seed, "--against", f"seed {seed}"] if seed else ["--against", "sound"]
    done = regress(runs, BUG.number, case, *which, "--good", sound)
    assert done.returncode == 5, done.stdout + done.stderr
    first = planted.FIRST_LINE.search(done.stdout)
    assert first and first.group(1) == "cycles" and first.group(2) in BUG.units, done.stdout
    (record,) = records(runs)
    bundle, waveform, picture = (runs / "latest" / record[what][0] for what in ("bundles", "waveforms", "pictures"))
    assert waveform.stat().st_size > 1000 and "<svg" in picture.read_text()
    monkeypatch.setenv("PRESIL_MUTANT", str(BUG.number))
    (now,), (before,) = cycles(bundle, "--library", planted.library("tiny")), cycles(bundle, "--library", sound)
    assert now != before
    assert record["cycles"] > now and not list(bundle.parent.glob("changed.presil")), "one launch, not all"


@pytest.mark.parametrize("case", CASES)
def test_without_a_last_good_simulator_the_baseline_says_which(case, runs, monkeypatch):
    done = regress(runs, BUG.number, case, "--against", "sound")
    assert done.returncode == 5, done.stdout + done.stderr
    (record,) = records(runs)
    changed = {f"{change['launch'].replace(' ', '_')}.presil": change for change in record["changes"]}
    (bundle,) = record["bundles"]
    named = changed[Path(bundle).name]
    assert len(changed) == 1 or named["before"] < sum(change["before"] for change in changed.values()) / len(changed), (
        "one of the short"
    )
    evidence = record["evidence"]
    assert "no last good simulator (--good) of tiny" in evidence
    assert f"--good SO, or presil waves {(runs / 'latest').resolve() / bundle} --against COMMIT" in evidence
    monkeypatch.setenv("PRESIL_MUTANT", str(BUG.number))
    now = cycles(runs / "latest" / bundle, "--library", planted.library("tiny"))
    if not case.endswith("programs"):  # whose doorbells came otherwise
        assert now == [named["after"]]


def test_where_the_baseline_has_a_sum_alone_all_launches_are_kept(runs, tmp_path):
    sound = next(r for r in records(runs, "sound") if r["name"] == "smoke/sweep")
    whole = {"seed": sound["seed"], "launches": {"all launches": [sound["cycles"], {}]}}
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"cases": {sound["cycles_key"]: whole}}))
    done = regress(runs, BUG.number, "smoke/sweep", "--against", known)
    assert done.returncode == 5, done.stdout + done.stderr
    (record,) = records(runs)
    (bundle,) = record["bundles"]
    now = cycles(runs / "latest" / bundle, "--library", planted.library("tiny"))
    assert len(now) == len(sound["launches"]) > 1
    assert f"none of its {len(now)} launches in the bundle" in record["evidence"]
    assert f"all launches: no longer launched ({sound['cycles']:,} cycles before)" in record["evidence"]


def test_a_case_that_does_not_say_that_it_can_is_not_run_again(place, monkeypatch):
    place.suite("one", {"cycles": "cycles"})
    place.go("one", run="sound")
    monkeypatch.setenv("FAKE_CYCLES", "101")
    assert place.go("one", against="sound") == 5
    assert "looking into" not in place.printed and not list(place.last.path.rglob("again"))


ROW = {"label": "conv1", "outcome": "pass", "cycles": 10, "stalls": {"load": {"busy": 4}}}


def test_which_launch_is_not_as_it_was():
    moved = {**ROW, "stalls": {"load": {"data": 4}}}
    longer, named = {**ROW, "cycles": 12}, {**ROW, "label": "a" * 63}

    def outcomes(now, good, *names):
        return [row["outcome"] for row in recapture._marked(now, good, list(names))]

    assert outcomes([ROW, moved, longer], [ROW] * 3) == ["pass", "cycles changed", "cycles changed"]
    assert outcomes([ROW, named], None, "layer.conv1", "layer." + "a" * 63) == ["pass", "cycles changed"]
    assert outcomes([{**longer, "outcome": "mismatch"}], [ROW]) == ["mismatch"]
