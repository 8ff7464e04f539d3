# SPDX-License-Identifier: Apache-2.0
"""The table of operators (operators.toml): what runs on the chip, what on the host, what is refused.

python -m torch_presil.operators [NAME ...]        how each operator (e.g. mm.out, "*lstm*") is handled; all of them
without a name; --json for programs python -m torch_presil.operators --write FILE      measures a sample of every
operator of PyTorch's test database, and writes docs/operators.md
"""

import argparse
import fnmatch
import json
import re
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

KINDS = ("chip", "memory", "composite", "fallback", "refused")


@dataclass(frozen=True)
class Operator:
    """One entry. name: without the namespace aten, with its overload; required: PyTorch demands it of every device;
    explicit: a fallback registered by name."""

    name: str
    group: str
    kind: str
    text: str
    required: bool = True
    explicit: bool = False


def table() -> dict[str, Operator]:
    """Every operator of operators.toml by name. ValueError for a kind that doesn't exist or a name that stands
    twice."""
    with open(Path(__file__).with_name("operators.toml"), "rb") as file:
        groups = tomllib.load(file)
    found = {}
    for group, entry in groups.items():
        if entry["kind"] not in KINDS:
            raise ValueError(
                f"operators.toml: group {group} has kind {entry['kind']!r}, expected one of {', '.join(KINDS)}"
            )
        for name in entry["operators"]:
            if name in found:
                raise ValueError(f"operators.toml: {name} stands in {found[name].group} and in {group}")
            found[name] = Operator(
                name,
                group,
                entry["kind"],
                entry["text"],
                not entry.get("optional", False),
                entry.get("explicit", False),
            )
    return found


def required() -> dict[str, str]:
    """Schemas by name of the operators that the installed PyTorch requires of a device: dispatched, without a default
    kernel."""
    header = Path(torch.__file__).parent / "include" / "ATen" / "RegistrationDeclarations.h"
    entries = (json.loads(match) for match in re.findall(r"// (\{\"schema\".*\})$", header.read_text(), re.MULTILINE))
    schemas = [
        e["schema"].removeprefix("aten::") for e in entries if e["dispatch"] == "True" and e["default"] == "False"
    ]
    return {schema.partition("(")[0]: schema for schema in schemas}


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_presil.operators", description="How presil handles PyTorch's operators."
    )
    parser.add_argument("names", nargs="*", help="operators, with * and ?; default: all")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--write",
        metavar="FILE",
        help="measure, and write the page docs/operators.md (minutes; needs PyTorch's test dependencies)",
    )
    options = parser.parse_args(arguments)
    if options.write:
        from torch_presil import operators_page

        operators_page.write(options.write)
        return 0
    chosen = [
        o
        for o in table().values()
        if not options.names or any(fnmatch.fnmatch(o.name, p.removeprefix("aten::")) for p in options.names)
    ]
    if not chosen:
        print(
            f"no operator named {' '.join(options.names)}: those that PyTorch composes of others are not in the "
            f"table, they run through the others",
            file=sys.stderr,
        )
        return 1
    if options.json:
        print(json.dumps([asdict(o) for o in chosen], indent=1))
    else:
        width = max(len(o.name) for o in chosen)
        for o in chosen:
            print(f"{o.name:{width}}  {o.kind:9}  {o.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
