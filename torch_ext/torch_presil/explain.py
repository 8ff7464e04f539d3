# SPDX-License-Identifier: Apache-2.0
"""torch.presil.explain(): which operators ran where, from which line, at what cost."""

import json
import os

from rich.console import Console
from rich.table import Table

from torch_presil import _C

__all__ = ["explain"]

_SUMS = (
    "calls",
    "launches",
    "unclocked",
    "failed",
    "cycles",
    "macs",
    "dram_bytes",
    "host_bytes",
    "host_seconds",
    "wait_seconds",
    "sim_seconds",
)
_CLOCKED = ("cycles", "dram_bytes")  # from the chip's counters, which the twin doesn't have
_KEYS = {"operator": ("op", "where", "reason"), "line": ("file", "line", "function", "where"), "place": ("where",)}
_SORT = (
    "cycles",
    "host_seconds",
    "calls",
    "macs",
    "dram_bytes",
    "host_bytes",
    "sim_seconds",
    "wait_seconds",
    "op",
    "where",
    "first",
)


def _group(rows: list, by: str) -> list:
    groups = {}
    for row in rows:
        source = row["source"] or {"file": None, "line": None, "function": None}
        flat = {**row, **source}
        key = tuple(flat[name] for name in _KEYS[by])
        group = groups.setdefault(
            key, {**dict(zip(_KEYS[by], key, strict=True)), **dict.fromkeys(_SUMS, 0), "lines": {}, "ops": {}}
        )
        for name in _SUMS:
            group[name] += row[name]
        line = (source["file"], source["line"], source["function"], row["backward"])
        group["lines"][line] = group["lines"].get(line, 0) + row["calls"]
        group["ops"][row["op"]] = group["ops"].get(row["op"], 0) + row["calls"]
    return [_finish(g) for g in groups.values()]


def _finish(group: dict) -> dict:
    """Counters that a launch on the twin doesn't have are null; lines and operators become lists, the most frequent
    first."""
    if group.pop("unclocked"):
        group.update(dict.fromkeys(_CLOCKED))
    if not group["launches"]:
        group.update(dict.fromkeys((*_CLOCKED, "macs")))
    lines = sorted(group["lines"].items(), key=lambda item: -item[1])
    group["lines"] = [
        {"file": f, "line": n, "function": fn, "backward": b, "calls": calls}
        for (f, n, fn, b), calls in lines
        if f is not None
    ]
    group["ops"] = [{"op": op, "calls": calls} for op, calls in sorted(group["ops"].items(), key=lambda item: -item[1])]
    return group


def _sorted(groups: list, sort: str | None) -> list:
    if sort is not None and sort not in _SORT:
        raise ValueError(f"sort must be one of {', '.join(_SORT)}, got {sort!r}")
    if sort == "first":
        return groups
    if sort in ("op", "where"):
        return sorted(groups, key=lambda g: str(g.get(sort)))
    if sort is None:  # work first, what only calls or views last
        order = ("chip", "host", "composite", "metadata")
        return sorted(
            groups, key=lambda g: (order.index(g["where"]), -(g["cycles"] or 0), -g["sim_seconds"], -g["host_seconds"])
        )
    return sorted(groups, key=lambda g: -(g[sort] or 0))


def _amount(value, unit="") -> str:
    if value is None:
        return ""
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / {'G': 1e9, 'M': 1e6, 'k': 1e3}[prefix]:.3g} {prefix}{unit}"
    return f"{value:,.0f} {unit}".rstrip()


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms" if seconds else ""


def _place(file: str | None, line: int | None) -> str:
    if file is None:
        return ""
    near = os.path.relpath(file)
    return f"{file if near.startswith('..') else near}:{line}"


def _first_line(group: dict) -> str:
    lines = group["lines"]
    if not lines:
        return ""
    more = f" (+{len(lines) - 1})" if len(lines) > 1 else ""
    return _place(lines[0]["file"], lines[0]["line"]) + (" backward" if lines[0]["backward"] else "") + more


