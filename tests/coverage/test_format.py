# SPDX-License-Identifier: Apache-2.0
"""Coverage files of made-up libraries: read, merged over configurations, by layer, holes; what is torn is told."""

import struct
from pathlib import Path

import pytest
from torch_presil.regress import coverage, coverage_report
from torch_presil.regress.exit_codes import UsageError
from torch_presil.regress.testplan import Testpoint as Point

# Two configurations of one chip: the same lines at other counters, a signal of another width, a cover in each instance.
SMALL = """\
0\t4\ttoggle\trtl/a.sv\t3\t9\ttop.a\tx[1:0]\t
4\t1\tline\trtl/a.sv\t5\t3\ttop.a\tblock\t5,7-8
5\t1\tbranch\trtl/a.sv\t9\t3\ttop.a\tif\t9-10
6\t1\tbranch\trtl/a.sv\t9\t4\ttop.a\telse\t
7\t1\texpr\trtl/a.sv\t9\t7\ttop.a\t(p==0) => 0\t
8\t1\tuser\trtl/a.sv\t20\t3\ttop.a.c_full\tc_full\t20
9\t1\tuser\trtl/a.sv\t21\t3\ttop.a.c_empty\tc_empty\t21
"""
LARGE = """\
0\t1\tline\trtl/a.sv\t5\t3\ttop.a\tblock\t5,7-8
1\t1\tbranch\trtl/a.sv\t9\t3\ttop.a\tif\t9-10
2\t6\ttoggle\trtl/a.sv\t3\t9\ttop.a\tx[2:0]\t
8\t1\tuser\trtl/a.sv\t20\t3\ttop.a.c_full\tc_full\t20
"""
ID = {10: "s" * 32, 9: "l" * 32}


