# SPDX-License-Identifier: Apache-2.0
"""What is told of a failure whose launch the last good simulator does in the same way."""

from types import SimpleNamespace

import pytest
from torch_presil.regress import examine
from torch_presil.regress.failing_launch import Unclear
from torch_presil.regress.run_list import Job

JOB = Job("one", "two", "programs", ".", {}, "tiny", "fast")
RECORD = {"status": "failed", "log": "x/log", "bundles": ["x/x.presil"], "changes": []}


@pytest.mark.parametrize("parts", [True, False])
def test_a_command_that_is_refused_as_it_should_be_is_not_the_first_wrong_one(parts, tmp_path, monkeypatch):
    def compared(_self):
        if parts:
            return {"first": [{"signal": "u_a.b", "cycle": 3, "drivers": []}], "from": 0, "view": None}, tmp_path
        raise Unclear("no signal parts from the last good simulator's")

    monkeypatch.setattr(examine, "keep_launch", lambda *_: (tmp_path / "x" / "x.presil", 1))
    monkeypatch.setattr(examine, "choice", lambda *_: "")
    monkeypatch.setattr(examine, "first_command", lambda *_: ("LOAD, tile 1", "first wrong command 1 of 10, LOAD"))
    monkeypatch.setattr(examine.Comparison, "run", compared)
    monkeypatch.setattr(examine, "_picture", lambda *_: "")
    simulators = SimpleNamespace(new=lambda _: tmp_path / "new.so", good=lambda _: tmp_path / "good.so")
    found = examine.examine(JOB, RECORD, tmp_path, simulators)
    assert found.command == ("LOAD, tile 1" if parts else "") and bool(found.evidence) == parts, found