class explain:
    """Context that records each operator of this process on presil devices: `with torch.presil.explain() as e: ...;
    print(e)`.

    where: "chip" launched work; "host" computed, copied or converted by the CPU, with the reason; "composite" only
    called others (which have rows of their
    own); "metadata" touched no data (views, allocation). cycles and dram_bytes are the chip's counters, None in mode
    "model", which has no clock; host_bytes
    were copied or converted by the CPU; host_seconds is wall time in the operator itself, without operators it calls
    and without waiting for the chip;
    wait_seconds that waiting; sim_seconds the time inside the simulator or the twin. lines are the innermost Python
    lines outside torch; a backward operator
    has the line of its forward. Operators inside a replayed graph appear as launches only. One observation at a time in
    a process; entering and leaving wait for the devices.
    """

    def __init__(self):
        self.rows = None

    def __enter__(self):
        self._synchronize()
        _C.start_observing()
        return self

    def __exit__(self, kind, *rest):
        try:
            self._synchronize()
        except RuntimeError:
            if kind is None:
                raise  # else the body's own error, most likely this one, is on its way
        finally:
            self.mode = _C.get_mode()
            self.rows = _C.stop_observing()
        return False

    @staticmethod
    def _synchronize() -> None:
        for i in range(_C.device_count()):
            _C.synchronize(i)

    def _recorded(self) -> list:
        if self.rows is None:
            raise RuntimeError("nothing is recorded yet: ask after the `with torch.presil.explain()` block has ended")
        return self.rows

    def operators(self, sort: str | None = None, by: str = "operator", metadata: bool = False) -> list:
        """One dict a group, by "operator" (name, where, reason), "line" or "place". sort: a member of the dict,
        largest first; None: where, then cost; "first": as they came."""
        if by not in _KEYS:
            raise ValueError(f"by must be one of {', '.join(_KEYS)}, got {by!r}")
        rows = [r for r in self._recorded() if metadata or r["where"] != "metadata"]
        return _sorted(_group(rows, by), sort)

    def totals(self) -> dict:
        """Where -> sums. `host_bytes` of "host" is all that the CPU copied or converted."""
        places = {g["where"]: {name: g[name] for name in _SUMS if name in g} for g in _group(self._recorded(), "place")}
        return {
            where: places.get(where, {name: 0 for name in _SUMS if name != "unclocked"})
            for where in ("chip", "host", "composite", "metadata")
        }

    def json(self, path: str | None = None) -> dict:
        """{"mode", "totals", "operators"} ready for json.dumps; also written to `path` if given."""
        result = {
            "mode": (self._recorded(), self.mode)[1],
            "totals": self.totals(),
            "operators": self.operators(metadata=True),
        }
        if path is not None:
            with open(path, "w") as f:
                json.dump(result, f, indent=1)
                f.write("\n")
        return result

    def table(self, sort: str | None = None, by: str = "operator", metadata: bool = False) -> Table:
        """A rich table; composite and metadata rows say what called, chip and host rows add up to everything."""
        groups = self.operators(sort, by, metadata)
        table = Table(
            title=f"What ran where (mode {self.mode}{', which has no clock' if self.mode == 'model' else ''})",
            title_justify="left",
        )
        table.add_column("line" if by == "line" else "operator", overflow="fold")
        for name in ("where", "calls", "launches", "cycles", "MACs", "DRAM", "moved by host", "host time"):
            table.add_column(name, justify="left" if name == "where" else "right", no_wrap=True)
        table.add_column("operators" if by == "line" else "line", overflow="fold")
        table.add_column("why", overflow="fold")
        for g in groups:
            self._add(table, g, by)
        return table

    @staticmethod
    def _add(table: Table, g: dict, by: str) -> None:
        ops = ", ".join(o["op"].replace("aten::", "") for o in g["ops"][:4]) + (
            f" (+{len(g['ops']) - 4})" if len(g["ops"]) > 4 else ""
        )
        name = {
            "operator": g.get("op"),
            "line": _place(g.get("file"), g.get("line")) or "(no Python line)",
            "place": g["where"],
        }[by]
        table.add_row(
            name,
            g["where"],
            f"{g['calls']:,}",
            f"{g['launches']:,}" if g["launches"] else "",
            "" if g["cycles"] is None else f"{g['cycles']:,}",
            _amount(g["macs"]),
            _amount(g["dram_bytes"] or None, "B"),  # every launch moves some: 0 is of a chip that doesn't count them
            _amount(g["host_bytes"] or None, "B"),
            _time(g["host_seconds"]),
            ops if by == "line" else _first_line(g),
            g.get("reason") or "",
            style="dim" if g["where"] in ("composite", "metadata") else None,
        )

    def __str__(self) -> str:
        console = Console(width=200, no_color=True, highlight=False)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get()
