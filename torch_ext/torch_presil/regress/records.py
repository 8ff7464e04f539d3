# SPDX-License-Identifier: Apache-2.0
"""A run's folder: run.json (the plan, written before anything is run), records.jsonl (a line a case that has ended,
there as soon as it has), logs and cases' folders. What a killed run had written is whole."""

import fcntl
import json
import os
import time
from pathlib import Path

from .exit_codes import UsageError
from .run_list import Job

PLAN, RECORDS, LATEST = "run.json", "records.jsonl", "latest"


def base(given: str | None = None) -> Path:
    """The folder of all runs."""
    from .suite import SOURCE_ROOT

    if given or os.environ.get("PRESIL_REGRESS_RUNS"):
        return Path(given or os.environ["PRESIL_REGRESS_RUNS"]).resolve()
    root = SOURCE_ROOT if (SOURCE_ROOT / "presil").is_file() else Path.cwd()
    return root / "build" / "regress"


class Run:
    def __init__(self, path: Path):
        self.path = path
        self.plan = {}
        self._lock = None

    @property
    def name(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, folder: Path, plan: dict, name: str | None = None) -> "Run":
        name, number = name or time.strftime("%Y%m%d-%H%M%S", time.gmtime()), 1
        while True:
            path = folder / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                number += 1
        run = cls(path)
        run.plan = plan
        write_whole(path / PLAN, json.dumps(plan, indent=1) + "\n")
        link = folder / LATEST
        temporary = folder / f".{LATEST}-{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(path.name)
        os.replace(temporary, link)
        return run

    @classmethod
    def load(cls, path: Path) -> "Run":
        run = cls(path)
        try:
            run.plan = json.loads((path / PLAN).read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} is not the folder of a run: {error}") from error
        return run

    def jobs(self) -> list[Job]:
        return [Job.from_dict(values) for values in self.plan["jobs"]]

    def lock(self) -> None:
        """One runner at a time; it is free again when the runner ends, however it does: this lock is the process's, not
        the file's, which a child has too until it starts its own program."""
        self._lock = (self.path / ".lock").open("w")
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{self.path}: another presil regress is at work in this run") from error

    def folder_of(self, job: Job) -> Path:
        safe = "".join(c if c.isalnum() or c in "-_.,#=+" else "_" for c in job.key.replace("/", "."))
        return self.path / "cases" / safe

    def append(self, record: dict) -> None:
        """One write, on disk when this returns. After a torn line (a full disk, a kill) the next begins anew."""
        line = json.dumps(record).encode() + b"\n"
        with (self.path / RECORDS).open("ab+") as file:
            if file.tell() and not self._ends_whole(file):
                line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _ends_whole(file) -> bool:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

    def records(self) -> list[dict]:
        """The last one of each job, in the order of the plan; torn lines are left out."""
        found = {}
        try:
            lines = (self.path / RECORDS).read_bytes().splitlines()
        except FileNotFoundError:
            lines = []
        for line in lines:
            try:
                record = json.loads(line)
                found[record["key"]] = record
            except (ValueError, KeyError, TypeError):
                continue
        order = [job["key"] for job in self.plan.get("jobs", []) if job.get("key") in found]
        return [found[key] for key in order] + [r for key, r in found.items() if key not in set(order)]


def write_whole(path: Path, text: str) -> None:
    """The old or the new file, never a part of one. What is no file (/dev/null, a pipe) is written to, not replaced."""
    if path.exists() and not path.is_file():
        path.write_text(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        temporary.write_text(text)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def runs(folder: Path) -> list[Path]:
    """Oldest first."""
    if not folder.is_dir():
        return []
    found = [p for p in folder.iterdir() if p.is_dir() and not p.is_symlink() and (p / PLAN).exists()]
    return sorted(found, key=lambda p: ((p / PLAN).stat().st_mtime_ns, p.name))


def find(folder: Path, name: str | None) -> Run:
    """A run by its name or path; None: the last one."""
    path = Path(name) if name and (Path(name) / PLAN).exists() else folder / (name or LATEST)
    if not (path / PLAN).exists():
        names = [p.name for p in runs(folder)][-5:]
        raise UsageError(
            f"there is no run {name or 'yet'} in {folder}" + (f"; found: {', '.join(names)}" * bool(names))
        )
    return Run.load(path.resolve())
