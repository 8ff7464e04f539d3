# SPDX-License-Identifier: Apache-2.0
"""A job as a worker can run it: paths of this machine become marks, and the files behind them artifacts."""

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from .. import made
from ..kinds import build_directory, resolve
from ..run_list import Job
from ..suite import SOURCE_ROOT
from ..versions import PACKAGE
from .artifacts import Store, below
from .client_store import ClientStore

OF_PYTORCH = ("cosim", "layers")
PACKAGES = ("torch", "torchvision", "transformers", "numpy")  # that a model's bits may depend on
IN_ROOT = ("tests", "driver", "sim", "torch_ext", "rtl", "pyproject.toml", "presil", "CMakeLists.txt")
ENDS = set("/:,'\" ]})\\") | {""}


def source_tree() -> bool:
    return (SOURCE_ROOT / "presil").is_file()


class Packer:
    """Jobs of one run. trees: where in a worker's folder -> digests of archives that are unpacked there."""

    def __init__(self, jobs: list[Job], tell):
        self.store, self.trees = Store(), {}
        self.timings = ClientStore(tell) if any(map(_asks_store, jobs)) else None
        self.build = build_directory()
        self.places = {}  # path here -> mark
        self._build_or_package(jobs)
        self._folders(jobs)
        for library in {job.library for job in jobs if job.library}:
            self.store.file(Path(library))  # whose processor all workers must have
        self.ordered = sorted(self.places.items(), key=lambda item: -len(item[0]))
        self.environment = {
            name: self.marked(value) for name, value in os.environ.items() if name.startswith("PRESIL_")
        }
        self.environment |= {"PYTHONPATH": "@@python-path@@" if not self.build else "@@build@@/python"}
        self.environment["LD_LIBRARY_PATH"] = "@@build@@/lib" if self.build else "@@python-path@@/torch_presil/lib"
        self.environment.pop("PRESIL_REGRESS_RUNS", None)
        if self.timings:
            self.environment["PRESIL_STORE"] = "@@timings@@"

    def _place(self, path: Path, mark: str, files: dict[str, Path]) -> None:
        where = mark.strip("@")
        self.places[str(path)] = mark
        if files:
            self.trees.setdefault(where, []).append(self.store.tree(files))

    def _build_or_package(self, jobs: list[Job]) -> None:
        """Each simulator an archive of its own: another RTL brings no more than itself again."""
        base = self.build or PACKAGE
        mark = "@@build@@" if self.build else "@@python-path@@"
        before = "" if self.build else "torch_presil/"
        if self.build:
            programs = {f"bin/{p.name}": p for p in (base / "bin").glob("presil-*") if p.is_file()}
            more = {f"{top}/{name}": p for top in ("python", "generated") for name, p in below(base / top).items()}
            self.places[str(base)] = mark
        else:
            programs = {f"{before}bin/{p.name}": p for p in (base / "bin").glob("presil-*")}
            more = {f"{before}{name}": p for name, p in below(base).items() if not name.startswith(("lib/", "bin/"))}
            more["torch_presil_autoload.py"] = base.parent / "torch_presil_autoload.py"
            self.places[str(base)] = f"{mark}/torch_presil"
        libraries = [p for p in (base / "lib").glob("libpresil*.so*") if p.is_file()]
        simulators = [p for p in libraries if p.name.startswith("libpresil_sim_") and _asked(p.name, jobs)]
        others = [p for p in libraries if not p.name.startswith("libpresil_sim_")]
        parts = [programs, {n: p for n, p in more.items() if p.is_file()}]
        parts += [{f"{before}lib/{p.name}": p for p in others}]
        parts += [{f"{before}lib/{p.name}": p} for p in simulators]
        self.trees[mark.strip("@")] = [self.store.tree(part) for part in parts if part]

    def _folders(self, jobs: list[Job]) -> None:
        """The source tree, if there is one and anything may need it; the suites' folders, and those of models."""
        inside = lambda path: source_tree() and Path(path).is_relative_to(SOURCE_ROOT)
        folders = {}
        for job in jobs:
            for folder in filter(None, (job.folder, _of_model(job))):
                folders.setdefault(folder, set()).add(job.kind)
        if source_tree():
            needed = any(inside(folder) or kinds - {*OF_PYTORCH, "bundle"} for folder, kinds in folders.items())
            files = {n: p for n, p in below(SOURCE_ROOT).items() if n.startswith(IN_ROOT)} if needed else {}
            self._place(SOURCE_ROOT, "@@root@@", files)
        for number, (folder, kinds) in enumerate(sorted(folders.items())):
            path = Path(folder)
            if not inside(path) and not path.is_relative_to(PACKAGE):
                own = kinds - {*OF_PYTORCH, "bundle"}  # commands may read bundles; the other kinds name them
                files = {n: p for n, p in below(path).items() if own or not n.endswith(".presil")}
                self._place(path, f"@@suite-{number}@@", files)

    @property
    def marks(self) -> list[str]:
        return [mark.strip("@") for mark in self.places.values() if "/" not in mark] + (
            [] if self.build else ["python-path"]
        )

    def marked(self, text: str, more: dict | None = None) -> str:
        """The text with marks for folders of this machine."""
        for path, mark in [*(more or {}).items(), (sys.executable, "@@python@@"), *self.ordered]:
            at = text.find(path)
            while at >= 0:
                end = at + len(path)
                if text[end : end + 1] in ENDS:
                    text, end = text[:at] + mark + text[end:], at + len(mark)
                at = text.find(path, end)
        return text

    def timings_asked(self) -> dict | None:
        """With what a worker's timing store begins, and the program that looks into it."""
        if self.timings is None:
            return None
        begin = self.timings.begin and self.store.file(self.timings.begin)
        return {"begin": begin, "program": self.marked(_program(self.timings.program))}

    def profile(self, job: Job) -> str:
        return "pytorch" if job.kind in OF_PYTORCH else "plain"

    def profiles(self) -> dict:
        """What a worker must have, for cases with PyTorch and for the others."""
        flags, machines, glibc = {}, set(), (0, 0)
        for path, found in sorted(self.store.needs.items()):
            machines.add(found.machine)
            glibc = max(glibc, found.glibc)
            for flag in found.flags:
                flags.setdefault(flag, path.name)
        plain = {"machine": machines.pop() if len(machines) == 1 else platform.machine(), "flags": flags}
        plain["glibc"] = glibc
        packages = {}
        for name in PACKAGES:
            try:
                packages[name] = metadata.version(name).partition("+")[0]
            except metadata.PackageNotFoundError:
                continue
        version = platform.python_version().rpartition(".")[0]
        return {"plain": plain, "pytorch": {**plain, "python": version, "packages": packages}}

    def task(self, job: Job, folder: Path) -> dict:
        """Raises Skip, UsageError, as resolve() does."""
        needs = [need for need in job.needs if need.startswith("python:") or not (Path(job.folder) / need).exists()]
        command = resolve(job, folder)
        files, makes, more = {}, [], {str(folder): "@@job@@"}
        for path in self._files(job, folder):
            if path.exists():
                digest = self.store.file(path)
                files[digest] = path.name
                more[str(path)] = f"@@file-{digest}@@"
            else:
                more[str(path)] = f"@@work@@/{path.name}"
                makes.append(str(path))
        links = {}
        for path in folder.rglob("*"):
            if path.is_symlink():
                digest = self.store.file(path)
                files[digest] = path.resolve().name
                links[str(path.relative_to(folder))] = f"@@file-{digest}@@"
        argv = [self.marked(_program(word), more) for word in command.argv]
        environment = {name: self.marked(value, more) for name, value in command.environment.items()}
        return {
            "argv": argv,
            "directory": self.marked(command.directory, more),
            "environment": environment,
            "timeout": job.timeout_seconds,
            "needs": needs,
            "files": files,
            "links": links,
            "makes": [more[path] for path in makes],
            "timings": _asks_store(job),
            "made_here": dict(zip((more[path] for path in makes), makes)),
        }

    def _files(self, job: Job, folder: Path):
        """Single files that a job reads (or makes), outside of the trees."""
        if job.kind == "layers":
            yield made.path_of(job, folder.parents[2])
        for name in ("file", "weights"):
            if job.kind != "command" and isinstance(job.parameters.get(name), str):
                path = Path(job.folder) / job.parameters[name]
                if path.exists():
                    yield path
        if job.library:
            yield Path(job.library)


def _asked(name: str, jobs: list[Job]) -> bool:
    """Whether a simulator goes along: of cases that name no chip of their own, only what they run on."""
    if any(job.kind not in (*OF_PYTORCH, "bundle") for job in jobs):
        return "systemc" not in name
    return name in {f"libpresil_sim_{job.chip}_{job.build}.so" for job in jobs}


def _asks_store(job: Job) -> bool:
    return job.kind == "cosim" and job.parameters.get("mode") == "hybrid"


def _of_model(job: Job) -> str:
    """The folder of a model's file, where that is not the suite's."""
    file = str(job.parameters.get("model", "")).rpartition(":")[0]
    return str(Path(file).parent) if job.kind in OF_PYTORCH and file.endswith(".py") and os.path.isabs(file) else ""


def _program(word: str) -> str:
    """Of an installed package the program itself, not the script beside Python that starts it."""
    own = PACKAGE / "bin" / Path(word).name
    return str(own) if word.startswith(str(Path(sys.executable).parent)) and own.is_file() else word
