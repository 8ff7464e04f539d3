#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/verification_plan.md out of the testplans, the suites and the assertions and covers in rtl/.

usage: plan.py [--write]     prints the page, or writes it
"""

import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REGRESS = ROOT / "torch_ext" / "torch_presil" / "regress"


def load_regress() -> None:
    """torch_presil.regress without importing torch, and beside tests/regress."""
    name = "presil_regress"
    spec = importlib.util.spec_from_file_location(
        name, REGRESS / "__init__.py", submodule_search_locations=[str(REGRESS)]
    )
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


load_regress()
sys.path.insert(0, str(Path(__file__).resolve().parent))
import modules  # noqa: E402
from presil_regress import testplan  # noqa: E402
from presil_regress.suite import Loader, available, search_path  # noqa: E402

PAGE = ROOT / "docs" / "verification_plan.md"
LABEL = re.compile(r"^\s*(([ac])_\w+): (assert|cover) property", re.M)
WIDTH = 120
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Verification plan

What has to be shown of the chip, by which cases of `presil regress`, and which states of the RTL they have to
reach. One source: `testplan.toml` of the folders of suites ([regress.md](regress.md)); this page is written from it
and from rtl/ by `tests/coverage/plan.py --write`. A case or a cover that there is not, and a cover in rtl/ that is
in no testpoint, are failures of the stage `lint`.

```
./presil regress coverage --coverage        # what of it is reached: docs/coverage.md
```

A **testpoint** has a stage (V1: runs at all, V2: every feature, V3: with everything around it). A **cover** is a
`cover property` of a module, written `module.label`; it is reached when one instance of the module reaches it.

"""


MODULES = f"""Of more than {modules.LONG} lines. The contract of each is the comment at its head and docs/rtl.md. Alone:
a bench of tests/cocotb/leaf ([testing.md](testing.md)) or proofs ([formal.md](formal.md)) with it as their top;
parts of an engine are driven by the engine's bench, the functions of a package by one of theirs. A package and a
module without a clock have no assertions or covers. Which share of the planted faults is found, and by
what: [programs.md](programs.md).
"""


def labels() -> dict:
    """Module -> {"a": [labels of assertions], "c": [of covers]}, of rtl/."""
    out = {}
    for path in sorted((ROOT / "rtl").glob("*.sv")):
        found = LABEL.findall(path.read_text())
        for label, letter, word in found:
            if (letter == "a") != (word == "assert"):
                raise SystemExit(f"{path}: {label}: assertions are named a_…, covers c_…")
            out.setdefault(path.stem, {"a": [], "c": []})[letter].append(label)
    return out


def covers() -> set:
    return {f"{module}.{label}" for module, found in labels().items() for label in found["c"]}


def points() -> list:
    return testplan.load(search_path())


def cases() -> list:
    loader = Loader(search_path())
    return loader.load(sorted(available(search_path())))


def problems(plan: list, known: set, all_cases: list) -> list[str]:
    """What plan, RTL and suites say differently."""
    named = [cover for point in plan for cover in point.covers]
    out = [f"testpoint {p.name}: no cover {c} in rtl/" for p in plan for c in p.covers if c not in known]
    out += [f"cover {c} of rtl/: in no testpoint" for c in sorted(known - set(named))]
    out += [f"cover {c}: in two testpoints" for c in sorted({c for c in named if named.count(c) > 1})]
    return out + testplan.unmapped(plan, all_cases)


def wrapped(words: list[str], lead: str) -> str:
    lines, now = [], lead
    for word in words:
        if len(now) + len(word) + 1 > WIDTH:
            lines.append(now.rstrip())
            now = "  "
        now += word + " "
    return "\n".join([*lines, now.rstrip()])


def of_module(covers_: list[str]) -> list[str]:
    """`presil_load`: c_full, c_range; …"""
    groups = {}
    for cover in covers_:
        module, label = cover.split(".")
        groups.setdefault(module, []).append(label.removeprefix("c_"))
    return [word for module, some in groups.items() for word in (f"**{module}**", *f"{', '.join(some)};".split())]


def page() -> str:
    plan = points()
    out = [HEAD, "## Testpoints\n", "| stage | testpoint | tests | covers |", "|---|---|---|---|"]
    for point in plan:
        tests = ", ".join(f"`{test}`" for test in point.tests)
        out.append(f"| {point.stage} | [{point.name}](#{point.name}) | {tests} | {len(point.covers)} |")
    for point in plan:
        out += ["", f"### {point.name}", wrapped(point.goal.split(), "")]
        out += [wrapped(point.stimulus.split(), "- stimulus: "), wrapped(point.check.split(), "- check: ")]
        if point.covers:
            out.append(wrapped(of_module(point.covers), "- covers: ").rstrip(";"))
    out += ["", "## Assertions", "On in the builds `check` and `coverage`; a breach stops the model with its name.", ""]
    for module, found in labels().items():
        if found["a"]:
            out.append(wrapped(", ".join(found["a"]).split(), f"- {module}: "))
    out += ["", "## Modules", MODULES, *modules.table(labels())]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page())
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        sys.stdout.write(page())
