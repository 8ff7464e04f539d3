# SPDX-License-Identifier: Apache-2.0
"""A window of a trace as a picture: SVG, or an HTML page that holds one. Both need nothing else."""

from dataclasses import dataclass
from html import escape

from .trace import Cycles, Trace, WavesError
from .view import View, text_of

ROW, HEADING, AXIS, NAMES, GAP = 20, 24, 30, 210, 10
LETTER = 6.0  # of the values' text: width of a character, rounded up
LEAST, MOST = 900, 3600  # pixels of the waves
MOST_CYCLES = 20000
MARKS = ("#c0392b", "#1f6f43", "#8e44ad", "#b9770e")
PLAIN, UNKNOWN = "#f6f8fa", "#f2b8b5"
FILLS = (
    "#8fc98a", "#e3e7eb", "#f6c9a0", "#f2a7a0", "#e5b8e8", "#c7b5f0", "#f7dfa0", "#f08c7d", "#f5d04c", "#9cc4ee",
    "#6fa8dc", "#a9d9e8", "#d6ecc8", "#d9534f",
)  # fmt: skip
STYLE = """
text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #1b1f24; }
.g { font: bold 12px system-ui, sans-serif; } .n { text-anchor: end; } .v { text-anchor: middle; }
.t { font-size: 10px; fill: #57606a; text-anchor: middle; } .m { font-size: 10px; text-anchor: middle; }
.w { fill: none; stroke: #1f5fa8; stroke-width: 1.2; } .b { stroke: #57606a; stroke-width: .7; }
.d { fill: #b6cbe4; } .x { fill: #f2b8b5; } .h { fill: #eef1f4; } .l { stroke: #e3e7eb; stroke-width: .6; }
"""


@dataclass(frozen=True)
class Window:
    """Cycles [first, last) of a trace, and where they are in the picture."""

    cycles: Cycles
    first: int
    last: int

    @property
    def scale(self) -> float:
        """Pixels a cycle."""
        return min(max(LEAST / self.count, 0.2), 24.0) if self.count * 24 > LEAST else LEAST / self.count

    @property
    def count(self) -> int:
        return self.last - self.first

    @property
    def width(self) -> float:
        return min(self.count * self.scale, MOST)

    def x(self, time) -> float:
        return NAMES + GAP + (time - self.cycles.time(self.first)) / self.cycles.period * self.width / self.count


def window(cycles: Cycles, first: int, last: int) -> Window:
    low, high = cycles.at(cycles.first), cycles.at(cycles.last)
    first, last = max(first, low), min(last, high)
    if last <= first:
        raise WavesError(f"the window has no cycle of the trace, which holds {low} to {high} (0: the doorbell)")
    if last - first > MOST_CYCLES:
        raise WavesError(
            f"a picture of {last - first} cycles can't be read: at most {MOST_CYCLES}; choose some with --window A:B"
        )
    return Window(cycles, first, last)


def _tick(count: int) -> int:
    """Cycles between two marks of the axis: 1, 2 or 5 times a power of ten."""
    step = 1
    while count / step > 12:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def _bit(signal, w: Window, top: float) -> str:
    """A line; where it changes more often than can be seen, a band."""
    high, low = top + 4, top + ROW - 4
    points, bands, last_x = [], [], None
    for begin, end, value in signal.between(w.cycles.time(w.first), w.cycles.time(w.last)):
        x0, x1 = w.x(begin), w.x(end)
        if not isinstance(value, int):
            bands.append(("x", x0, x1))
            continue
        if x1 - x0 < 1.0 and last_x is not None and x0 - last_x < 1.0:
            if bands and bands[-1][0] == "d" and x0 - bands[-1][2] < 1.0:
                bands[-1] = ("d", bands[-1][1], x1)
            else:
                bands.append(("d", last_x, x1))
        y = high if value & 1 else low
        if points and points[-1][1] != y:
            points.append((x0, points[-1][1]))
        points += [(x0, y), (x1, y)]
        last_x = x0
    out = [
        f'<rect class="{c}" x="{a:.1f}" y="{high}" width="{max(b - a, 0.8):.1f}" height="{low - high}"/>'
        for c, a, b in bands
    ]
    if points:
        out.append(f'<polyline class="w" points="{" ".join(f"{x:.1f},{y}" for x, y in points)}"/>')
    return "".join(out)


def _colour(value, names: dict) -> str:
    """Of a named value: each has its own, as far as they go."""
    return FILLS[list(names).index(value) % len(FILLS)] if value in names else PLAIN


