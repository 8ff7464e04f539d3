# SPDX-License-Identifier: Apache-2.0
"""A process that runs entries: a JSON line in for each task, a JSON line out with what failed.

Before every check it writes into the file `progress` (memory mapped) where it is, so that the pool can name what
crashed or hangs.
"""

import itertools
import json
import mmap
import os
import sys
import time
import traceback

import torch

from . import checks
from .products import Launches

DTYPES = {str(d).split(".")[1]: d for d in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool)}
PROGRESS_BYTES = 256


def entries() -> dict:
    """Name (with its variant after a dot) -> OpInfo, of PyTorch's operator database."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.name + ("." + op.variant_test_name if op.variant_test_name else ""): op for op in op_db}


def declared(op, dtype: torch.dtype) -> bool:
    """Whether the entry counts for this dtype: it declares it on the CPU."""
    return dtype in op.supported_dtypes("cpu")


class Progress:
    def __init__(self, path: str):
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), PROGRESS_BYTES)
        self.count = 0

    def __call__(self, text: str) -> None:
        self.count += 1
        self.map[:] = f"{self.count} {text}".encode()[:PROGRESS_BYTES].ljust(PROGRESS_BYTES)


def run_entry(
    op, dtype: torch.dtype, progress: Progress, only: tuple = (), first: int = 0, every: int = 1, seed: int = 0
) -> dict:
    """Samples and failures of one entry. only: check names (default: all); samples first, first + every, ... are
    run."""
    started = time.process_time()
    result = {"samples": 0, "ran": {}, "failed": {}}
    wanted = lambda check: not only or check in only

    def note(check, index, difference):
        result["ran"][check] = result["ran"].get(check, 0) + 1
        if difference:
            result["failed"].setdefault(check, {})[index] = difference

    with Launches() as launches:
        checker = checks.Checker(op, dtype, launches, seed)
        torch.manual_seed(seed)
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
        result["samples"] = len(samples)
        for index in range(first, len(samples), every):
            sample = samples[index]
            progress(f"{index} forward")
            difference, expected = checker.forward(sample)
            note("forward", index, difference)
            if wanted("view"):
                progress(f"{index} view")
                note("view", index, checker.view(sample))
            if wanted("noncontiguous"):
                progress(f"{index} noncontiguous")
                note("noncontiguous", index, checker.noncontiguous(sample))
            if wanted("inplace") and op.inplace_variant is not None and isinstance(sample.input, (torch.Tensor, list)):
                progress(f"{index} inplace")
                note("inplace", index, checker.inplace(sample))
            if wanted("out") and op.supports_out and expected.error is None and checks.takes_out(expected.value):
                progress(f"{index} out")
                note("out", index, checker.out(sample, expected.value))
        if (
            wanted("grad")
            and dtype == torch.float32
            and op.supports_autograd
            and dtype in op.supported_backward_dtypes("cpu")
        ):
            torch.manual_seed(seed)
            for index, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
                if index % every != first % every or index < first:
                    continue
                progress(f"{index} grad")
                note("grad", index, checker.grad(sample))
        if wanted("error") and dtype == torch.float32 and op.error_inputs_func is not None:
            torch.manual_seed(seed)
            for index, case in enumerate(itertools.islice(op.error_inputs("cpu"), first, None, every)):
                progress(f"{index} error")
                note("error", index, checker.forward(case.sample_input)[0])
    result["seconds"] = round(time.process_time() - started, 3)
    return result


def main() -> None:
    progress = Progress(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print goes to the log
    checks.quiet()
    torch.set_num_threads(1)
    known = entries()
    torch.ones(1, device=checks.DEVICE)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        progress("0 samples")
        checks.quiet()
        try:
            result = run_entry(
                known[task["entry"]],
                DTYPES[task["dtype"]],
                progress,
                tuple(task.get("only", ())),
                task.get("first", 0),
                task.get("every", 1),
                task.get("seed", 0),
            )
        except Exception:  # of the runner itself, or of the entry's sample function
            result = {
                "samples": 0,
                "ran": {"runner": 1},
                "failed": {"runner": {0: traceback.format_exc()[-1500:]}},
                "seconds": 0,
            }
        print(json.dumps(task | result), file=answers, flush=True)


if __name__ == "__main__":
    main()
