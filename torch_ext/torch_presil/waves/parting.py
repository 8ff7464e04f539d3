# SPDX-License-Identifier: Apache-2.0
"""Two traces of the same launch: which signals part first, where, and which lines of the RTL drive them."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from rich.markup import escape
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table

from .drivers import Design
from .trace import Trace, WavesError
from .view import View, find

TEXT = 56  # letters of a line of the RTL that are shown


@dataclass
class Part:
    """A signal from the time on (ticks since the doorbell) at which its values differ."""

    names: list  # all that the file has for it, below the top
    since: int
    left: object
    right: object
    lines: list = field(default_factory=list)
    theirs: list = field(default_factory=list)  # lines of the other RTL, where they say something else
    home: bool = False  # its first name is of the module that assigns it
    others: int = 0  # elements of the same array
    follows: int = 0  # how many of the signals that it depends on had parted by then

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0]


def _from(changes: list, zero: int) -> tuple:
    """(value at the doorbell, changes behind it)."""
    index = bisect_right(changes, zero, key=lambda c: c[0])
    return (changes[index - 1][1] if index else None), changes[index:]


def first_difference(left: list, left_zero: int, right: list, right_zero: int):
    """(ticks since the doorbell, value, value) of two lists of changes; None: they agree to the end of the shorter."""
    a, left = _from(left, left_zero)
    b, right = _from(right, right_zero)
    if a != b:
        return 0, a, b
    if left_zero == right_zero and left == right:
        return None
    for (ta, va), (tb, vb) in zip(left, right, strict=False):
        ta, tb = ta - left_zero, tb - right_zero
        if (ta, va) != (tb, vb):
            return (ta, va, vb) if ta == tb else (ta, va, b) if ta < tb else (tb, a, vb)
        a = b = va
    longer, zero, mine = (left, left_zero, True) if len(left) > len(right) else (right, right_zero, False)
    rest = longer[min(len(left), len(right)) :]
    if not rest:
        return None
    time, value = rest[0]
    return (time - zero, value, b) if mine else (time - zero, a, value)


def _by_signal(trace: Trace, root: str) -> dict:
    """names (tuple, below the top) -> variable, one for each signal of the file."""
    groups = {}
    for name, variable in trace.variables.items():
        if name.startswith(root + "."):
            groups.setdefault(variable.signal_id, []).append((name.removeprefix(root + "."), variable))
    return {name: variable for members in groups.values() for name, variable in members}


def compare(left: Trace, right: Trace, view: View, zeros: tuple, progress=lambda done, of: None) -> tuple:
    """([Part] by time, signals compared, names that only one has). zeros: the times from which on they are compared."""
    ours, theirs = _by_signal(left, view.root), _by_signal(right, view.root)
    seen, parts, compared = {}, [], 0
    for done, (name, variable) in enumerate(ours.items()):
        if done % 200 == 0:
            progress(done, len(ours))
        other = theirs.get(name)
        if other is None:
            continue
        key = variable.signal_id, other.signal_id
        if key in seen:
            if seen[key]:
                seen[key].names.append(name)
            continue
        compared += 1
        found = first_difference(list(variable.signal), zeros[0], list(other.signal), zeros[1])
        seen[key] = Part([name], *found) if found else None
        if found:
            parts.append(seen[key])
    # What one of them stops earlier than the other is not a difference of the chip.
    end = min(t.signal(view.full(view.clock)).times[-1] - z for t, z in zip((left, right), zeros, strict=True))
    parts = [p for p in parts if p.since <= end]
    parts.sort(key=lambda p: (p.since, p.name.count("."), p.name))
    return parts, compared, sorted(set(ours) ^ set(theirs))


def one_of_each_array(parts: list) -> list:
    """Of the elements of an array the one that parts first, which counts the others."""
    found = {}
    for part in parts:
        first = found.setdefault(re.sub(r"\[\d+\]", "[]", part.name), part)
        first.others += first is not part
    return list(found.values())


def explain(parts: list, design: Design, other: Design | None = None) -> None:
    """Finds the lines, and puts the ones that follow from others of the same time behind these. other: the second
    trace's RTL; what it drives by other lines comes first."""
    since = {name: part.since for part in parts for name in part.names}
    for part in parts:
        found = [(name, lines) for name in part.names if (lines := design.drivers(name))]
        found.sort(key=lambda one: not design.assigns(*one))
        for name, lines in found[:1]:
            part.names.remove(name)
            part.names.insert(0, name)
            part.home = design.assigns(name, lines)
            part.lines = lines
            inputs = {i for _, depends in lines for i in depends} - set(part.names)
            part.follows = sum(since.get(i, part.since + 1) <= part.since for i in inputs)
            part.theirs = _changed(lines, other.drivers(name)) if other else []
    parts.sort(key=lambda p: (p.since, not p.theirs, p.follows, not p.lines, p.name.count("."), p.name))


def one_of_each_net(parts: list) -> list:
    """Of what the same lines drive in the same cycle to the same values (a signal in each module that it passes) the
    one that is assigned there; it has the others among its names."""
    found = {}
    for part in parts:
        key = part.since, part.left, part.right, tuple(line for line, _ in part.lines)
        first = found.setdefault(key if part.lines else (id(part),), part)
        if first is part:
            continue
        first.names[:] = part.names + first.names if part.home > first.home else first.names + part.names
        first.home |= part.home
    return list(found.values())


def _changed(lines: list, others: list) -> list:
    """The other RTL's lines if they don't say the same."""
    return others if {one.text for one, _ in lines} != {one.text for one, _ in others} else []


