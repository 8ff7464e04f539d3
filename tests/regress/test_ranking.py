# SPDX-License-Identifier: Apache-2.0
"""Seeds ranked by the coverage that they add: of a run with made-up coverage, and of one that has ended."""

import json
import struct

import pytest

from torch_presil.regress import ranking

NAME = "n" * 32
LINES = 6
TABLE = "".join(f"{n}\t1\tline\trtl/a.sv\t{n}\t3\ttop.a\tblock\t{n}\n" for n in range(LINES))
REACHED = {1: {0, 1}, 2: {0, 1, 2, 3}, 3: {3, 4, 5}, 4: {5}}  # lines by seed


@pytest.fixture
def seeded(place, tmp_path):
    """A run of a case with four seeds; the second reaches most, the third adds two lines, the others nothing."""
    for seed, some in REACHED.items():
        made = tmp_path / "made" / str(seed)
        made.mkdir(parents=True)
        (made / f"coverage.points-{NAME}").write_text(TABLE)
        counts = [int(n in some) for n in range(LINES)]
        data = struct.pack(f"<8sII32s16x{LINES}I", b"PRESILCV", 1, LINES, NAME.encode(), *counts)
        (made / "coverage.1").write_bytes(data)
    line = f'[case.random]\nkind = "command"\ncommand = ["cp", "-r", "{tmp_path}/made/{{seed}}/.", "{{directory}}"]\n'
    (place.folder / "some.toml").write_text(f"{line}seeds = {list(REACHED)}\n")
    return place


def test_each_seed_is_the_one_that_adds_most(seeded):
    assert seeded.go("some", rank=True) == 0, seeded.printed
    told = json.loads((seeded.last.path / "ranking.json").read_text())
    assert [(row["seed"], row["added"], row["reached"]) for row in told["seeds"][:2]] == [(2, 4, 4), (3, 2, 6)]
    assert {row["seed"] for row in told["seeds"][2:]} == {1, 4} and not any(r["added"] for r in told["seeds"][2:])
    assert told["total"] == LINES and told["worth"] == {"some/random": [2, 3]}
    assert "2 of 4 seeds add nothing" in seeded.printed and "some/random: seeds = [2, 3]" in seeded.printed


def test_a_run_that_has_ended_is_ranked_without_running_it_again(seeded, tmp_path):
    assert seeded.go("some") == 0 and "Seeds by" not in seeded.printed
    first = seeded.last.name
    assert seeded.go(rank=True, json=str(tmp_path / "ranks.json")) == 0, seeded.printed
    assert seeded.last.name == first
    assert [row["seed"] for row in json.loads((tmp_path / "ranks.json").read_text())["seeds"]][:2] == [2, 3]


def test_a_run_without_coverage_is_told_what_to_do(place, capfd):
    place.suite("plain", {"good": "passes"})
    assert place.go("plain") == 0
    assert place.go(rank=True) == 2
    assert "no case of" in (said := capfd.readouterr().err) and "--coverage --seeds 10 --rank-seeds" in said


def test_a_torn_file_is_no_rank(seeded, tmp_path, capfd):
    (tmp_path / "made" / "3" / "coverage.1").write_bytes(b"PRESILCV")
    assert seeded.go("some", rank=True) == 2
    assert "not a coverage file" in capfd.readouterr().err


def test_of_equals_the_quicker_one():
    seeds = [ranking.Seed("c", n, seconds, {("line", "a", 1)}) for n, seconds in ((1, 3.0), (2, 1.0), (3, 2.0))]
    assert [s.seed for s in ranking.ranked(seeds)] == [2, 3, 1]


def test_a_gain_is_counted_anew():
    """The second largest alone adds less than the smallest, once the largest is in."""
    large, near, small = ({("line", "a", n) for n in some} for some in (range(9), range(1, 9), (20,)))
    order = ranking.ranked([ranking.Seed("c", n, 1.0, items) for n, items in enumerate((near, small, large))])
    assert [s.seed for s in order] == [2, 1, 0] and [s.reached for s in order] == [9, 10, 10]
