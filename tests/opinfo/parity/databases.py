# SPDX-License-Identifier: Apache-2.0
"""What the runners of PyTorch's databases share: one call on either device, and the two questions that end a run."""

import os
from pathlib import Path

from . import expected
from .checks import call, same_error
from .products import Launches


# Of the inputs that are many, one of so many runs; which, the day says (tests/stages.toml, docs/testing.md).
EVERY = int(os.environ.get("PRESIL_OPINFO_EVERY", "1"))
FIRST = int(os.environ.get("PRESIL_DAY", "0")) % EVERY


def difference(run, launches: Launches, compared) -> str | None:
    """run("cpu"), then run("presil"): the same type of exception, or what compared(got, reference, launched) finds.
    launched: whether the device's run launched on the chip."""
    reference = call(run, "cpu")
    launches.count()
    got = call(run, "presil")
    launched = launches.count() > 0
    if reference.error is not None or got.error is not None:
        return same_error(got.error, reference.error)
    return compared(got.value, reference.value, launched)


def note(answer: dict, check: str, index: int, text: str | None) -> None:
    """Counts a run of one input into an answer of the form that expected.judge takes."""
    answer["ran"][check] = answer["ran"].get(check, 0) + 1
    if text:
        answer["failed"].setdefault(check, {})[str(index)] = text


def answer_for(entry: str, dtype: str, first: int = 0, every: int = 1) -> dict:
    return {"entry": entry, "dtype": dtype, "first": first, "every": every, "inputs": 0, "ran": {}, "failed": {}}


def chosen(answer: dict, index: int) -> bool:
    """Counts an input; whether it belongs to the answer's share."""
    answer["inputs"] += 1
    return index % answer["every"] == answer["first"]


def assert_counted(answers: list[dict], what: str, counted: tuple[int, int]) -> None:
    """counted: entries, and their inputs."""
    entries, inputs = len({a["entry"] for a in answers}), sum(a["inputs"] for a in answers)
    ran = sum(sum(a["ran"].values()) for a in answers)
    failed = sum(len(cases) for a in answers for cases in a["failed"].values())
    print(f"{entries} {what}, {ran} of {inputs} inputs ran, {100 * (1 - failed / ran):.2f} % pass")
    assert (entries, inputs) == counted and ran >= inputs // (2 * EVERY)


def assert_as_expected(answers: list[dict], path: Path, seed: int) -> None:
    lines = expected.judge(answers, expected.load(path))
    assert not lines, f"{len(lines)} not as {path.name} says (seed {seed}):\n" + "\n".join(lines[:60])
