# SPDX-License-Identifier: Apache-2.0
"""One case of kind "cosim" in a process of its own: python -m torch_presil.regress.cosim_case JSON. Prints what it
does, writes PRESIL_REGRESS_RESULT, and ends with the exit codes of exit_codes.py."""

import contextlib
import json
import os
import re
import sys
import threading
import traceback
from pathlib import Path

from torch_presil.regress import exit_codes
from torch_presil.regress.recapture import CAPTURE, ONLY

TIMEOUT_TEXT = "time-out after {cycles:,} simulated cycles (timeout_cycles = {limit:,}), in {label}"


def finish(status: int, result: dict) -> None:
    path = os.environ.get("PRESIL_REGRESS_RESULT")
    if path:
        Path(path).write_text(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(status)  # a simulator that hangs must not be waited for


class Limit(threading.Thread):
    """Ends the process once the launches took more simulated cycles than they may."""

    def __init__(self, limit: int):
        super().__init__(daemon=True)
        self.limit, self.before, self.last = limit, 0, (0, 0)
        self.stop = threading.Event()

    def run(self) -> None:
        from torch_presil import _C

        while not self.stop.wait(0.05):
            label, launch, cycles = _C.progress()
            if launch != self.last[0]:
                self.before += self.last[1]
            self.last = (launch, cycles)
            if self.before + cycles > self.limit:
                text = TIMEOUT_TEXT.format(cycles=self.before + cycles, limit=self.limit, label=label or "no launch")
                print(text)
                finish(exit_codes.HANG, {"message": text, "unit": label, "cycles": self.before + cycles})


def launches(result: dict) -> dict:
    """Layer -> {"cycles", "stalls"}; a name that comes again gets a number."""
    out = {}
    for row in result["layers"]:
        if row["where"] != "chip" or row["cycles"] is None:
            continue
        name, count = row["name"], 1
        while name in out:
            count += 1
            name = f"{row['name']}#{count}"
        out[name] = {"cycles": row["cycles"], "stalls": row["stalls"]}
    return out


def judge(result: dict, task: dict) -> tuple[int, dict]:
    rows = [row for row in result["layers"] if row["where"] == "chip"]
    told = {"launches": launches(result), "captures": True}
    told["checks"] = sum(row["bit_exact"] is True for row in rows)
    told["cycles"] = sum(launch["cycles"] for launch in told["launches"].values())
    told["clock_mhz"] = result.get("properties", {}).get("clock_mhz")
    if task["mode"] != "verify":
        told["checks"] = len(rows)
    if task["mode"] == "hybrid":
        told |= {name: result["total"][name] for name in ("store_hits", "sampled")}
    wrong = [row for row in rows if row["bit_exact"] is False]
    if wrong:
        text = (wrong[0]["differences"] or ["not compared"])[0]
        told |= {"unit": wrong[0]["name"], "message": f"RTL and model differ: {text}", "wrong": len(wrong)}
        return exit_codes.MISMATCH, told
    limit = task["timeout_cycles"]
    if limit and told["cycles"] > limit:
        told["message"] = TIMEOUT_TEXT.format(cycles=told["cycles"], limit=limit, label="all launches")
        return exit_codes.HANG, told
    return exit_codes.PASS, told


def options_of(task: dict, capture: str | None = None):
    """capture: the run is for a bundle of that path, and nothing is looked at; of a whole model main() makes it."""
    from torch_presil.cosim import Options
    from torch_presil.inputs import parse_input

    shapes = task["input"] or []
    shapes = [shapes] if isinstance(shapes, str) else shapes
    return Options(
        task["model"],
        dtype=task["dtype"],
        mode="model" if capture and task["mode"] in ("verify", "hybrid") else task["mode"],
        jobs=None if task["jobs"] and not capture else 1,
        most_jobs=task["jobs"],
        layers=task["layers"],
        distinct=task["distinct"],
        weights=task["weights"],
        config=task["config"],
        inputs=tuple(map(parse_input, shapes)),
        seed=task["seed"],
        check_layers=task["check"] and not capture,
        baseline=False,
        forwards=1 if capture else 2,
        capture_path=capture if capture and alone(task) else None,
        progress=lambda stage, done=0, of=0: print(f"{stage} {done + 1}/{of}" if of else stage, flush=True),
    )


def alone(task: dict) -> bool:
    return bool(task["layers"] or task["distinct"])


def keep(task: dict, path: str) -> None:
    """Instead of the case: its launches as a bundle, of a whole model those that are asked for (recapture.py)."""
    from torch_presil import _C, cosim
    from torch_presil.device.capture import capture
    from torch_presil.fused_layer import label

    options = options_of(task, path)
    _C.set_mode(options.mode)
    names = [re.escape(label(name)) for name in os.environ[ONLY].splitlines()]
    whole = contextlib.nullcontext() if alone(task) else capture(path, labels=f"^({'|'.join(names)})$")
    with whole:
        cosim.run(options)


def main(text: str) -> None:
    task = json.loads(text)
    import torch
    import torch_presil  # noqa: F401
    from torch_presil import _C, cosim

    _C.set_memory_model(task["memory"], task["seed"])
    _C.set_unseen("simulate")  # a farm's machine has an environment of its own; estimates are compared with nothing
    print(f"chip {_C.get_chip()} build {_C.get_build()} memory {task['memory'] or 'default'} seed {task['seed']}")
    if path := os.environ.get(CAPTURE):
        keep(task, path)
        finish(exit_codes.PASS, {})
    if task["timeout_cycles"]:
        limit = Limit(task["timeout_cycles"])
        limit.start()
    if task["mode"] == "hybrid":
        share, seed = _C.get_store_sample(), _C.get_store_seed()
        print(f"timing store {_C.get_store()} sample {share:g} seed {seed}")
    labels = []
    try:
        with torch.presil.reports() as collected:
            result = cosim.run(options_of(task))
            labels = [(r["label"], r["segments"]) for r in collected.take() if r["cycles"]]
        print(f"processes {result['total']['jobs']}")
        status, told = judge(result, task)
    except Exception as error:  # noqa: BLE001 every end of a case is a result
        traceback.print_exc()
        status, told = exit_codes.of_error(error)
        told["store_differs"] = getattr(error, "error_code", None) == _C.status_codes()["ETIMING"]  # it was emptied
    told["labels"] = labels  # of the launches, for coverage
    if "message" in told:
        print(told["message"])
    print(f"RESULT {'PASS' if status == 0 else 'FAIL'} cycles={told.get('cycles', 0)} checks={told.get('checks', 0)}")
    finish(status, told)


if __name__ == "__main__":
    main(sys.argv[1])
