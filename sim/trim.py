#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes needless work out of the C++ that Verilator generated for a fast build.

usage: trim.py DIR        (edits DIR/Vchip*.cpp and DIR/Vchip___024root.h in place)

1. Verilator zeroes every local array of an inlined function, and every wide value that a memory may be written with,
   on every evaluation, used or not. The
   latter are only read where they were set. Reading the former before writing it would be reading X in Verilog; the
   check build, which is not
   trimmed, starts them with random values, so RTL that depends on them differs there. Only element widths without
   unused bits are trimmed:
   the bits above a width have to stay 0.
2. In a model for SystemC (--sc) a wide output port is written through a temporary on the heap: a static one does.
3. Each evaluation begins with the logic between inputs and registers. The harness evaluates with clk low after every
   change of an input, so that the
   evaluation with clk high, which changes nothing else, need not do it again. Left alone if that logic reads clk,
   but for latches that are open while it is low (clock gates).
   (With --sc clk itself is one of the inputs
   that this logic copies: that is done first, and always.)
4. Memories and wide values begin at a cache line. Where they lie depends on all that the model has, so any change of
   the RTL moves them, and vector loads across lines cost up to 5 % of the clock.
"""

import re
import sys
from pathlib import Path

# (declaration)(width-1)(name) and what zeroes it
NAME = r"(__V(?:func_|task_|dlyVal__)\w+)"
ARRAY = re.compile(
    r"(    VlUnpacked<[^;]*?/\*(\d+):0\*/[^;]*> "
    + NAME
    + r";\n)    for \(int __Vi0 = 0; __Vi0 < \d+; \+\+__Vi0\) \{\n        \3\[__Vi0\] = 0;\n    \}\n"
)
WIDE = re.compile(r"(    VlWide<\d+>/\*(\d+):0\*/ " + NAME + r";\n)    VL_ZERO_W\(\d+, \3\);\n")
INPUT_LOOP = re.compile(
    r"(    vlSelfRef\.__VicoFirstIteration = 1U;\n)    (do \{\n.*?\n    \} while \(vlSelfRef\.__VicoPhaseResult\);\n)",
    re.S,
)
PORT = re.compile(r"VL_ASSIGN_ISI\(1, (vlSelfRef\.__Vcellinp__\w+__clk), vlSelfRef\.clk\);")
# A latch that is open while clk is low, and nothing else: with clk high its logic changes nothing either.
LATCH = re.compile(r"^( *)if \(\(1U & \(~ \(IData\)\(vlSelfRef\.\w*clk\)\)\)\) \{\n(?:\1 .*\n|\n)*\1\}\n", re.M)
STATIC_WIDE = """
#undef VL_ASSIGN_SWW
#define VL_ASSIGN_SWW(obits, svar, rwp) \\
    { \\
        static sc_dt::sc_bv<(obits)> _bvtemp; \\
        for (int i = 0; i < VL_WORDS_I(obits); ++i) _bvtemp.set_word(i, (rwp)[i]); \\
        (svar).write(_bvtemp); \\
    }
"""
MEMBER = re.compile(r"^( *)(?=(VlUnpacked<|VlWide<|CData|SData|IData|QData)[^()\n]*/\*\d+:0\*/[^()\n]*;$)", re.M)
BYTES = {"CData": 1, "SData": 2, "IData": 4, "QData": 8}
INPUT_LOGIC = re.compile(r"^void \w+___(?:eval_ico|ico_\w+)\(.*?^\}", re.S | re.M)


def size(member):
    """Bytes of a model's member, by its declaration."""
    wide = re.search(r"VlWide<(\d+)>", member)
    count = 4 * int(wide[1]) if wide else next(n for name, n in BYTES.items() if name in member)
    for length in re.findall(r", (\d+)(?=>)", member):
        count *= int(length)
    return count


def align(header):
    """How many members of the model begin at a cache line now."""
    text = header.read_text()
    count = 0

    def at_a_line(match):
        nonlocal count
        member = text[match.end() : text.index(";", match.end())]
        if size(member) < 64:
            return match[0]
        count += 1
        return f"{match[0]}alignas(64) "

    if "alignas(64) V" not in text:
        header.write_text(MEMBER.sub(at_a_line, text))
    return count


def whole(width):
    return width in (8, 16) or width % 32 == 0


def main(folder):
    trimmed = 0

    def keep_declaration(match):
        nonlocal trimmed
        if not whole(int(match[2]) + 1):
            return match[0]
        trimmed += 1
        return match[1]

    texts = {path: path.read_text() for path in sorted(Path(folder).glob("Vchip*.cpp"))}
    logic = [part for text in texts.values() for part in INPUT_LOGIC.findall(text)]
    port = next(filter(None, map(PORT.search, logic)), None)  # only with --sc
    clk, copy = (port[1], port[0] + " ") if port else ("vlSelfRef.clk", "")
    reads_clk = any(re.search(r"(\b|__)clk\b", LATCH.sub("", PORT.sub("", part))) for part in logic)
    header = Path(folder) / "Vchip__pch.h"
    if port and "STATIC_WIDE" not in header.read_text():
        header.write_text(
            header.read_text().replace("#endif  // guard", "// STATIC_WIDE" + STATIC_WIDE + "#endif  // guard")
        )
    guarded = 0
    for path, text in texts.items():
        new = WIDE.sub(keep_declaration, ARRAY.sub(keep_declaration, text))
        if not reads_clk:
            new, count = INPUT_LOOP.subn(lambda m: f"{m[1]}    {copy}if (!{clk}) {m[2]}", new)
            guarded += count
        if new != text:
            path.write_text(new)
    lines = align(Path(folder) / "Vchip___024root.h")
    print(
        f"trim.py: {trimmed} zeroings taken out, input logic {'once' if guarded else 'twice'} a cycle, {lines} members "
        "begin at cache lines"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
