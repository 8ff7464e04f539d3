# SPDX-License-Identifier: Apache-2.0
"""What each module of rtl/ is checked by when it stands alone: benches, proofs, assertions, covers, planted faults."""

import collections
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
RTL = TESTS.parent / "rtl"
LONG = 100  # lines: beyond, a module has all of it
FAULTS = 5  # planted ones that such a module has at least

# Modules that a bench of the engine around them drives, port by port: alone they would need its neighbours again.
# And packages, whose functions a bench calls.
WITHIN = {
    "presil_dot_pkg": "functions",
    "presil_fp_pkg": "functions",
}


@dataclass
class Module:
    name: str
    lines: int
    clocked: bool
    bench: bool = False
    proofs: list[str] = field(default_factory=list)
    faults: int = 0
    assertions: int = 0
    covers: int = 0

    def alone(self) -> str:
        """Benches and proofs that have it as their top, or the bench that drives it."""
        own = ["bench"] * self.bench + [f"proof {name}" for name in self.proofs]
        return ", ".join(own) or (f"in the bench of {WITHIN[self.name]}" if self.name in WITHIN else "")

    def missing(self) -> list[str]:
        if self.lines <= LONG:
            return []
        out = [] if self.alone() else ["a bench in tests/cocotb/leaf or a proof in tests/formal"]
        if self.clocked and not (self.assertions or self.proofs):
            out.append("an assertion or a proof")
        if self.clocked and not (self.covers or self.proofs):
            out.append("a cover")
        return out + [f"{FAULTS} faults in tests/mutants/faults.toml, not {self.faults}"] * (self.faults < FAULTS)


def modules(labels: dict) -> list[Module]:
    """Of rtl/, by name; labels: plan.labels()."""
    faults = tomllib.loads((TESTS / "mutants" / "faults.toml").read_text())["fault"]
    planted = collections.Counter(fault["file"] for fault in faults)
    proofs = tomllib.loads((TESTS / "formal" / "proofs.toml").read_text())["proof"]
    out = []
    for path in sorted(RTL.glob("*.sv")):
        text, name = path.read_text(), path.stem
        found = labels.get(name, {"a": [], "c": []})
        out.append(
            Module(
                name,
                text.count("\n"),
                "posedge clk" in text,
                (TESTS / "cocotb" / "leaf" / f"{name.removeprefix('presil_')}_bench.py").exists(),
                # A memory is proved in wrappers, one for each kind of ports, and named by its properties.
                [p["name"] for p in proofs if name in (p["top"], p.get("properties"))],
                planted[path.name],
                len(found["a"]),
                len(found["c"]),
            )
        )
    return out


def table(labels: dict) -> list[str]:
    out = [
        "| module | lines | alone | assertions | covers | planted faults |",
        "|---|---|---|---|---|---|",
    ]
    for m in modules(labels):
        if m.lines > LONG:
            out.append(f"| {m.name} | {m.lines} | {m.alone()} | {m.assertions} | {m.covers} | {m.faults} |")
    return out
