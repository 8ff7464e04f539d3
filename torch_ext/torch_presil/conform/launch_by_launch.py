# SPDX-License-Identifier: Apache-2.0
"""A process of the check two-processes: a launch whenever it is told to, on a device that stays open.

usage: launch_by_launch.py LIBRARY CHIP|- DESCRIPTION|- SEED
Says "ready" behind a first launch; then, for each line of its input, a launch with other data is compared with the
reference: its cycles, or what was wrong.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from conform import chip_checks, description  # noqa: E402
from conform.checks import Failed  # noqa: E402
from conform.context import Context  # noqa: E402
from conform.driver_api import DeviceError  # noqa: E402


def main(library: str, chip: str, described: str, seed: str) -> None:
    context = Context(Path(library), chip=None if chip == "-" else Path(chip))
    context.description = None if described == "-" else description.read(Path(described))
    with chip_checks._open(context) as device:
        work = chip_checks._small_work(context, device)

        def said(number: int) -> str:
            try:
                with chip_checks._bench(context, device) as bench:
                    return str(work.run(bench, number).cycles)
            except (Failed, DeviceError) as error:
                return " ".join(str(error).split())

        first = said(int(seed))
        print("ready" if first.isdigit() else first, flush=True)
        for number, _ in enumerate(sys.stdin, int(seed) + 1):
            print(said(number), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
