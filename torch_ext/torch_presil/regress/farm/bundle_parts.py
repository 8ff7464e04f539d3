# SPDX-License-Identifier: Apache-2.0
"""A bundle on a farm: presil-replay runs parts of its launches as cases of kind "bundle", as a regression's."""

import contextlib
import json
import os
import time
from pathlib import Path

from .. import exit_codes
from ..exit_codes import Lost
from ..here import POLL_SECONDS
from ..kinds import build_directory
from ..outcome import Ended
from ..run_list import Job
from ..signatures import last_line
from . import machine

EACH = 4  # parts for each worker: nobody waits for long for the last one
UNKNOWN = 16  # workers of a queue that has started none yet


def parts(costs: list, count: int) -> list[range]:
    """At most `count` neighbours of about the same cost."""
    total, found, begin, sum_ = sum(costs) or 1, [], 0, 0.0
    for i, cost in enumerate(costs):
        sum_ += cost
        if sum_ * count >= total * (len(found) + 1) or i + 1 == len(costs):
            found.append(range(begin, i + 1))
            begin = i + 1
    return found


class Parts:
    """Of a bundle that need not be there yet."""

    def __init__(self, farm, job: Job, at_once: int | None):
        self.farm, self.job, self.folder = farm, job, Path(job.folder) / "parts"
        self.workers = farm.slots or at_once or UNKNOWN

    def run(self, costs: list, told) -> list[dict]:
        """The launches of presil-replay --json, in order; behind one that hangs some may be missing. told(launches)."""
        waiting, rows = parts(costs, EACH * self.workers), {}
        try:
            while waiting or self.farm.running:
                while waiting and len(self.farm.running) < self.farm.at_once:
                    self._begin(waiting.pop(0))
                found = self.farm.ended()
                for ended in found:
                    rows |= {row["launch"]: row for row in _rows(ended)}
                    told(len(rows))
                if not found:
                    time.sleep(POLL_SECONDS)
        except Lost as error:
            raise RuntimeError(f"presil: {error}") from error
        finally:
            self.farm.end_all()
        return [rows[i] for i in sorted(rows)]

    def _begin(self, part: range) -> None:
        words = ["--launches", f"{part.start}:{part.stop}"]
        job = Job.from_dict({**self.job.as_dict(), "parameters": {**self.job.parameters, "arguments": words}})
        folder = self.folder / str(part.start)
        folder.mkdir(parents=True)
        (folder / "log").touch()
        self.farm.begin(job, folder, folder / "log")


def _rows(ended: Ended) -> list[dict]:
    try:
        return json.loads((ended.folder / "result.json").read_text())["launches"]
    except (OSError, ValueError, KeyError):
        code = exit_codes.verdict(ended.returncode).text if ended.returncode else ""
        why = ended.lost or ended.reason or code or last_line(ended.log)
        where = f" on {ended.host}" if ended.host else ""
        raise RuntimeError(f"presil: launches from {ended.folder.name} on were not run{where}: {why}") from None


@contextlib.contextmanager
def opened(text: str, bundle: Path, chip: str, build: str, at_once: int | None, tell):
    """Raises UsageError. bundle: in a folder of its own."""
    facts = {"parameters": {"file": bundle.name, "mode": "rtl"}, "timeout_seconds": 0, "chip": chip, "build": build}
    job = Job("cosim", "launches", "bundle", str(bundle.parent), **facts, library=_library(chip, build))
    with machine.opened(text, [job], at_once, exit_codes.cores(), tell) as farm:
        yield Parts(farm, job, at_once)


def _library(chip: str, build: str) -> str:
    """Of a simulator that is not in the build, as PRESIL_LIBRARY_PATH has it: it goes along by itself."""
    name, own = f"libpresil_sim_{chip}_{build}.so", build_directory()
    places = [Path(place) for place in os.environ.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep) if place]
    found = [place / name for place in places if (place / name).is_file()]
    return str(found[0].resolve()) if found and (own is None or found[0].parent != own / "lib") else ""
