# SPDX-License-Identifier: Apache-2.0
"""A worker's part: is it fit, what does it lack, and one case at a time in each of its threads. Runs inside the
workers; knows the standard library, distributed and regress/process.py alone."""

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
import time
import uuid
import zlib
from pathlib import Path

from distributed import Reschedule, get_worker
from distributed.utils import sync

from .. import process
from . import isa
from .cache import Cache, folder, link_tree
from .worker_store import WorkerStore

MOST_BYTES = 1 << 28  # of what a case left, that goes to the client
SMALL = 4096  # bytes that are not worth compressing
LIBRARIES = "LD_LIBRARY_PATH"


class Gone(Exception):
    """Nobody waits for this case any more."""


def resource(token: str, profile: str) -> str:
    """What a worker that is fit has, and a case needs, so that dask brings them together."""
    return f"presil-{token}-{profile}"


async def arrive(worker, token: str, asked: dict) -> None:
    """A worker says for which profiles of cases it is fit."""
    nodes = worker.__dict__.setdefault("presil_nodes", {})
    nodes[token] = node = Node(worker, token, asked)
    fit = {resource(token, name): 1e6 for name, why in node.refused.items() if not why}
    if fit:
        await worker.set_resources(**fit)
        await worker.scheduler.presil_ready(worker=worker.contact_address)


async def depart(worker, token: str) -> None:
    node = worker.__dict__.get("presil_nodes", {}).pop(token, None)
    if node:
        node.clean()
        await worker.set_resources(**{resource(token, name): 0 for name in node.refused})


def verdict(token: str, dask_worker=None) -> dict:
    """What a worker says of itself."""
    node = dask_worker.__dict__.get("presil_nodes", {}).get(token)
    return {"host": socket.gethostname(), "refused": node.refused if node else None, "running": node and node.running}


def run(token: str, task: dict) -> dict:
    worker = get_worker()
    node = getattr(worker, "presil_nodes", {}).get(token)
    if node is None:  # between its plugin's end and its own
        raise Reschedule()
    return node.run(task, worker.get_current_task())


class Node:
    def __init__(self, worker, token: str, asked: dict):
        self.worker, self.token, self.asked = worker, token, asked
        self.running = 0
        self.place, self.lock, self.timings = None, threading.Lock(), None
        have = isa.this_machine()
        self.refused = {name: _refusal(wanted, have) for name, wanted in asked["profiles"].items()}
        try:
            self.cache = Cache(folder(), self._fetch)
        except OSError as error:
            self.refused = dict.fromkeys(self.refused, str(error))

    def _fetch(self, digest: str, offset: int):
        return sync(self.worker.loop, self.worker.scheduler.presil_get, digest=digest, offset=offset)

    def clean(self) -> None:
        if self.place:
            shutil.rmtree(self.place, ignore_errors=True)
            self.place = None

    def leave(self, why: str) -> None:
        """It takes no more cases."""
        self.refused = dict.fromkeys(self.refused, why)
        nothing = {resource(self.token, name): 0 for name in self.refused}
        sync(self.worker.loop, self.worker.set_resources, **nothing)
        raise Reschedule()

    def _arrange(self) -> Path:
        """The folder in which all that every case needs is where the client's paths say, made once."""
        with self.lock:
            if self.place is None:
                sweep(self.cache.place)
                place = Path(
                    tempfile.mkdtemp(prefix=f"place-{socket.gethostname()}-{os.getpid()}-", dir=self.cache.place)
                )
                for where, digests in self.asked["trees"].items():
                    for digest in digests:
                        link_tree(self.cache.tree(digest), place / where)
                (place / "work").mkdir()
                if self.asked["timings"]:
                    begin = self.asked["timings"]["begin"]
                    self.timings = WorkerStore(place / "timings", self.cache.file(begin) if begin else None)
                self.place = place
            return self.place

    def run(self, task: dict, key: str) -> dict:
        try:
            place = self._arrange()
            work = place / "work" / uuid.uuid4().hex
            job = work / "job"
            job.mkdir(parents=True)
            words = self._words(task, place, work)
        except OSError as error:
            self.leave(f"{error}; {shutil.disk_usage(folder()).free >> 20} MB are free")
        self.running += 1
        try:
            return self._case(task, key, job, words)
        finally:
            self.running -= 1
            shutil.rmtree(work, ignore_errors=True)

    def _words(self, task: dict, place: Path, work: Path) -> dict:
        """Marks of the task -> what they stand for here."""
        words = {"@@job@@": str(work / "job"), "@@work@@": str(work), "@@python@@": sys.executable}
        words |= {f"@@{name}@@": str(place / name) for name in self.asked["marks"]}
        words |= {"@@timings@@": str(self.timings.file)} if self.timings else {}
        for digest, name in task["files"].items():
            path = place / "files" / digest / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.link(self.cache.file(digest), path)
            words[f"@@file-{digest}@@"] = str(path)
        for link, target in task["links"].items():
            (work / "job" / link).parent.mkdir(parents=True, exist_ok=True)
            (work / "job" / link).symlink_to(_filled(target, words))
        return words

    def _case(self, task: dict, key: str, job: Path, words: dict) -> dict:
        told = {"host": socket.gethostname(), "started": time.time(), "seconds": 0.0, "returncode": None}
        told |= {"wall": False, "reason": _lacking(task["needs"]), "files": {}, "made": {}, "timings": ("", b"")}
        argv = [_filled(word, words) for word in task["argv"]]
        if not told["reason"] and not shutil.which(argv[0]):
            told["reason"] = f"needs {argv[0]}, which is not on {told['host']}"
        if told["reason"]:
            return told
        environment = {**self.asked["environment"], **task["environment"]}
        environment = {name: _filled(text, words) for name, text in environment.items()}
        began, log = time.monotonic(), job / "log"
        started = process.start(argv, _filled(task["directory"], words), environment, log)
        try:
            told["wall"] = self._wait(started, began, task["timeout"], key)
        finally:
            told["seconds"] = time.monotonic() - began
            process.end(started, str(job), grace=process.GRACE if told["wall"] else 0)
        told["returncode"] = None if told["wall"] else started.returncode
        if self.timings and task["timings"]:
            program = _filled(self.asked["timings"]["program"], words)
            told["timings"] = self.timings.new(program, environment, job.parent / "new.sqlite")
        told["files"] = _left(job)
        for path in task["makes"]:
            with contextlib.suppress(OSError):
                told["made"][path] = Path(_filled(path, words)).read_bytes()
        return told

    def _wait(self, started, began: float, timeout: float, key: str) -> bool:
        """Whether it took too long. Raises Gone."""
        pause = 0.002
        while started.poll() is None:
            if time.monotonic() - began > timeout > 0:
                return True
            task = self.worker.state.tasks.get(key)
            if task is None or task.state == "cancelled":
                raise Gone()
            if self.worker.status.name not in ("running", "paused"):
                raise Reschedule()
            time.sleep(pause)
            pause = min(0.05, pause * 1.3)
        return False


