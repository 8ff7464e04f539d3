# SPDX-License-Identifier: Apache-2.0
"""The protocol checker of the platform's sockets: silent where both sides keep to the rules, and names the one that
is broken."""

import subprocess
from pathlib import Path

import pytest
from libraries import BUILD

RULES = {
    "good": "",
    "good beats": "",
    "two requests": "one BEGIN_REQ at a time",
    "same request": "BEGIN_REQ of a transaction that is not under way",
    "unknown": "a transaction that is under way",
    "end twice": "END_REQ once",
    "no status": "a response status at the response",
    "early end": "END_RESP from the initiator, after BEGIN_RESP",
    "moved": "command, address, data and length as at the request",
    "status at request": "the response INCOMPLETE at the request",
    "no data": "data and a length above 0",
    "phase without update": "the phase unchanged with ACCEPTED",
    "blocking without status": "a response status at the response",
    "beat before request": "a transaction that is under way",
    "beat from the wrong side": "a read's beats from the target",
    "too many beats": "no more beats than the burst has",
    "beats at once": "BEGIN_BEAT when the one before has ended",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("checker")
    for command in (
        ["cmake", "-S", Path(__file__).parent / "checker", "-B", folder, f"-DPresil_DIR={BUILD / 'cmake'}"],
        ["cmake", "--build", folder],
        [folder / "breaches"],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line and not line.startswith(" "))


@pytest.mark.parametrize("name", RULES)
def test_rule(said, name):
    rule = RULES[name]
    assert (
        said[name].startswith("TLM protocol, checker") and f"expected: {rule}" in said[name]
        if rule
        else said[name] == ""
    )


def test_every_case_has_a_rule(said):
    assert set(said) >= set(RULES) and len(RULES) >= 15
