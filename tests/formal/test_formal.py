# SPDX-License-Identifier: Apache-2.0
"""Modules of the RTL proved against properties; each cover point is reached, each assertion sees a planted fault."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import prove  # noqa: E402

NIGHTLY = os.environ.get("PRESIL_FORMAL") == "nightly"  # the proofs that every run leaves out, and only those
ALL = prove.load()
PROOFS = {proof.name: proof for proof in ALL if proof.nightly == NIGHTLY}
TOKENS = next(proof for proof in ALL if proof.name == "tokens")
FAULTS = [(proof, fault) for proof in PROOFS.values() for fault in proof.fault]


@pytest.mark.parametrize("name", PROOFS)
def test_holds(name):
    found = prove.row(PROOFS[name], prove.prove(PROOFS[name]))
    assert found["passed"], (
        f"{name}: do not hold: {found['failed']}, not reached: {found['not_reached']}; "
        f"a trace is in {prove.BUILD / name}/trace.vcd, "
        f"again with: tests/formal/prove.py {name}"
    )
    # Else what is assumed may leave nothing to be proved.
    assert found["covers"] and not found["not_reached"], f"{name}: not reached: {found['not_reached']}"


@pytest.mark.parametrize(
    "proof, fault",
    [
        pytest.param(p, f, id=f"{p.name}-{f.property}", marks=[] if f is p.fault[0] else [pytest.mark.nightly])
        for p, f in FAULTS
    ],
)
def test_a_planted_fault_is_found(proof, fault):
    result = prove.find(proof, fault)
    assert result.failed == [fault.property], f"{fault.file}: {fault.new!r} is not seen by {fault.property}"


@pytest.mark.parametrize("name", PROOFS)
def test_every_assertion_has_a_fault(name):
    proof = PROOFS[name]
    assert sorted(proof.labels("a")) == sorted(fault.property for fault in proof.fault if not fault.step)


def test_a_change_that_is_no_fault_is_not_found(tmp_path):
    proof = TOKENS
    same = prove.Fault("a_order", "grant[e] = asks[e] &&", "grant[e] = 1'b1 & asks[e] &&", "presil_tokens.sv")
    model = prove.elaborate(tmp_path / "model", proof, same)
    result = prove.solve(model, proof, "-t", str(proof.depth + 1))
    assert result.passed and not result.failed


def test_a_cover_point_that_cannot_be_reached_is_told():
    proof = TOKENS
    runs = [("covers", prove.Result(False, [], ["c_all"], 0.0, ""))]
    assert prove.row(proof, runs)["not_reached"] == sorted(set(proof.labels("c")) - {"c_all"})


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_solver_out_of_time_is_ended_with_its_child(tmp_path, monkeypatch):
    monkeypatch.setattr(prove, "SECONDS", 1)
    command = ["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/child; wait"]
    with pytest.raises(subprocess.TimeoutExpired):
        prove.whole_group(command, dict(os.environ))
    child, deadline = int((tmp_path / "child").read_text()), time.monotonic() + 30
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_the_page_names_every_proof():
    page = prove.ROOT / "docs" / "formal.md"
    rows = [f"| {p.name} | {p.top} | {p.what} | {p.bound()} |" for p in ALL]
    text = page.read_text()
    start, end = text.index("|---|---|---|---|\n") + len("|---|---|---|---|\n"), text.index("\n\nThree things")
    if os.environ.get("PRESIL_UPDATE_DOCS") == "1":
        page.write_text(text[:start] + "\n".join(rows) + text[end:])
    assert page.read_text()[start:].startswith("\n".join(rows) + "\n\n"), "PRESIL_UPDATE_DOCS=1 writes docs/formal.md"
