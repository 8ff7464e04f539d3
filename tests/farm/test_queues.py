# SPDX-License-Identifier: Apache-2.0
"""presil regress --farm lsf and sge: their programs are played (queues.py), all behind them is real."""

import json
import re

import pytest
from torch_presil.regress import exit_codes
from torch_presil.regress.farm import address

from . import queues
from .conftest import alive, wait_for

HEADS = {"lsf": r"#BSUB -n 1\n(.*\n)*#BSUB -W 00:10", "sge": r"#\$ -q night\n(.*\n)*#\$ -l h_rt=00:10:00"}
OPTIONS = {"lsf": "walltime=00:10,queue=night,use_stdin=true", "sge": "walltime=00:10:00,queue=night"}
VARIABLE = {"lsf": "LSB_JOBID", "sge": "JOB_ID"}


@pytest.fixture
def queue(tmp_path, monkeypatch):
    programs = queues.install(tmp_path / "queue")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("QUEUE_FOLDER", str(tmp_path / "queue"))
    monkeypatch.setenv("PRESIL_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "queue"


@pytest.mark.parametrize("kind", ["lsf", "sge"])
def test_cases_are_jobs_of_the_queue(queue, kind, place):
    place.suite("one", {"bad": "exit1", "told": ("environment", "reseed = 3")})
    farm = f"{kind},cores=1,memory=1GB,interface=lo,jobs=2,{OPTIONS[kind]}"
    assert place.go("one", farm=farm) == exit_codes.MISMATCH, place.printed + place.errors
    assert sorted(r["status"] for r in place.last.records()) == ["failed"] + ["passed"] * 3
    jobs = sorted(queue.glob("job-*"))
    assert len(jobs) >= 2
    for job in jobs:
        script = (job / "script").read_text()
        assert re.search(HEADS[kind], script) and "distributed.cli.dask_worker" in script, script
    known = {job.name.removeprefix("job-") for job in jobs}
    for log in (place.last.path / "cases").glob("*told*/log"):
        assert json.loads(log.read_text().splitlines()[-1])[VARIABLE[kind]] in known
    wait_for(lambda: all((job / "ended").exists() for job in jobs), 30)
    wait_for(lambda: not any(alive(int((job / "pid").read_text())) for job in jobs), 30)


def test_every_queue_of_dask_jobqueue_is_a_farm():
    import dask_jobqueue

    theirs = {name for name in dir(dask_jobqueue) if name.endswith("Cluster")} - {"JobQueueCluster"}
    assert set(address.QUEUES.values()) == theirs
    assert set(address.SUBMIT) == set(address.QUEUES)
    for kind in address.QUEUES:
        assert kind in address.FORMS
        job = getattr(dask_jobqueue, address.QUEUES[kind]).job_cls
        assert job.submit_command.split()[0] == address.SUBMIT[kind]
