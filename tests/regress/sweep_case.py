#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kind "sweep" of presil regress: every SHARE-th operator of the sweep of tests/bits on one chip, build and memory:
RTL = twin on every byte, = oracle on what it gives."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench import driver, kept  # noqa: E402
from bench.supplied import failures_against  # noqa: E402
from bits.generate import cases  # noqa: E402
from bits.sweep import Counts, OracleDiffers, Run, check  # noqa: E402
from bits.test_sweep import CASES, LIMITS  # noqa: E402
from oracle.layout import config, generated  # noqa: E402
from regress import reporting  # noqa: E402

STATUS = {-8: reporting.HANG, -11: reporting.MISMATCH}  # EHUNG, EMISMATCH; the others: the machinery
ENGINES = ("load", "matrix", "epilogue", "store", "vector")  # as launch reports have them


def label(number: int) -> str:
    """Of a case's launches: the baseline of cycles and the bundle have the same, so that one is found in the other."""
    return f"sweep {number + 1}"


class Taken:
    """Cycles and their causes of each launch."""

    def __init__(self, chip: str):
        self.cycles, self.launches, self.clock = 0, {}, config(chip).clock_mhz
        self.names = {value: name.lower() for name, value in generated().ENUMS["CAUSE"].items()}

    def add(self, reports) -> None:
        for report in reports:
            stalls = {
                engine: {name: causes[cause] for cause, name in self.names.items() if causes[cause]}
                for engine, causes in zip(ENGINES, report.stalls)
            }
            self.cycles += report.cycles
            name = report.label.decode()
            again = sum(other.partition("#")[0] == name for other in self.launches)
            name = f"{name}#{again + 1}" if again else name
            self.launches[name] = {"cycles": report.cycles, "stalls": stalls}

    def told(self, counts: Counts) -> dict:
        told = {"cycles": self.cycles, "clock_mhz": self.clock, "launches": self.launches}
        return {**told, "checks": counts.confirmed, "captures": True}


def load_driver() -> None:
    """The build's own, also where PRESIL_LIBRARY_PATH names folders of simulators (--library)."""
    places = os.environ.pop("PRESIL_LIBRARY_PATH", None)
    driver.LIB = driver._load()
    if places:
        os.environ["PRESIL_LIBRARY_PATH"] = places


def keep(args, memory: str, chosen: list, path: str) -> None:
    """Instead of the case: its launches as a bundle, by the model (docs/regress.md, PRESIL_REGRESS_CAPTURE)."""
    with driver.Device(args.chip, "model", args.build, memory, args.seed) as device:
        captured = kept.Captured(device, path, failures=False)
        for number, case in enumerate(chosen):
            check(device, case, Counts(), verify=False, oracle=False, label=label(number))
        captured.close()


def keep_difference(args, memory: str, case, right) -> str:
    """A bundle of an operator on which RTL and model agree, and the oracle does not: compared with the oracle. What the
    driver says of it."""
    if not kept.folder():
        return ""
    with driver.Device(args.chip, "verify", args.build, memory, args.seed) as device:
        run = Run(device, case)
        with failures_against(device, lambda: (run.address, run.in_memory(right)), kept.folder()):
            try:
                run.run(Counts())
            except driver.PresilError as error:
                return str(error)
    return "no bundle: it is the oracle's when it runs alone"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--chip", "--build", "--memory"):
        parser.add_argument(name, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--share", type=int, default=12)
    args = parser.parse_args()
    memory = "" if args.memory == "default" else args.memory
    macs, count = LIMITS.get(args.chip, 200_000), CASES.get(args.chip, 300)
    chosen = cases(args.chip, args.seed, count, macs)[args.seed % args.share :: args.share]
    counts, taken = Counts(), Taken(args.chip)
    load_driver()
    if path := os.environ.get("PRESIL_REGRESS_CAPTURE"):
        keep(args, memory, chosen, path)
        reporting.finish(0)
    original = driver.Device.synchronize

    def synchronize(self):
        reports = original(self)
        taken.add(reports)
        return reports

    driver.Device.synchronize = synchronize
    try:
        device = driver.Device(args.chip, build=args.build, memory_model=memory, seed=args.seed)
    except driver.PresilError as error:
        reporting.finish(reporting.USAGE, message=reporting.first_line(error))
    with device, kept.failures_of(device):
        for number, case in enumerate(chosen):
            print(f"{number + 1}/{len(chosen)} {case.describe()}", flush=True)
            if most := reporting.limit():
                device.set_timeout(max(most - taken.cycles, 1))  # for a launch that never ends
            try:
                check(device, case, counts, verify=True, label=label(number))
            except OracleDiffers as error:
                told = taken.told(counts)
                print(keep_difference(args, memory, case, error.right), flush=True)
                reporting.finish(1, message=reporting.first_line(error), unit=case.kind, **told)
            except AssertionError as error:
                reporting.finish(1, message=reporting.first_line(error), unit=case.kind, **taken.told(counts))
            except driver.PresilError as error:
                status = STATUS.get(error.status, reporting.INTERNAL)
                reporting.finish(status, message=reporting.first_line(error), unit=case.kind, **taken.told(counts))
            if text := reporting.over(taken.cycles):
                reporting.finish(reporting.HANG, message=text, unit=case.kind, **taken.told(counts))
    reporting.finish(0, **taken.told(counts))


if __name__ == "__main__":
    main()