def _design(view: View, rtl):
    places = [Path(p) for p in rtl] or view.rtl
    return Design(places, view.top) if places else None


def _counts(a: Trace, b: Trace, view: View, first: int | None, console) -> tuple:
    """Cycles of both, which have to count from the same."""
    bells = [view.bell(t) is not None for t in (a, b)]
    if first is None and bells[0] != bells[1]:
        whole, part = (a, b) if bells[0] else (b, a)
        raise WavesError(
            f"{part.path}: {view.doorbell} never rises, in {whole.path} it does: two traces with the "
            "doorbell, or two of the same window, were expected"
        )
    if first is None and not bells[0]:
        console.print(
            f"{escape(view.doorbell)} never rises: cycles count from the beginning of each trace", highlight=False
        )
    return tuple(view.cycles(t, first) for t in (a, b))


def run(
    left: Path,
    right: Path,
    view_path,
    rtl,
    most: int,
    console,
    first_cycle: int | None = None,
    other_rtl=None,
    folders=(),
) -> dict:
    """first_cycle: with which both begin, if that is known. other_rtl: a folder, the second trace's. folders: where
    views are looked for too."""
    a, b = Trace(left), Trace(right)
    view = find(a, view_path, folders)
    if view.top not in {s.split(".")[-1] for s in b.scopes}:
        raise WavesError(f"{right} is of another chip: it has no module {view.top}")
    counts = _counts(a, b, view, first_cycle, console)
    cycles, starts = counts[0], tuple(max(c.first, c.zero) for c in counts)
    with Progress(*Progress.get_default_columns()[:-1], TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("comparing signals")
        parts, compared, only_one = compare(
            a, b, view, starts, lambda done, of: bar.update(task, completed=done, total=of)
        )
    begin = cycles.at(starts[0])
    early = [p for p in parts if p.since == 0]
    differing = len(parts)
    parts = one_of_each_array([p for p in parts if p.since > 0])
    known = max(4 * most, 100)
    shown, rest, design = parts[:known], parts[known:], _design(view, rtl) if parts else None
    if design:
        explain(shown, design, Design([other_rtl], view.top) if other_rtl else None)
        shown = one_of_each_net(shown)
    first = {}
    for part in shown + rest:
        first.setdefault(part.module, part)
    result = {
        "traces": [str(left), str(right)],
        "view": str(view.path),
        "from": begin,
        "compared": compared,
        "differing": differing,
        "differ_at_the_doorbell": [p.name for p in early[:most]],
        "only_in_one": only_one[:most],
        "first": [
            {
                "signal": p.name,
                "cycle": begin + p.since // cycles.period,
                "values": [p.left, p.right],
                "aliases": p.names[1:],
                "others": p.others,
                "drivers": [{"place": str(line), "text": line.text} for line, _ in p.lines],
                "other_drivers": [{"place": str(line), "text": line.text} for line, _ in p.theirs],
            }
            for p in shown[:most]
        ],
        "modules": [
            {"module": m or view.top, "cycle": begin + p.since // cycles.period, "signal": p.name}
            for m, p in first.items()
        ][:most],
    }
    _print(result, len(early), len(only_one), console)
    return result


def _differing(ours: list, theirs: list) -> list:
    """[(mark, driver)] that are shown: of two RTLs what each has and the other hasn't."""
    texts = [{d["text"] for d in drivers} for drivers in (ours, theirs)]
    if not theirs:
        return [("", d) for d in ours[:2]]
    gone = [("- ", d) for d in ours if d["text"] not in texts[1]]
    return (gone + [("+ ", d) for d in theirs if d["text"] not in texts[0]])[:4]


def _line(mark: str, driver: dict) -> str:
    """Whole where two RTLs differ: it may be the last word that does."""
    text = driver["text"] if mark or len(driver["text"]) <= TEXT else driver["text"][: TEXT - 1] + "…"
    return f"{mark}{driver['place']}\n    {text}"


def _value(value) -> str:
    return f"{value:x}" if isinstance(value, int) else str(value)


def _print(result: dict, early: int, only_one: int, console) -> None:
    if not result["differing"]:
        begin = f"cycle {result['from']}" if result["from"] else "the doorbell"
        console.print(f"{result['compared']} signals agree from {begin} on", highlight=False)
    if result["first"]:
        table = Table("cycle", "signal", "first", "second", "driven at", title="Signals that part first")
        table.columns[-1].overflow = "fold"
        for row in result["first"]:
            name = row["signal"] + (f" and {row['others']} more" if row["others"] else "")
            places = "\n".join(_line(*one) for one in _differing(row["drivers"], row["other_drivers"]))
            values = [v if len(v) <= 16 else "…" + v[-15:] for v in map(_value, row["values"])]
            table.add_row(str(row["cycle"]), escape(name), *map(escape, values), escape(places))
        console.print(table)
        table = Table(
            "module", "cycle", "its first signal", title="Modules, by the cycle in which their first signal parts"
        )
        for row in result["modules"]:
            table.add_row(escape(row["module"]), str(row["cycle"]), escape(row["signal"]))
        console.print(table)
        console.print(f"{result['differing']} of {result['compared']} signals differ", highlight=False)
    if early:
        names = ", ".join(result["differ_at_the_doorbell"][:5])
        console.print(f"{early} signals differ at the doorbell already: {escape(names)}", highlight=False)
    if only_one:
        console.print(f"{only_one} signals are in one of the traces only", highlight=False)
