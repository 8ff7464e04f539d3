#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An entity in VHDL-2008, and what is below it, as Verilog: by ghdl's synthesis.

usage: vhdl.py GHDL ENTITY OUT GENERICS FILES...     GENERICS: "-gWORD=16 -gDEPTH=4", or ""

ghdl 2.0 (Debian 12) writes what `when others` selects into its VHDL, and not into its Verilog, where a latch comes of
it. So both are asked for, with the same names for the same nets, and the one completes the other.
"""

import re
import subprocess
import sys
from pathlib import Path

SELECTION = re.compile(r"with \S+ select (\S+) <=([^;]*?)([^,;]+?) when others;", re.S)
CASE = re.compile(r"^( *)case \((?:[^()]|\([^()]*\))*\)\n(.*?)^ *endcase$", re.M | re.S)
ARM = re.compile(r"^ *\S+: (\S+) <= ", re.M)
PLACE = re.compile(r"\n *(//|/\*) [^\n]*:\d+:\d+[^\n]*")  # in the sources: the same text wherever these lie


class NotTranslated(Exception):
    """ghdl refuses it, or its output is not understood."""


def synthesis(ghdl: str, entity: str, generics: list, files: list, language: str) -> str:
    command = [ghdl, "--synth", "--std=08", f"--out={language}", *generics, *files, "-e", entity]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        raise NotTranslated(f"it takes what can be synthesized, VHDL-2008:\n{done.stderr.strip()}")
    return done.stdout


def in_verilog(value: str) -> str:
    """A net or a constant of ghdl's VHDL."""
    value = value.strip()
    if constant := re.fullmatch(r"\"([01XxZz]+)\"|'([01XxZz])'", value):
        bits = (constant[1] or constant[2]).lower()
        return f"{len(bits)}'b{bits}"
    if many := re.fullmatch(r"\((\d+) downto 0 => '([01XxZz])'\)", value):
        return f"{{{int(many[1]) + 1}{{1'b{many[2].lower()}}}}}"
    if re.fullmatch(r"[a-z]\w*", value):
        return value.removeprefix("wrap_")  # a port of the entity
    raise NotTranslated(f"`when others` selects {value!r}: a net or a constant was expected")


def selections(vhdl: str) -> dict:
    """(module, net) -> what is selected where nothing else is."""
    out = {}
    for part in re.split(r"(?m)^architecture ", vhdl)[1:]:
        module = part.split(" of ", 1)[1].split()[0]
        for net, _, other in SELECTION.findall(part):
            out[module, net.removeprefix("wrap_")] = in_verilog(other)
    return out


def complete(verilog: str, others: dict) -> str:
    """With a default in every case."""
    parts = re.split(r"(?m)^(?=module )", verilog)
    for i, part in enumerate(parts[1:], 1):
        module = part.split()[1]

        def completed(case: re.Match) -> str:
            net = ARM.search(case[2])[1]
            if (module, net) not in others:
                raise NotTranslated(f"module {module}: ghdl does not tell what {net} is in all cases")
            return case[0].replace(
                f"{case[1]}endcase", f"{case[1]}  default: {net} <= {others[module, net]};\n{case[1]}endcase"
            )

        parts[i] = CASE.sub(completed, part)
    return "".join(parts)


def main(ghdl: str, entity: str, out: str, generics: str, *files: str) -> None:
    try:
        vhdl, verilog = (synthesis(ghdl, entity, generics.split(), files, to) for to in ("vhdl", "verilog"))
        Path(out).write_text(PLACE.sub("", complete(PLACE.sub("", verilog), selections(vhdl))))
    except (NotTranslated, OSError) as error:
        sys.exit(f"ghdl doesn't translate the VHDL entity {entity}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
