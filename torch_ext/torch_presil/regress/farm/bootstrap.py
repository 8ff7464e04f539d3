# SPDX-License-Identifier: Apache-2.0
"""How code comes to the farm: as text, under a name with its hash. So nothing of Presil is installed there, and two
clients of different versions share a cluster. Plugins of dask carry it to workers that come later, too."""

import hashlib
import sys
import types
from pathlib import Path

from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

FOLDER = Path(__file__).parent
MODULES = {  # name in the package that is made there -> file
    "process": FOLDER.parent / "process.py",
    "untar": FOLDER.parent / "untar.py",
    "farm.isa": FOLDER / "isa.py",
    "farm.cache": FOLDER / "cache.py",
    "farm.worker_store": FOLDER / "worker_store.py",
    "farm.node": FOLDER / "node.py",
    "farm.hub": FOLDER / "hub.py",
}


def load(name: str, texts: dict) -> None:
    """Makes the package `name` of these modules, once in a process."""
    if f"{name}.farm" in sys.modules:
        return
    for part in (name, f"{name}.farm"):
        sys.modules[part] = types.ModuleType(part)
        sys.modules[part].__path__ = []
    for part, text in texts.items():
        full = f"{name}.{part}"
        module = types.ModuleType(full)
        module.__package__ = full.rpartition(".")[0]
        sys.modules[full] = module
        setattr(sys.modules[module.__package__], part.rpartition(".")[2], module)
        exec(compile(text, f"<presil farm: {part}>", "exec"), module.__dict__)


class OnScheduler(SchedulerPlugin):
    def __init__(self, package: str, texts: dict):
        self.package, self.texts, self.name = package, texts, f"presil-hub-{package}"

    async def start(self, scheduler) -> None:
        load(self.package, self.texts)
        self.scheduler = scheduler
        sys.modules[f"{self.package}.farm.hub"].install(scheduler)

    async def close(self) -> None:
        sys.modules[f"{self.package}.farm.hub"].remove(self.scheduler)


class OnWorker(WorkerPlugin):
    def __init__(self, package: str, texts: dict, token: str, asked: dict):
        self.package, self.texts, self.token, self.asked = package, texts, token, asked
        self.name = f"presil-{token}"

    @property
    def node(self):
        return sys.modules[f"{self.package}.farm.node"]

    async def setup(self, worker) -> None:
        load(self.package, self.texts)
        await self.node.arrive(worker, self.token, self.asked)

    async def teardown(self, worker) -> None:
        await self.node.depart(worker, self.token)


def package() -> tuple[str, dict]:
    """(name, texts), and the same package in this process: functions go to the farm by their names."""
    import cloudpickle

    texts = {name: path.read_text() for name, path in MODULES.items()}
    name = "presil_farm_" + hashlib.sha256(repr(texts).encode()).hexdigest()[:12]
    load(name, texts)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return name, texts
