# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator database on the device beside the CPU: every sample of every entry that declares the dtype on
the CPU.

What counts: `op.supported_dtypes("cpu")` says which entries, `op.sample_inputs("cpu", dtype, requires_grad=False)`
which samples (not reference_inputs; scipy is installed, without which a few entries of special functions are
missing). Nothing is skipped. What a check is: parity/checks.py. PRESIL_OPINFO_EVERY=8 runs every 8th sample, from one
that the day chooses; PRESIL_QUICK=1 every 8th, and PRESIL_OPINFO_QUICK=int64,bool does so for these dtypes.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from parity import expected, pool, report
from parity.worker import DTYPES

SEED = int(os.environ.get("PRESIL_SEED", "0"))
EVERY = int(os.environ.get("PRESIL_OPINFO_EVERY", "1"))
DAY = int(os.environ.get("PRESIL_DAY", "0"))
COUNTS = {
    "float32": (677, 18762),
    "bfloat16": (551, 15849),
    "float16": (546, 15814),
    "int64": (468, 9302),
    "bool": (349, 3946),
}
# Percent of the samples whose forward passes, and of those whose every check passes.
TARGETS = {
    "float32": (99.5, 99.0),
    "bfloat16": (99.0, 99.0),
    "float16": (99.0, 99.0),
    "int64": (99.0, 99.0),
    "bool": (99.0, 99.0),
}


@pytest.fixture(scope="session")
def answers(request):
    quick = set(DTYPES) if os.environ.get("PRESIL_QUICK") else set(os.environ.get("PRESIL_OPINFO_QUICK", "").split(","))
    assert quick - {""} <= set(DTYPES), f"PRESIL_OPINFO_QUICK: expected names of {', '.join(DTYPES)}; found {quick}"
    shares = {d: 8 if d in quick else EVERY for d in DTYPES}
    print(f"\nseed {SEED}, day {DAY}, samples a run: one of {shares}", flush=True)
    tasks = [task for d, n in shares.items() for task in report.tasks([d], every=n, first=DAY % n, seed=SEED)]

    def told(done, of, answer):
        if done % 100 == 0:
            print(f"  {done} of {of}: {answer['dtype']} {answer['entry']}", flush=True)

    result = pool.run(tasks, told=told)
    print("\n".join(report.summary(result)), flush=True)
    return result


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_every_entry_and_sample_is_there(answers, dtype):
    counted = Counter(a["dtype"] for a in answers)[dtype], sum(a["samples"] for a in answers if a["dtype"] == dtype)
    assert counted == COUNTS[dtype]


def test_no_crash_and_no_hang(answers):
    assert [f"{a['dtype']} {a['entry']}: {a['crash']}" for a in answers if "crash" in a] == []


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_what_fails_is_what_is_expected(answers, dtype):
    lines = expected.judge(
        [a for a in answers if a["dtype"] == dtype], expected.load(Path(__file__).with_name("expectations.toml"))
    )
    assert not lines, f"{len(lines)} not as tests/opinfo/expectations.toml says (seed {SEED}):\n" + "\n".join(
        lines[:60]
    )


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_percentages(answers, dtype):
    table = report.percentages(answers)[dtype]
    print(report.summary([a for a in answers if a["dtype"] == dtype])[0])
    assert table["forward"] >= TARGETS[dtype][0] and table["all"] >= TARGETS[dtype][1], table
