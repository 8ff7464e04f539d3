# SPDX-License-Identifier: Apache-2.0
"""What several commands share: the terminal, options, exit codes."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console

__all__ = ["EXIT_FAILURE", "EXIT_MISMATCH", "EXIT_USAGE", "farm_option", "interrupted", "own_simulator",
           "transport_option", "use", "wide_console", "write_json"]  # fmt: skip

EXIT_MISMATCH, EXIT_USAGE, EXIT_FAILURE = 1, 2, 4


def wide_console() -> Console:
    """Of the terminal's width, but never so narrow that the table is cut; `mine.py:train:` is no picture of a train."""
    console = Console(emoji=False)
    return console if console.width >= 120 else Console(width=120, emoji=False)


def write_json(path: str | None, value: dict) -> None:
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(value, indent=1) + "\n")


transport_option = click.option(
    "--transport",
    default=None,
    metavar="TRANSPORT",
    help="inproc, or socket:PATH[,copy][,timeout=SECONDS]: the chip is in another process. [default: "
    "PRESIL_TRANSPORT, or inproc]",
)


farm_option = click.option(
    "--farm",
    default=None,
    metavar="FARM",
    help="The RTL runs on many machines: dask://HOST:PORT, slurm,queue=NAME,..., local; the twin is always compared "
    "(docs/farm.md).",
)


def own_simulator(chip: str | None, transport: str | None) -> None:
    """Before the first run of an installed package: the simulator built for this machine, if it can be; none where
    the chip is in another process."""
    from torch_presil import _C, simulators

    if (transport or _C.get_transport()) != "inproc":
        return
    name = chip or _C.get_chip()
    if name and simulators.ensure(name):
        simulators.use()


def use(transport: str | None) -> None:
    from torch_presil import _C

    if transport:
        _C.set_transport(transport)


def interrupted(console: Console) -> None:
    console.print("interrupted; nothing was written", style="yellow")
    sys.exit(130)
