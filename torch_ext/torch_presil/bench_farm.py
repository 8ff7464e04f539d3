# SPDX-License-Identifier: Apache-2.0
"""Parts of `presil bench` for `presil regress --farm`: what a case costs beside its own work, and of what."""

import os
import tempfile
import time
from pathlib import Path

CASES = int(os.environ.get("PRESIL_BENCH_FARM_CASES") or 1000)
TASKS = 5000
MEGABYTES = 64
WORKERS = 2
# name -> (unit, must, aim, larger is better)
TARGETS = {
    "farm_case_ms": ("ms", 200, 20, False),
    "farm_case_client_ms": ("ms", 40, 10, False),  # of the processor, client and scheduler
}


class Silent:
    """A display that shows nothing."""

    def started(self, running):
        pass

    ended = tick = started


def _run(folder: Path, machine, jobs) -> float:
    """Seconds of all jobs by the runner, records and all."""
    from .regress.baseline import Baselines
    from .regress.records import Run
    from .regress.runner import Runner

    run = Run.create(folder, {"jobs": [{"key": job.key, **job.as_dict()} for job in jobs]})
    runner = Runner(run, jobs, machine, Baselines("none", folder), Silent())
    began = time.perf_counter()
    runner.go()
    seconds = time.perf_counter() - began
    wrong = [record for record in runner.records if record["status"] != "passed"]
    if wrong or len(runner.records) != len(jobs):
        raise RuntimeError(f"{len(wrong)} of {len(jobs)} tiny cases did not pass: {wrong[:1]}")
    return seconds


def _jobs(folder: Path) -> list:
    from .regress.run_list import Choice, expand
    from .regress.suite import Loader

    (folder / "tiny.toml").write_text(f'[case.tiny]\nkind = "command"\ncommand = ["true"]\nreseed = {CASES}\n')
    return expand(Loader([folder]).load(["tiny"]), Choice())


def _transfer(farm) -> float:
    """Seconds for an artifact: from the client to the scheduler, and from there to a worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "artifact"
        path.write_bytes(os.urandom(MEGABYTES << 20))
        began = time.perf_counter()
        digest = farm.packer.store.file(path)
        farm._bring([digest])
        task = {"argv": ["true"], "directory": "/", "environment": {}, "timeout": 60, "needs": [], "links": {}}
        task |= {"files": {digest: "artifact"}, "makes": []}
        profile = {farm.node.resource(farm.token, "plain"): 1}
        future = farm.client.submit(farm.node.run, farm.token, task, key="presil-bench-transfer", resources=profile)
        if future.result()["returncode"]:
            raise RuntimeError("the artifact did not come")
        return time.perf_counter() - began


def farm(tell) -> dict:
    """Tiny cases (`true`) on two workers of this machine, the same without a farm, and what dask itself needs."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        return {}
    from .regress.farm.machine import opened
    from .regress.here import Here

    figures = {}
    with tempfile.TemporaryDirectory(prefix="presil-bench-") as name:
        folder = Path(name)
        jobs = _jobs(folder)
        tell(f"{CASES} tiny cases as processes of this machine, {WORKERS} at once")
        figures["farm_case_here_ms"] = _run(folder / "here", Here(WORKERS), jobs) / CASES * 1e3
        tell(f"a farm of {WORKERS} workers")
        began = time.perf_counter()
        with opened("local", jobs, WORKERS, WORKERS, tell) as there:
            _run(folder / "first", there, jobs[:1])
            figures["farm_start_seconds"] = time.perf_counter() - began
            figures["farm_artifacts_mb"] = sum(map(len, there.packer.store.archives.values())) / 1e6
            tell(f"{CASES} tiny cases on it")
            spent = time.process_time()
            figures["farm_case_ms"] = _run(folder / "far", there, jobs) / CASES * 1e3
            figures["farm_case_client_ms"] = (time.process_time() - spent) / CASES * 1e3
            tell(f"{TASKS} tasks of dask alone")
            began, spent = time.perf_counter(), time.process_time()
            there.client.gather(there.client.map(abs, range(-TASKS, 0), pure=False))
            figures["farm_task_ms"] = (time.perf_counter() - began) / TASKS * 1e3
            figures["farm_task_client_ms"] = (time.process_time() - spent) / TASKS * 1e3
            tell(f"an artifact of {MEGABYTES} MB")
            figures["farm_transfer_64_mb_seconds"] = _transfer(there)
    return figures


PARTS = {"farm": farm}
