# SPDX-License-Identifier: Apache-2.0
"""docs/chip.svg, the block diagram of docs/rtl.md: the instances are read from rtl/, their places and the
arrows stand here.

.venv/bin/python docs/block_diagram.py     writes it (tests/lint/test_block_diagram.py holds it to the RTL)
"""

import json
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "chip.svg"
WIDTH, HEIGHT, MARGIN, LINE = 1290, 770, 110, 19

# Instance of presil_top: x, y, width, height.
PLACES = {
    "u_regs": (30, 70, 210, 70),
    "u_status": (30, 160, 210, 60),
    "u_counters": (30, 240, 210, 60),
    "u_command": (330, 70, 300, 80),
    "u_tokens": (720, 70, 240, 60),
    "g_issue[LOAD].u_issue": (280, 235, 220, 50),
    "g_issue[MATRIX].u_issue": (530, 235, 220, 50),
    "g_issue[EPILOGUE].u_issue": (780, 235, 220, 50),
    "g_issue[STORE].u_issue": (1030, 235, 220, 50),
    "u_load": (280, 345, 220, 170),
    "u_matrix": (530, 345, 220, 170),
    "u_epilogue": (780, 345, 220, 170),
    "u_store": (1030, 345, 220, 170),
    "u_scratchpad": (280, 600, 970, 70),
    "u_axi_read": (30, 345, 180, 80),
    "u_bus": (30, 455, 180, 60),
    "u_windows": (30, 535, 180, 60),
    "u_parity": (30, 615, 180, 60),
    "u_record": (30, 695, 180, 60),
    "u_axi_write": (1030, 70, 220, 60),
}
# Points of a line; heads at both ends (True), the last one (False) or none; text and where it is. The names are ports
# of the modules at the ends, in words where they are many.
ARROWS = [
    ([(-60, 105), (30, 105)], True, "s_axil", (-55, 97)),
    ([(240, 105), (330, 105)], True, "ring, doorbell", (243, 97)),
    ([(-60, 385), (30, 385)], True, "m_axi AR, R", (-55, 377)),
    ([(1250, 90), (1385, 90)], True, "m_axi AW, W, B", (1262, 82)),
    ([(210, 365), (255, 365), (255, 130), (330, 130)], True, "descriptors (ID 1)", (258, 175)),
    ([(210, 400), (280, 400)], False, "data (ID 0)", (213, 392)),
    ([(280, 425), (245, 425), (245, 412), (210, 412)], False, "bursts", (222, 445)),
    ([(1140, 345), (1140, 285)], True, "", (0, 0)),
    ([(1250, 400), (1290, 400), (1290, 115), (1250, 115)], False, "bursts, beats", (1254, 420)),
    ([(210, 725), (1310, 725), (1310, 80), (1250, 80)], False, "a record: burst, beats", (1080, 717)),
    ([(630, 100), (720, 100)], True, "clear", (655, 92)),
    (
        [(480, 150), (480, 195), (1140, 195), (1140, 235)],
        False,
        "push: a descriptor for one of the four queues",
        (500, 188),
    ),
    ([(390, 195), (390, 235)], False, "", (0, 0)),
    ([(480, 195), (390, 195)], None, "", (0, 0)),
    ([(640, 195), (640, 235)], False, "", (0, 0)),
    ([(890, 195), (890, 235)], False, "", (0, 0)),
    ([(840, 130), (840, 235)], True, "want, have: of all four", (846, 160)),
    ([(390, 285), (390, 345)], True, "start, done, cause", (396, 320)),
    ([(640, 285), (640, 345)], True, "start, done, cause", (646, 320)),
    ([(890, 285), (890, 345)], True, "start, done, cause", (896, 320)),
    ([(750, 455), (780, 455)], False, "accumulators", (663, 478)),
    ([(390, 515), (390, 600)], False, "ld", (396, 562)),
    ([(600, 600), (600, 515)], False, "act", (570, 562)),
    ([(680, 600), (680, 515)], False, "wgt", (686, 562)),
    ([(840, 600), (840, 515)], False, "res", (812, 562)),
    ([(930, 515), (930, 600)], False, "ep", (936, 562)),
    ([(1140, 600), (1140, 515)], False, "st", (1146, 562)),
]
TITLES = {
    "u_regs": "registers (PeakRDL)",
    "u_status": "status",
    "u_counters": "counters: a cause a cycle",
    "u_command": "command processor",
    "u_tokens": "20 token counters",
    "g_issue[LOAD].u_issue": "queue of LOAD",
    "g_issue[MATRIX].u_issue": "queue of MATRIX",
    "g_issue[EPILOGUE].u_issue": "queue of EPILOGUE",
    "g_issue[STORE].u_issue": "queue of STORE",
    "u_load": "LOAD",
    "u_matrix": "MATRIX",
    "u_epilogue": "EPILOGUE",
    "u_store": "STORE",
    "u_scratchpad": "scratchpad",
    "u_axi_read": "AXI reads",
    "u_axi_write": "AXI writes",
    "u_bus": "bus settings",
    "u_windows": "DMA windows",
    "u_parity": "parity errors",
    "u_record": "completion records",
}
STYLE = (
    "text{font:13px sans-serif;fill:#1a1a1a} .t{font-weight:bold} .m{font-family:monospace;font-size:12px;fill:#444} "
    ".a{font-size:12px;fill:#0b4f8a} rect{fill:#f4f6f8;stroke:#5b6770} .w{fill:#fff;stroke:none} "
    "path{fill:none;stroke:#0b4f8a;stroke-width:1.5}"
)


