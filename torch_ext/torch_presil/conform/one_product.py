# SPDX-License-Identifier: Apache-2.0
"""A process of the check two-processes: runs a product three times, prints its cycles.

usage: one_product.py LIBRARY CHIP|- DESCRIPTION|-
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from conform import chip_checks, description  # noqa: E402
from conform.context import Context  # noqa: E402


def main(library: str, chip: str, described: str) -> None:
    context = Context(Path(library), chip=None if chip == "-" else Path(chip))
    context.description = None if described == "-" else description.read(Path(described))
    with chip_checks._open(context) as device, chip_checks._bench(context, device) as bench:
        work = chip_checks._small_work(context, device)
        cycles = {work.run(bench).cycles for _ in range(3)}
    print(*sorted(cycles))


if __name__ == "__main__":
    main(*sys.argv[1:])
