#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes needless work out of the C++ that Verilator generated for a fast build: the zeroing of functions' local arrays.

usage: trim.py DIR        (edits DIR/Vchip*.cpp in place)

Verilator zeroes every local array of an inlined function on every evaluation, used or not: 2-4 % of a busy cycle, 10 % of an idle one. Reading such a local
before writing it would be reading X in Verilog; the check build, which is not trimmed, starts them with random values, so RTL that
depends on them differs there. Only element widths without unused bits are trimmed: the bits above a width have to stay 0.
"""
import re
import sys
from pathlib import Path

# (declaration)(width-1)(name) and what zeroes it
ARRAY = re.compile(r"(    VlUnpacked<[^;]*?/\*(\d+):0\*/[^;]*> (__V(?:func|task)_\w+);\n)    for \(int __Vi0 = 0; __Vi0 < \d+; \+\+__Vi0\) \{\n        \3\[__Vi0\] = 0;\n    \}\n")
WIDE = re.compile(r"(    VlWide<\d+>/\*(\d+):0\*/ (__V(?:func|task)_\w+);\n)    VL_ZERO_W\(\d+, \3\);\n")


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

    for path in sorted(Path(folder).glob("Vchip*.cpp")):
        text = path.read_text()
        new = WIDE.sub(keep_declaration, ARRAY.sub(keep_declaration, text))
        if new != text:
            path.write_text(new)
    print(f"trim.py: {trimmed} zeroings taken out")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
