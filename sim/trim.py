#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes needless work out of the C++ that Verilator generated for a fast build.

usage: trim.py DIR        (edits DIR/Vchip*.cpp in place)

1. Verilator zeroes every local array of an inlined function, and every wide value that a memory may be written with, on every evaluation, used or not. The
   latter are only read where they were set. Reading the former before writing it would be reading X in Verilog; the check build, which is not
   trimmed, starts them with random values, so RTL that depends on them differs there. Only element widths without unused bits are trimmed:
   the bits above a width have to stay 0.
2. Each evaluation begins with the logic between inputs and registers. The harness evaluates with clk low after every change of an input, so that the
   evaluation with clk high, which changes nothing else, need not do it again. Left alone if that logic reads clk.
"""
import re
import sys
from pathlib import Path

# (declaration)(width-1)(name) and what zeroes it
NAME = r"(__V(?:func_|task_|dlyVal__)\w+)"
ARRAY = re.compile(r"(    VlUnpacked<[^;]*?/\*(\d+):0\*/[^;]*> " + NAME + r";\n)    for \(int __Vi0 = 0; __Vi0 < \d+; \+\+__Vi0\) \{\n        \3\[__Vi0\] = 0;\n    \}\n")
WIDE = re.compile(r"(    VlWide<\d+>/\*(\d+):0\*/ " + NAME + r";\n)    VL_ZERO_W\(\d+, \3\);\n")
INPUT_LOOP = re.compile(r"(    vlSelfRef\.__VicoFirstIteration = 1U;\n)    (do \{\n.*?\n    \} while \(vlSelfRef\.__VicoPhaseResult\);\n)", re.S)
INPUT_LOGIC = re.compile(r"^void \w+___(?:eval_ico|ico_\w+)\(.*?^\}", re.S | re.M)


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
    reads_clk = any(re.search(r"\bclk\b", logic) for text in texts.values() for logic in INPUT_LOGIC.findall(text))
    guarded = 0
    for path, text in texts.items():
        new = WIDE.sub(keep_declaration, ARRAY.sub(keep_declaration, text))
        if not reads_clk:
            new, count = INPUT_LOOP.subn(r"\1    if (!vlSelfRef.clk) \2", new)
            guarded += count
        if new != text:
            path.write_text(new)
    print(f"trim.py: {trimmed} zeroings taken out, input logic {'once' if guarded else 'twice'} a cycle")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
