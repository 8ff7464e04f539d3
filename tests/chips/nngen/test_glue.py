# SPDX-License-Identifier: Apache-2.0
"""The C for a chip that NNgen generated, without RTL: which products it takes, and which starts become of them, at and
around its one shape. With the RTL: nightly_nngen.py."""

import subprocess
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
X, W, Y, START, AT = 140, 144, 136, 16, 0x80000040
SHAPES = [(8, 64, 32), (1, 4, 1), (3, 12, 5)]


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def asked(request, tmp_path_factory):
    """(shape, ask): ask(batches=…, m=…, …) -> the lines of ask_nnmac.c, as lists of words."""
    folder, (rows, depth, columns) = tmp_path_factory.mktemp("glue"), request.param
    sizes = {"ROWS": rows, "DEPTH": depth, "COLUMNS": columns, "PRODUCTS": 16, "X": X, "W": W, "Y": Y}
    (folder / "nnmac_sizes.h").write_text("".join(f"#define NNMAC_{key} {value}\n" for key, value in sizes.items()))
    command = ["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
    command += ["-fsanitize=address,undefined", "-fno-sanitize-recover", f"-I{ROOT}/driver/include", f"-I{folder}"]
    sources = HERE / "chip/nnmac_chip.c", HERE / "ask_nnmac.c"
    subprocess.run([*command, *map(str, sources), "-lm", "-o", str(folder / "ask")], check=True)

    def ask(batches=1, m=rows, k=depth, n=columns, a_row=None, b_column=None, y_row=None, at=AT, steps=0):
        words = batches, m, k, n, a_row or k, b_column or k, y_row or n, at, steps
        run = subprocess.run([str(folder / "ask"), *map(str, words)], capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        return [line.split() for line in run.stdout.splitlines()]

    return request.param, ask


def test_every_row_is_computed_and_nothing_beside(asked):
    (rows, depth, columns), ask = asked
    for m in (rows, rows + 1, 2 * rows - 1, 2 * rows, 2 * rows + 1, 7 * rows + 3):
        lines = ask(m=m)
        writes = [tuple(map(int, line)) for line in lines if line[0].isdigit()]
        starts = [dict(writes[i : i + 4]) for i in range(0, len(writes), 4)]
        assert [*lines[-1]] == ["segments", str(len(starts))] and len(starts) == -(-m // rows), m
        covered = set()
        for start in starts:
            assert start[START] == 1 and start[W] == AT + 0x10000
            first, rest = divmod(start[X] - AT, depth)
            assert rest == 0 and 0 <= first <= m - rows
            assert start[Y] == AT + 0x20000 + first * columns * 4
            covered |= set(range(first, first + rows))
        assert covered == set(range(m)), m
        assert ["writes", str(AT + 0x20000), str(m * columns * 4)] in lines
        assert ["reads", str(AT), str(m * depth)] in lines and [
            "reads",
            str(AT + 0x10000),
            str(depth * columns),
        ] in lines


def test_what_it_can_not_do_is_refused_with_a_reason(asked):
    (rows, depth, columns), ask = asked
    wrong = [
        (dict(m=rows - 1), f"M is {rows - 1}"),
        (dict(m=(1 << 20) + 1), "at most 1048576"),
        (dict(k=depth - 1), f"K is {depth - 1}"),
        (dict(k=depth + 1), f"takes {depth}"),
        (dict(n=columns + 1), f"N is {columns + 1}"),
        (dict(batches=2), "number of products is 2"),
        (dict(b_column=depth + 1), "without gaps") if columns > 1 else (dict(steps=1), "steps is 1"),
        (dict(m=rows + 1, a_row=depth + 1), "without gaps"),
        (dict(m=rows + 1, y_row=columns + 1), "without gaps"),
        (dict(steps=1), "number of steps is 1"),
        (dict(at=AT + 2), "multiples of 4"),
    ]
    for changed, said in wrong:
        (line,) = ask(**changed)
        assert line[:2] == ["no", "-4"] and said in " ".join(line), (changed, line)  # EUNSUPPORTED


def test_the_generator_is_installed_by_its_own_tests_alone():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    own = {line.split("==")[0] for line in groups["nngen"]}
    others = [item for name, group in groups.items() if name != "nngen" for item in group]
    assert {"include-group": "nngen"} not in others
    assert {"nngen", "veriloggen", "pyverilog", "onnx"} <= own - {str(item).split("==")[0] for item in others}