def instances(module: str) -> dict[str, str]:
    """Instance -> module, in the order of the file; of presil_top's loop over engines one of each. Clock gates and
    queues are no box."""
    text = (ROOT / "rtl" / f"{module}.sv").read_text()
    isa = json.loads((ROOT / "rtl" / "descriptors.json").read_text())
    engines = [name for name in isa["engines"] if name in isa]  # VECTOR has an opcode, and no descriptor yet
    found = {}
    for kind, name in re.findall(r"^ *(presil_\w+) (?:#\(.*\) )?(u_\w+) ?\(", text, re.M):
        found |= {f"g_issue[{e}].{name}": kind for e in engines} if name == "u_issue" else {name: kind}
    return {name: kind for name, kind in found.items() if kind not in ("presil_clock_gate", "presil_fifo")}


def box(name: str, module: str) -> list[str]:
    x, y, w, h = PLACES[name]
    out = [f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="4"/>']
    lines = [("t", TITLES[name]), ("m", module)]
    inside = list(dict.fromkeys(instances(module).values())) if module != "presil_regs" else []
    step = 2 if len(inside) > 3 else 1
    names = [kind.removeprefix("presil_") for kind in inside]
    lines += [("m", "· " + ", ".join(names[i : i + step])) for i in range(0, len(names), step)]
    for i, (style, text) in enumerate(lines):
        out.append(f'<text class="{style}" x="{x + 10}" y="{y + 20 + LINE * i}">{escape(text)}</text>')
    return out


def arrow(points: list, heads: bool | None, text: str, at: tuple) -> list[str]:
    marks = "" if heads is None else ' marker-end="url(#h)"' + (' marker-start="url(#h)"' if heads else "")
    out = [f'<path d="M{" L".join(f"{x},{y}" for x, y in points)}"{marks}/>']
    if text:
        out.append(f'<text class="a" x="{at[0]}" y="{at[1]}">{escape(text)}</text>')
    return out


def drawing() -> str:
    """The picture; KeyError names an instance of presil_top that has no place yet."""
    found = instances("presil_top")
    missing = set(PLACES) - set(found)
    if missing:
        raise KeyError(f"not in rtl/presil_top.sv: {', '.join(sorted(missing))}")
    out = [
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN} 0 {WIDTH + 2 * MARGIN} {HEIGHT}" '
        f'width="{WIDTH + 2 * MARGIN}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="h" orient="auto-start-reverse" markerWidth="8" markerHeight="8" refX="7" refY="4">'
        '<path d="M0,0 L8,4 L0,8 z" style="fill:#0b4f8a;stroke:none"/></marker></defs>',
        f'<rect class="w" x="{-MARGIN}" width="{WIDTH + 2 * MARGIN}" height="{HEIGHT}"/>',
        f'<text class="t" x="30" y="35">presil_top: {len(found)} instances</text>',
    ]
    for name, module in found.items():
        out += box(name, module)
    for parts in ARROWS:
        out += arrow(*parts)
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawing())
    print(PICTURE)
