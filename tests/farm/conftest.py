# SPDX-License-Identifier: Apache-2.0
"""A farm on this machine: a scheduler and two workers in processes of their own, as dask://HOST:PORT."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from regress.conftest import Place, alive  # noqa: E402

FAULTY = HERE.parent / "regress" / "faulty.py"


class Cluster:
    """cluster.py, with a cache of its own."""

    def __init__(self, cache: Path, *words: str, **environment: str):
        self.cache = cache
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "cluster.py"), *words],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            env={**os.environ, "PRESIL_FARM_CACHE": str(cache), **environment},
            start_new_session=True,
        )
        told = json.loads(self.process.stdout.readline())
        self.address, self.farm = told["address"], told["address"].replace("tcp://", "dask://")

    def end(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def ask(self, function, *words):
        """On the scheduler: what its hub tells."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            return function(client, *words)

    def served(self) -> dict:
        return self.ask(lambda client: client.sync(client.scheduler.presil_told))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cache"))
    yield made
    made.end()


class Told(Place):
    """errors: what the last go() wrote to standard error."""

    def __init__(self, folder: Path, capture):
        super().__init__(folder)
        self.capture, self.errors = capture, ""

    def go(self, *suites, **options) -> int:
        self.capture.readouterr()
        code = super().go(*suites, **options)
        self.errors = self.capture.readouterr().err
        return code


@pytest.fixture
def place(tmp_path, monkeypatch, capsys) -> Told:
    monkeypatch.delenv("PRESIL_CHIP", raising=False)
    monkeypatch.setenv("PRESIL_REGRESS_RUNS", str(tmp_path / "runs"))
    return Told(tmp_path, capsys)


def wait_for(condition, seconds=100.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def cases_below(folder: Path) -> dict:
    """Processes of cases that run in a cache's folder -> the worker that runs each."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        for word in words:
            text = word.decode(errors="replace")
            if text.startswith(f"PRESIL_REGRESS_DIR={folder}/place-") and alive(int(entry.name)):
                found[int(entry.name)] = int(text.split("/place-")[1].split("/")[0].rsplit("-", 2)[1])
    return found


def lines(place) -> list:
    path = place.runs / "latest" / "records.jsonl"
    return path.read_text().splitlines() if path.exists() else []