def write(folder: Path, number: int, reached: list, count: int = 10, launches: list = ()) -> Path:
    """A coverage file as sim/harness/coverage.cpp writes it, and its table."""
    (folder / f"coverage.points-{ID[count]}").write_text(SMALL if count == 10 else LARGE)
    data = struct.pack("<8sII32s16x", b"PRESILCV", 1, count, ID[count].encode())
    data += struct.pack(f"<{count}I", *(3 * (n in reached) for n in range(count)))
    for at, some in enumerate(launches, 1):
        data += struct.pack("<Q", at) + sum(1 << n for n in some).to_bytes((count + 7) // 8, "little")
    path = folder / f"coverage.{number}"
    path.write_bytes(data)
    return path


def read(path: Path) -> coverage.File:
    return coverage.Reader().read(path)


def test_counters_become_items(tmp_path):
    found = read(write(tmp_path, 1, [1, 2, 5, 8]))
    assert found.items == {
        ("toggle", "rtl/a.sv", "x", 0, "rise"),
        ("toggle", "rtl/a.sv", "x", 1, "fall"),
        ("line", "rtl/a.sv", 9),
        ("line", "rtl/a.sv", 10),
        ("branch", "rtl/a.sv", 9, 3, "if"),
        ("cover", "a.c_full", "top.a.c_full"),
    }
    assert len(found.points.all) == 4 + 5 + 2 + 1 + 2


def test_configurations_add_up(tmp_path):
    reached = coverage.Reached()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write(tmp_path / "a", 1, [4, 8])
    write(tmp_path / "b", 1, [1, 3], count=9)
    reached.add("ops", "ops/a", tmp_path / "a", [])
    reached.add("smoke", "smoke/b", tmp_path / "b", [])
    value = coverage_report.summary(reached, [], [], tmp_path)
    assert value["total"]["line"] == {"reached": 5, "total": 5, "percent": 100.0}
    assert value["suites"]["ops"]["line"]["reached"] == 3 and value["suites"]["smoke"]["line"]["reached"] == 2
    assert value["total"]["toggle"] == {"reached": 1, "total": 6, "percent": 16.67}
    assert value["covers_missing"] == ["a.c_empty"] and not value["problems"]


def test_layers_and_what_no_model_reaches(tmp_path):
    reached = coverage.Reached()
    (tmp_path / "net").mkdir()
    (tmp_path / "programs").mkdir()
    write(tmp_path / "net", 1, [4, 5, 8, 9], launches=[[4, 9], [4, 8], [5, 9]])
    write(tmp_path / "programs", 1, [6])
    reached.add("layers", "layers/net", tmp_path / "net", [("conv1", 1), ("fc", 2)])
    reached.add("ops", "ops/programs", tmp_path / "programs", [])
    value = coverage_report.summary(reached, [], [], tmp_path)
    assert {label: row["covers"] for label, row in value["layers"].items()} == {
        "layers/net: conv1": ["a.c_empty"],
        "layers/net: fc": ["a.c_empty", "a.c_full"],
    }
    assert value["layers"]["layers/net: fc"]["only_here"] == ["a.c_full"]
    assert value["covers_of_no_model"] == [] and value["lines_of_no_model"] == []


def test_labels_that_do_not_fit_are_told(tmp_path):
    reached = coverage.Reached()
    write(tmp_path, 1, [4], launches=[[4], [4]])
    reached.add("layers", "layers/net", tmp_path, [("conv1", 1)])
    assert not reached.by_label and "2 launches, 1 told" in reached.problems[0]


def test_holes(tmp_path):
    (tmp_path / "rtl").mkdir()
    lines = [f"line {n}" for n in range(1, 30)]
    (tmp_path / "rtl" / "a.sv").write_text("\n".join(lines))
    reached = coverage.Reached()
    write(tmp_path, 1, [4])
    reached.add("ops", "ops/a", tmp_path, [])
    holes = [coverage_report.Hole("rtl/a.sv", f"line {n}", "because") for n in (9, 7, 28)]
    value = coverage_report.summary(reached, [], holes, tmp_path)
    assert value["line_with_holes"] == {"reached": 4, "total": 5, "percent": 80.0}
    assert value["lines_missing"] == [["rtl/a.sv", 10]]
    assert [(h["text"], h["why"]) for h in value["stale_holes"]] == [
        ("line 7", "it is reached"),
        ("line 28", "there is no such line to reach"),
    ]


def test_testpoints(tmp_path):
    reached = coverage.Reached()
    write(tmp_path, 1, [8])
    reached.add("ops", "ops/a", tmp_path, [])
    points = [Point(n, "V2", "", "", "", [], c) for n, c in (("p", ["a.c_full"]), ("q", ["a.c_empty", "a.c_full"]))]
    value = coverage_report.summary(reached, [*points, Point("r", "V1", "", "", "", [])], [], tmp_path)
    assert value["testpoints_reached"] == {"reached": 1, "total": 2, "percent": 50.0}
    assert value["testpoints"][1]["missing"] == ["a.c_empty"]


@pytest.mark.parametrize(
    "bend, text",
    [
        (lambda data: data[:30], "not a coverage file"),
        (lambda data: b"X" + data[1:], "not a coverage file"),
        (lambda data: data[:8] + b"\2" + data[9:], "version 2"),
        (lambda data: data[:80], "at least 104"),
        (lambda data: data.replace(b"s" * 32, b"t" * 32), "is not beside it"),
    ],
)
def test_bad_files_are_told(tmp_path, bend, text):
    path = write(tmp_path, 1, [4])
    path.write_bytes(bend(path.read_bytes()))
    with pytest.raises(UsageError, match=text):
        read(path)
    reached = coverage.Reached()
    reached.add("ops", "ops/a", tmp_path, [])
    assert len(reached.problems) == 1 and not reached.all


def test_a_record_that_is_torn_is_left_out(tmp_path):
    path = write(tmp_path, 1, [4], launches=[[4], [5]])
    path.write_bytes(path.read_bytes()[:-3])
    assert [len(items) for items in read(path).launches] == [3]