def _bus(signal, row, view: View, w: Window, top: float) -> str:
    """Boxes with the value in them where it fits; every one says in its title what it is, and from when to when."""
    out, crowd = [], None
    for begin, end, value in signal.between(w.cycles.time(w.first), w.cycles.time(w.last)):
        x0, x1 = w.x(begin), w.x(end)
        if x1 - x0 < 1.5:
            crowd = (crowd[0] if crowd else x0, x1)
            continue
        if crowd:
            out.append(_crowd(*crowd, top))
            crowd = None
        text = text_of(row, value, view.enumerations)
        fill = UNKNOWN if not isinstance(value, int) else _colour(value, view.enumerations.get(row.enumeration, {}))
        a, b = w.cycles.at(begin), w.cycles.at(end - 1) + 1
        title = f"{row.label} = {text}, cycles {a} to {b - 1} ({b - a})"
        out.append(
            f'<g><title>{escape(title)}</title><rect class="b" x="{x0:.1f}" y="{top + 3}" width="{x1 - x0:.1f}" '
            f'height="{ROW - 6}" fill="{fill}"/>'
        )
        room = int((x1 - x0 - 3) / LETTER)
        if room >= len(text):
            out.append(f'<text class="v" x="{(x0 + x1) / 2:.1f}" y="{top + 14}">{escape(text)}</text>')
        elif room >= 4:
            out.append(f'<text class="v" x="{(x0 + x1) / 2:.1f}" y="{top + 14}">{escape(text[: room - 1])}…</text>')
        out.append("</g>")
    if crowd:
        out.append(_crowd(*crowd, top))
    return "".join(out)


def _crowd(x0: float, x1: float, top: float) -> str:
    return f'<rect class="d" x="{x0:.1f}" y="{top + 3}" width="{max(x1 - x0, 0.8):.1f}" height="{ROW - 6}"/>'


def svg(trace: Trace, view: View, w: Window, marks: dict, title: str, only=None) -> str:
    """marks: {name: cycle}."""
    groups = view.rows(trace, only)
    height = AXIS + sum(HEADING + ROW * len(rows) for _, rows in groups) + 8
    width = NAMES + 2 * GAP + w.width
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" role="img"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
    ]
    step = _tick(w.count)
    for cycle in range(-(-w.first // step) * step, w.last + 1, step):
        x = w.x(w.cycles.time(cycle))
        out.append(f'<line class="l" x1="{x:.1f}" x2="{x:.1f}" y1="{AXIS - 4}" y2="{height}"/>')
        out.append(f'<text class="t" x="{x:.1f}" y="{AXIS - 8}">{cycle}</text>')
    out.append(f'<text class="n t" x="{NAMES - 4}" y="{AXIS - 8}" style="text-anchor:end">cycle (0: doorbell)</text>')
    top = AXIS
    for group, rows in groups:
        out.append(f'<rect class="h" x="0" y="{top}" width="100%" height="{HEADING - 4}"/>')
        out.append(f'<text class="g" x="8" y="{top + 15}">{escape(group)}</text>')
        top += HEADING
        for row in rows:
            signal = trace.signal(row.name)
            label = row.label if len(row.label) <= 32 else "…" + row.label[-31:]
            out.append(f'<text class="n" x="{NAMES}" y="{top + 14}">{escape(label)}</text>')
            plain_bit = row.width == 1 and not row.enumeration
            out.append(_bit(signal, w, top) if plain_bit else _bus(signal, row, view, w, top))
            top += ROW
    for (name, cycle), colour in zip(marks.items(), MARKS * 8, strict=False):
        if w.first <= cycle <= w.last:
            x = w.x(w.cycles.time(cycle))
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{height}" stroke="{colour}" stroke-width="1.4"/>')
            out.append(f'<text class="m" x="{x:.1f}" y="9" style="fill:{colour}">{escape(name)}</text>')
    return "".join(out) + "</svg>\n"


def html(picture: str, title: str, facts: dict) -> str:
    """A page that holds the picture: no script, nothing from elsewhere. Boxes tell their value under the mouse."""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>'
        "body{font:14px system-ui,sans-serif;margin:1.5rem;color:#1b1f24;background:#fff}"
        "th{text-align:left;padding-right:1rem}.p{overflow:auto;border:1px solid #d0d7de;margin-top:1rem}"
        f"</style></head><body><h1>{escape(title)}</h1><table>{rows}</table>"
        f'<div class="p">{picture}</div></body></html>\n'
    )
