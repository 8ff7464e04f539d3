# SPDX-License-Identifier: Apache-2.0
"""docs/synthesis.md says how deep each module is in gates, and what each memory of base is; PRESIL_UPDATE_DOCS=1
rewrites both. What the page says already of this RTL is not measured again (measured.py)."""

import os
import re
import statistics

import depth
import levels
import measured
import memories
import pytest
from files import BUILD, ROOT
from test_synthesis import synthesize

PAGE = ROOT / "docs" / "synthesis.md"
LONGEST = 1.5  # of the median of the ten longest paths
TOLERANCE = 0.05  # of gates, registers and levels; a larger change deserves a look
NOISE = 3  # levels: abc's order follows Yosys's names, and a change of another module moved a row from 32 to 35


def written(name: str) -> list[str]:
    """Rows of the table between <!-- name --> and the empty line behind it, without its two lines of headings."""
    found = re.search(rf"<!-- {name} -->\n(?:\|.*\n){{2}}((?:\|.*\n)*)", PAGE.read_text())
    assert found, f"docs/synthesis.md has no table <!-- {name} -->"
    return found.group(1).splitlines()


def update(name: str, rows: list[str]) -> None:
    if os.environ.get("PRESIL_UPDATE_DOCS") == "1":
        text = re.sub(
            rf"(<!-- {name} -->\n(?:\|.*\n){{2}})(?:\|.*\n)*",
            lambda found: found.group(1) + "".join(row + "\n" for row in rows),
            PAGE.read_text(),
        )
        PAGE.write_text(text)


def close(rows: list[str], then: list[str]) -> list[str]:
    """What differs: a name, or a number by more than the tolerance. Names of registers on a path may change: of paths
    as long as each other any may be the one that is named."""
    cut = lambda row: [part.strip() for part in row.strip("|").split("|")]
    now, old = ({cut(row)[0]: cut(row)[1:5] for row in table} for table in (rows, then))
    differs = sorted(now.keys() ^ old.keys())
    for name in now.keys() & old.keys():
        for slack, new, was in zip((0, 0, NOISE, NOISE), now[name], old[name]):
            if new.isdigit() and (not was.isdigit() or abs(int(new) - int(was)) > max(slack, TOLERANCE * int(was))):
                differs.append(f"{name}: {was} is {new} now")
    return differs


@measured.once
def test_depth_of_each_module():
    modules, paths = depth.measure(depth.CONFIG, depth.SIZES)
    rows, worst = depth.tables(modules, paths)
    update("depth", rows)
    update("paths", worst)
    assert not close(rows, written("depth")), "PRESIL_UPDATE_DOCS=1 rewrites docs/synthesis.md"
    # the ten worst by their lengths
    lengths = [[int(row.split("|")[1]) for row in table] for table in (worst, written("paths"))]
    assert all(abs(now - then) <= TOLERANCE * then for now, then in zip(*lengths, strict=True)), worst
    assert lengths[0][0] <= LONGEST * statistics.median(lengths[0]), worst


def reasons(rows: list[str], columns: int = 1) -> dict[str, str]:
    """By what the first columns say: an array's name alone does not tell two queues of one module from each other."""
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {" | ".join(row[1 : columns + 1]): row[-2] for row in cells}


def memory_rows(arrays: list[tuple], why: dict[str, str]) -> tuple[list[str], list[str]]:
    """Rows of the table, and which of them need a reason and have none."""
    rows, bare = [], []
    for name, places, count, words, bits, clocked, other, writes, enables, forward in arrays:
        if words * bits > memories.LARGE:
            macro = (clocked, other, writes) == (1, 0, 1)
            where = ", ".join(f"`{place}`" for place in places)
            reason = "macro" if name.startswith("presil_ram_1r1w.") and macro else why.get(f"{name} | {where}", "?")
            reads = " + ".join([f"{clocked} clocked"] * bool(clocked) + [f"{other} not"] * bool(other))
            cells = (name, where, count, f"{words} × {bits}", reads, writes, enables if enables > 1 else "-")
            rows.append(f"| {' | '.join(map(str, cells))} | {'yes' if forward else 'no'} | {reason} |")
            bare += [name] * (reason == "?")
    return rows, bare


