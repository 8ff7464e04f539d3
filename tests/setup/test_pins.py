# SPDX-License-Identifier: Apache-2.0
"""What ./presil installs is installed without resolving: nothing that a pinned package needs may be missing."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]


def pinned(group: str) -> dict:
    """Name -> version, with those of the groups inside."""
    out = {}
    for item in GROUPS[group]:
        if isinstance(item, dict):
            out |= pinned(item["include-group"])
        else:
            name, version = item.split("==")
            out[canonicalize_name(name)] = version
    return out


def unmet(packages: dict) -> list:
    """'A needs B>=1' for each requirement that the pins don't meet."""
    found = []
    for name in packages:
        for line in importlib.metadata.requires(name) or []:
            need = Requirement(line)
            if need.marker and not need.marker.evaluate({"extra": ""}):
                continue
            version = packages.get(canonicalize_name(need.name))
            if version is None or not need.specifier.contains(version, prereleases=True):
                found.append(f"{name} needs {need}, pinned is {version}")
    return found


@pytest.mark.parametrize("group", ["use", "run", "bundle", "farm"])
def test_what_is_pinned_is_complete(group):
    packages = pinned(group)
    assert len(packages) > 10
    assert unmet(packages) == []


def test_a_missing_pin_is_seen():
    packages = pinned("run")
    del packages["tzdata"]
    assert [text for text in unmet(packages) if "tzdata" in text]
