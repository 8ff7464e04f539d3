#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a port map and the ports of a chip's top (docs/ports.md), and writes what the simulators are made of.

usage: ports.py --top TOP [--map FILE] [--set "KEY = VALUE"]... [--parameter NAME=VALUE]... --out DIR
                -- ARGUMENTS OF VERILATOR

In DIR: presil_ports.sv (the module presil_ports around TOP), chip_ports.h,
and presil_ports_dpi_top.sv. Ends with a text that names the key
of the map, what was found and what was expected, where they don't fit together.
"""

import argparse
import os
import sys
from pathlib import Path

import port_map
import rtl_ports
import wrapper


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(arguments):
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--top", required=True)
    parser.add_argument("--map")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--parameter", action="append", default=[])
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--verilator", default=os.environ.get("PRESIL_VERILATOR", "verilator"))
    options = parser.parse_args(arguments[:split])
    parameters = dict(p.split("=", 1) for p in options.parameter)
    try:
        given = [*(f"-G{name}={value}" for name, value in parameters.items()), *arguments[split + 1 :]]
        ports = rtl_ports.read_ports(options.verilator, options.top, given)
        tables = port_map.load(options.map, options.set)
        signals = rtl_ports.read_signals(options.verilator, options.top, given)
        found, unused = port_map.understand(tables, options.top, ports, signals)
    except (port_map.MapError, rtl_ports.RtlError) as error:
        sys.exit(f"{options.map or 'port map'}: {error}")
    options.out.mkdir(parents=True, exist_ok=True)
    module = wrapper.Wrapper(options.top, parameters, ports, found)
    write(options.out / "presil_ports.sv", module.text())
    write(options.out / "presil_ports_dpi_top.sv", module.testbench())
    write(
        options.out / "chip_ports.h",
        "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by sim/ports/ports.py. */\n"
        f"#define PRESIL_SIM_REGISTER_BYTES {found.registers.settings['bytes']:#x}u\n",
    )
    if not signals:
        print(f"{options.top}: too large to look at: whether clocks and resets are as the map says was not checked")
    if unused:
        print(f"{options.top}: outputs left open: {', '.join(unused)}")


if __name__ == "__main__":
    main(sys.argv[1:])
