# SPDX-License-Identifier: Apache-2.0
"""The way of wrong data, where the model tells that a launch is wrong: the first command behind which the chip has
something else, and each memory of the chip through which that goes (presil-replay --bisect)."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import replay


def rows(found: dict) -> list[dict]:
    """The steps in their order, at last the beat on the bus: {"behind", "memory", "where", "values"}."""
    out = [
        {
            "behind": f"{step['command']}, {step['name']}",
            "memory": step["memory"],
            "where": step["where"],
            "values": f"0x{step['found']:02x}, 0x{step['expected']:02x} expected",
        }
        for step in found["way"]
    ]
    if bus := found["bus"]:
        where = f"0x{bus['address']:x}: {bus['where']}"
        out.append({"behind": "", "memory": "bus", "where": where, "values": f"written in cycle {bus['cycle']}"})
    return out


def table(found: dict) -> Table:
    title = f"The way of wrong data: command {found['command']} of {found['commands']} is the first, {found['name']}"
    out = Table(title=escape(title), title_justify="left")
    for name in ("behind command", "memory", "first wrong byte", "it has"):
        out.add_column(name, overflow="fold")
    for row in rows(found):
        out.add_row(*(escape(row[name]) for name in ("behind", "memory", "where", "values")))
    return out


def run(chosen: replay.Chosen, console: Console) -> dict:
    """What presil-replay --bisect says of the launch on the simulator of which waveforms are made."""
    found = replay.run(chosen, "--bisect", "--build", "trace", quiet=True)
    if found["command"] is None:
        console.print("no command differs: RTL and model agree behind each", highlight=False)
        return found
    console.print(table(found))
    if found["error"] and not found["way"]:
        console.print(escape(found["error"]), highlight=False, soft_wrap=True)
    return found
