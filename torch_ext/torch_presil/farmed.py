# SPDX-License-Identifier: Apache-2.0
"""A forward whose launches run on a farm (docs/farm.md): the twin answers here, and its launches are kept as a bundle;
workers replay that on the RTL, and what they count is booked as if it had run here. A difference is an error."""

import tempfile
import time
from pathlib import Path

import torch

from torch_presil import _C
from torch_presil.bundle import Bundle
from torch_presil.device.capture import capture
from torch_presil.regress.exit_codes import UsageError

__all__ = ["check", "forward"]

VERIFY = 2  # presil_mode
COUNTED = ("segments", "fill", "drain", "read_bytes", "write_bytes", "read_beats", "write_beats", "sim_ns", "counters")


def check(options) -> None:
    """What can be refused without device and model."""
    from torch_presil.regress.farm import address

    try:
        address.parse(options.farm)
    except UsageError as error:
        raise ValueError(str(error)) from error
    if options.mode not in ("rtl", "verify"):
        raise ValueError(f"--farm is for the RTL: mode {options.mode!r} does not run it there; use 'rtl' or 'verify'")
    if options.alone() or options.distinct or options.batches:
        raise ValueError(
            "--farm runs whole forwards: it can't be combined with --layers, --trace, --capture or --batches"
        )
    if (options.transport or _C.get_transport()) != "inproc":
        raise ValueError("--farm runs simulators of its own: no --transport with it")


def forward(options, once, collected) -> tuple:
    """once() -> (output, Seconds): a forward on the twin. Returns output, reports, Seconds."""
    from torch_presil.regress.farm import bundle_parts

    if options.quiet != "model":
        raise ValueError("--farm: the chip has no model in C, and without one its launches can't be told to a farm")
    with tempfile.TemporaryDirectory(prefix="presil-farm-") as place:
        bundle = Path(place, "launches.presil")
        try:
            options.tell("starting the farm")
            facts = (_C.get_chip(), _C.get_build(), options.jobs or None)
            with bundle_parts.opened(options.farm, bundle, *facts, options.tell) as farm:
                return _forward(options, once, collected, bundle, farm)
        except UsageError as error:
            raise ValueError(str(error)) from error


def _forward(options, once, collected, bundle: Path, farm) -> tuple:
    _C.set_mode("model")
    options.tell("forward")
    began = time.perf_counter()
    with capture(bundle):
        out, seconds = once()
        taken = collected.take()
    _check_same(taken, bundle)
    options.tell("on the farm", 0, len(taken))
    rows = farm.run([r["macs"] for r in taken], lambda done: options.tell("on the farm", done, len(taken)))
    _raise_first(rows, bundle)
    if len(rows) != len(taken):
        raise RuntimeError(f"presil: the farm has run {len(rows)} of {len(taken)} launches")
    seconds.all = time.perf_counter() - began
    seconds.jobs = {"jobs": farm.workers, "peak_bytes": bundle.stat().st_size}
    options.mode, options.jobs = "verify", farm.workers
    return out, [booked(r, row) for r, row in zip(taken, rows, strict=True)], seconds


def _check_same(taken: list, bundle: Path) -> None:
    """Reports and the bundle are of the same launches, in the same order."""
    with Bundle(bundle) as reader:
        labels = [launch.label for launch in reader.launches()]
    if [r["label"] for r in taken] != labels:
        raise RuntimeError(f"presil: the bundle has {len(labels)} launches, other ones than the {len(taken)} reports")


def booked(report: dict, row: dict) -> dict:
    """The twin's report with what the RTL counted."""
    counted, commands = row["counted"], torch.presil.chip_names().get("commands")
    stalls = {
        engine: {cause: row["stalls"].get(engine, {}).get(cause, 0) for cause in causes}
        for engine, causes in report["stalls"].items()
    }
    told = {name: counted[name] for name in COUNTED}
    told |= {commands: counted["commands"]} if commands else {}
    return {**report, **told, "mode": VERIFY, "cycles": row["cycles"] or 0, "stalls": stalls, "verified": 1}


def _raise_first(rows: list, bundle: Path) -> None:
    wrong = next((row for row in rows if row["outcome"] != "pass"), None)
    if wrong is None:
        return
    difference, status = wrong["difference"], wrong["status"]
    text = wrong["error"] or wrong["outcome"]
    if difference:
        status = "EMISMATCH"
        text = "RTL and model differ: {where}, at 0x{address:x}: 0x{found:02x}, 0x{expected:02x} expected".format_map(
            difference
        )
    with Bundle(bundle) as reader:
        labels = {pair.key: pair.value for pair in reader.launch(wrong["launch"]).labels}
    origin = f"\nlaunched by {labels['file']}" if labels.get("file") else ""
    kept = _kept(bundle, wrong["launch"])
    raise RuntimeError(f"presil: on the farm: {wrong['label']}: {text} [{status}]{kept}{origin}")


def _kept(bundle: Path, launch: int) -> str:
    """As torch.presil.capture_failures has it."""
    folder = _C.capture_failures()
    if not folder:
        return ""
    to = Path(folder, f"farm-{time.time_ns()}.presil")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(bundle.read_bytes())
    return f"; kept in {to}, launch {launch}"
