# SPDX-License-Identifier: Apache-2.0
"""Makes the bundle of a case of kind "layers", once: python -m torch_presil.regress.layers_case JSON. Then the process
becomes presil-replay on it, as later runs are from the start. Only the C model runs here: the RTL is no part of the
bundle."""

import json
import os
import sys
import time
import traceback
from pathlib import Path

from torch_presil.regress import exit_codes, made
from torch_presil.regress.cosim_case import finish


def make(task: dict, path: Path) -> int:
    """Captures the layers; how many launches."""
    import torch_presil  # noqa: F401
    from torch_presil import _C, cosim
    from torch_presil.inputs import parse_input

    _C.set_chip(task["chip"])
    _C.set_memory_model("", task["seed"])
    shapes = task["input"] or []
    shapes = [shapes] if isinstance(shapes, str) else shapes
    options = cosim.Options(
        task["model"],
        dtype=task["dtype"],
        mode="model",
        layers=task["layers"],
        distinct=True,
        weights=task["weights"],
        config=task["config"],
        inputs=tuple(map(parse_input, shapes)),
        seed=task["seed"],
        check_layers=False,
        baseline=False,
        capture_path=str(path),
        progress=lambda stage, done=0, of=0: print(f"{stage} {done + 1}/{of}" if of else stage, flush=True),
    )
    return cosim.run(options)["total"]["launches"]


def main(text: str) -> None:
    task = json.loads(text)
    path, started = Path(task["path"]), time.monotonic()
    try:
        with made.making(path) as temporary:
            if temporary is not None:
                count, seconds = make(task, temporary), time.monotonic() - started
                size = temporary.stat().st_size
                print(f"made {path.name}: {count} launches, {size / 1e6:.1f} MB, in {seconds:.1f} s", flush=True)
    except Exception as error:  # noqa: BLE001 every end of a case is a result
        traceback.print_exc()
        finish(*exit_codes.of_error(error))
    sys.stdout.flush()
    os.execv(task["then"][0], task["then"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(exit_codes.USAGE)
    main(sys.argv[1])
