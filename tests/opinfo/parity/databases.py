# SPDX-License-Identifier: Apache-2.0
"""What the runners of PyTorch's databases share: one call on either device, and the two questions that end a run."""

from pathlib import Path

from . import expected
from .checks import call, same_error
from .products import Launches


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


def answer_for(entry: str, dtype: str) -> dict:
    return {"entry": entry, "dtype": dtype, "first": 0, "every": 1, "ran": {}, "failed": {}}


def assert_counted(answers: list[dict], what: str, counted: tuple[int, int]) -> None:
    """counted: entries, and runs of their inputs."""
    entries, ran = len({a["entry"] for a in answers}), sum(sum(a["ran"].values()) for a in answers)
    failed = sum(len(cases) for a in answers for cases in a["failed"].values())
    print(f"{entries} {what}, {ran} runs, {100 * (1 - failed / ran):.2f} % pass")
    assert (entries, ran) == counted


def assert_as_expected(answers: list[dict], path: Path, seed: int) -> None:
    lines = expected.judge(answers, expected.load(path))
    assert not lines, f"{len(lines)} not as {path.name} says (seed {seed}):\n" + "\n".join(lines[:60])
