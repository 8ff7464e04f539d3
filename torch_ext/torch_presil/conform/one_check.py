# SPDX-License-Identifier: Apache-2.0
"""One check in a process of its own: prints its outcome as JSON on the last line of stdout.

usage: one_check.py CHECK LIBRARY CHIP|- DESCRIPTION|-
"""

import json
import os
import sys
import traceback
from pathlib import Path

if __package__:
    from . import description
    from .checks import CHECKS, Failed, Skipped
    from .context import Context
    from .register import load
else:  # run as a file, which spares importing torch
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from conform import description
    from conform.checks import CHECKS, Failed, Skipped
    from conform.context import Context
    from conform.register import load


def outcome(name: str, context: Context) -> dict:
    try:
        count = CHECKS[name].run(context)
    except Skipped as reason:
        return {"status": "skipped", "comparisons": 0, "text": str(reason)}
    except Failed as failure:
        return {"status": "failed", "comparisons": 0, "text": str(failure)}
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
        return {"status": "failed", "comparisons": 0, "text": text}
    if not count:
        return {"status": "failed", "comparisons": 0, "text": "nothing was compared"}
    return {"status": "passed", "comparisons": count, "text": "; ".join(context.notes)}


def main(name: str, library: str, chip: str, described: str) -> None:
    load()
    context = Context(Path(library), chip=None if chip == "-" else Path(chip))
    if chip != "-":  # this one, even if another lies beside the simulator
        os.environ["PRESIL_CHIP_LIBRARY"] = chip
    if described != "-":
        context.description = description.read(Path(described))
    print(json.dumps(outcome(name, context)))


if __name__ == "__main__":
    main(*sys.argv[1:])