@measured.once
def test_memories_of_base():
    """Each array over 1 kbit is in a table; one that isn't the memory module (registers, a read without a clock, more
    ports than one and one) has a reason there, which a person writes: it is kept when the table is rewritten."""
    rows, bare = memory_rows(memories.memories(memories.elaborate("base")), reasons(written("memories"), 2))
    assert len(rows) > 3
    synthesize("base")  # once with test_synthesis.py
    flops = memories.flops("base", (BUILD / "base" / "synthesis" / "wide.il").read_text())
    why = reasons(written("files"))
    listed = [f"| {name} | {bits} | {why.get(name, '?')} |" for name, bits in flops]
    bare += [name for name, _ in flops if why.get(name, "?") == "?"]
    update("memories", rows)
    update("files", listed)
    assert rows == written("memories"), "PRESIL_UPDATE_DOCS=1 rewrites docs/synthesis.md"
    assert listed == written("files"), "PRESIL_UPDATE_DOCS=1 rewrites docs/synthesis.md"
    assert not bare, f"over 1 kbit and no memory macro; docs/synthesis.md has to say why in the last column: {bare}"


def gate(kind, y, **inputs):
    return {"type": kind, "connections": {name: [bit] for name, bit in inputs.items()} | {"Y": [y]}}


def flop(d, q):
    return {"type": "$_DFF_P_", "connections": {"C": [2], "D": [d], "Q": [q]}}


def netlist(child_gates=1):
    """top: register a, two gates, the child, one gate, register b. An inverter is no level."""
    chain = {f"g{i}": gate("$_AND_", 11 + i, A=10 + i, B=10) for i in range(child_gates)}
    last = 10 + child_gates
    child = {
        "ports": {"i": {"direction": "input", "bits": [10]}, "o": {"direction": "output", "bits": [last]}},
        "cells": chain,
        "netnames": {},
    }
    top = {
        "ports": {"clk": {"direction": "input", "bits": [2]}},
        "cells": {
            "fa": flop(9, 3),
            "fb": flop(8, 9),
            "g1": gate("$_AND_", 4, A=3, B=3),
            "g2": gate("$_NOT_", 5, A=4),
            "g3": gate("$_XOR_", 6, A=5, B=4),
            "u": {"type": "presil_c", "connections": {"i": [6], "o": [7]}},
            "g4": gate("$_OR_", 8, A=7, B="1"),
        },
        "netnames": {"a": {"bits": [3]}, "b": {"bits": [9]}},
    }
    return {"modules": {"presil_top": top, "presil_c": child}}


@pytest.mark.parametrize("gates", [1, 7])
def test_levels_of_a_module_and_across_its_border(gates):
    found, paths = levels.analyse(netlist(gates))
    assert found["presil_c"] == (gates, 0, (gates, "i", "o"), gates + 3)
    assert found["presil_top"] == (3, 2, (2, "a", "u.i"), gates + 3)
    assert paths[0] == (gates + 3, "a", "b")


def test_a_loop_without_a_register_is_refused():
    design = netlist()
    design["modules"]["presil_top"]["cells"]["g1"] = gate("$_AND_", 4, A=8, B=3)
    with pytest.raises(AssertionError, match="loop"):
        levels.analyse(design)


def test_the_page_is_stamped():
    """Behind all that is measured."""
    if os.environ.get("PRESIL_UPDATE_DOCS") == "1":
        measured.write()
        assert measured.stamp() == measured.digest()
    assert measured.stamp()


def test_a_stamp_is_of_what_it_was_made_of(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    monkeypatch.setattr(measured, "PAGE", page)
    monkeypatch.delenv("PRESIL_UPDATE_DOCS", raising=False)
    monkeypatch.delenv("PRESIL_MEASURE", raising=False)
    monkeypatch.setattr(measured, "begun", {})
    page.write_text("levels: 3\n<!-- measured 0123456789abcdef -->\n")
    assert not measured.known()
    runs = []

    def test_levels(levels):
        runs.append(levels)
        assert levels == 3

    test = measured.once(test_levels)
    with pytest.raises(AssertionError, match="test_levels"):
        measured.write()  # nothing was measured yet
    test(3)
    measured.write()
    assert measured.known()
    test(5)
    assert runs == [3]
    page.write_text(page.read_text().replace("3", "4"))  # by hand
    assert not measured.known()
    with pytest.raises(AssertionError):
        test(4)
    test(3)
    with pytest.raises(AssertionError, match="test_levels"):
        measured.write()
    monkeypatch.setenv("PRESIL_MEASURE", "1")
    assert not measured.known()