def _filled(text: str, words: dict) -> str:
    for mark, value in words.items():
        if mark in text:
            text = text.replace(mark, value)
    return text


def _lacking(needs: list) -> str:
    for need in needs:
        module = need.removeprefix("python:")
        there = importlib.util.find_spec(module) if module != need else shutil.which(need)
        if not there:
            return f"needs {need}, which is not on {socket.gethostname()}"
    return ""


def _left(job: Path) -> dict:
    """Relative path -> (compressed, bytes) of the files of a case, the small ones first, as many as may be."""
    found, total, out = [p for p in job.rglob("*") if p.is_file() and not p.is_symlink()], 0, []
    files = {}
    for path in sorted(found, key=lambda p: p.stat().st_size):
        name, size = str(path.relative_to(job)), path.stat().st_size
        if total + size > MOST_BYTES:
            out.append(f"{name} ({size >> 20} MB)")
            continue
        total, data = total + size, path.read_bytes()
        files[name] = (True, zlib.compress(data, 1)) if size > SMALL else (False, data)
    if out:
        _, log = files.get("log", (False, b""))
        log = zlib.decompress(log) if files.get("log", (False,))[0] else log
        files["log"] = (False, log + f"\nleft on the farm, too large: {', '.join(out)}\n".encode())
    return files


def _refusal(wanted: dict, have: isa.Machine) -> str:
    """Why a worker is not fit; "" if it is."""
    why = isa.refusal(wanted["machine"], wanted["flags"], tuple(wanted["glibc"]), have)
    version = wanted.get("python")
    if not why and version and version != platform.python_version().rpartition(".")[0]:
        why = f"its Python is {platform.python_version()}, the extension is for {version}"
    for name, version in wanted.get("packages", {}).items():
        try:
            found = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        if not why and found != version:
            why = f"its {name} is {found}, here is {version}: bits of the host's operators could differ"
    return why


def sweep(place: Path) -> None:
    """What workers that were killed have left, with the processes of their cases."""
    for path in place.glob(f"place-{socket.gethostname()}-*-*"):
        number = path.name.rsplit("-", 2)[1]
        if not Path("/proc", number).exists():
            process.kill_marked(str(path), below=True)
            shutil.rmtree(path, ignore_errors=True)
