# SPDX-License-Identifier: Apache-2.0
"""The folders of torch_ext/csrc stand on each other in one order: what includes what has no circle."""

import re
from graphlib import CycleError, TopologicalSorter

from files import ROOT

CSRC = ROOT / "torch_ext/csrc"


def folders(root) -> dict:
    """Folder -> {folder that it includes: the first line that does}."""
    found = {d.name: {} for d in root.iterdir() if d.is_dir()}
    for path in sorted(root.glob("*/*")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([a-z0-9_]+)/', line)
            if match and match[1] in found and match[1] != path.parent.name:
                found[path.parent.name].setdefault(match[1], f"{path.relative_to(root)}:{number}")
    return found


def circle(includes: dict) -> list:
    """The lines that close a circle; empty: there is none."""
    try:
        TopologicalSorter(includes).prepare()
    except CycleError as error:
        ring = error.args[1]  # each is included by the next
        return [includes[b][a] for a, b in zip(ring, ring[1:], strict=False)]
    return []


def test_folders_of_the_extension_include_each_other_in_one_order():
    includes = folders(CSRC)
    assert len(includes) > 10 and "runtime" in includes["weights"], "the list of includes is broken"
    assert circle(includes) == []


def test_runtime_is_the_lowest():
    assert folders(CSRC)["runtime"] == {}


def test_a_circle_is_found(tmp_path):
    for name, line in {"a/x.h": "b/y.h", "b/y.h": "c/z.h", "c/z.h": "a/x.h", "d/w.h": "a/x.h"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'#pragma once\n#include "{line}"\n')
    assert sorted(circle(folders(tmp_path))) == ["a/x.h:2", "b/y.h:2", "c/z.h:2"]
    (tmp_path / "c/z.h").write_text("#pragma once\n")
    assert circle(folders(tmp_path)) == []
