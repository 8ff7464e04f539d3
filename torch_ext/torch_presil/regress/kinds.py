# SPDX-License-Identifier: Apache-2.0
"""From a job to the command that runs it, with its environment."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import made
from .coverage import PREFIX
from .exit_codes import UsageError
from .run_list import Job
from .suite import SOURCE_ROOT


COVERAGE_BUILD = "coverage"


class Skip(Exception):
    """What the job needs is not there."""


@dataclass
class Command:
    argv: list
    directory: str
    environment: dict = field(default_factory=dict)


def build_directory() -> Path | None:
    """Of the build under test; None where an installed package is used."""
    given = os.environ.get("PRESIL_BUILD_DIR")
    return Path(given) if given else None


def find_program(name: str) -> str | None:
    """Its path: in the build, beside this Python, on PATH."""
    build = build_directory()
    places = [str(build / "bin")] if build else []
    places += [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(places))


def default_chip() -> str:
    """The configuration that the chip of this environment has without being asked for one; "": none, or no chip."""
    program = find_program("presil-info")
    if program:
        told = subprocess.run([program], capture_output=True, text=True).stdout
        found = re.search(r"^chip .* configuration (\S+)", told, re.M)
        return found[1] if found else ""
    # Seconds more: a package that is installed has no such program.
    code = "import torch_presil; print('chip', torch_presil._C.get_chip())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    found = re.search(r"^chip (\S+)$", told, re.M)
    return found[1] if found else ""


def resolve(job: Job, directory: Path, jobs: int = 1) -> Command:
    """directory: the job's own, for its result, bundles and scratch files; jobs: processes that its RTL may have.
    Raises Skip, UsageError."""
    for need in job.needs:
        module = need.removeprefix("python:")
        if module != need:
            if importlib.util.find_spec(module) is None:
                raise Skip(f"needs the Python package {module}, which is not installed")
        elif not (Path(job.folder) / _fill([need], job, directory)[0]).exists() and not find_program(need):
            raise Skip(f"needs {need}, which is not there")
    _check_coverage(job)
    if job.kind == "cosim":
        command = _cosim(job, directory, jobs)
    else:
        command = {"bundle": _bundle, "layers": _layers}.get(job.kind, _command)(job, directory)
    command.environment = {**_environment(job, directory), **command.environment, **job.env}
    return command


def _check_coverage(job: Job) -> None:
    """Its libraries are built on demand, so that one may be missing."""
    build, name = build_directory(), f"libpresil_sim_{job.chip}_{COVERAGE_BUILD}.so"
    if job.build != COVERAGE_BUILD or job.library or not build:
        return
    places = [Path(p) for p in os.environ.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep) if p]
    if not any((place / name).exists() for place in [*places, build / "lib"]):
        raise Skip(f"{name} is not built; --chip {job.chip} builds it")


def _environment(job: Job, directory: Path) -> dict:
    """What every kind of case is told."""
    told = {
        "PRESIL_CHIP": job.chip,
        "PRESIL_BUILD": job.build,
        "PRESIL_MEMORY_MODEL": job.memory_model,
        "PRESIL_SEED": str(job.seed),
        "PRESIL_CAPTURE_FAILURES": str(directory),
        "PRESIL_REGRESS_DIR": str(directory),
        "PRESIL_REGRESS_RESULT": str(directory / "result.json"),
        "PRESIL_REGRESS_TIMEOUT_CYCLES": str(job.timeout_cycles),
        "OMP_NUM_THREADS": str(job.threads),
        "MKL_NUM_THREADS": str(job.threads),
        "PYTHONUNBUFFERED": "1",
    }
    if job.build == COVERAGE_BUILD:
        told["PRESIL_COVERAGE"] = str(directory / PREFIX)
        told["PRESIL_COVERAGE_LAUNCHES"] = "1" if job.kind in ("cosim", "bundle") else "0"
    if job.timeout_cycles:
        told["PRESIL_TIMEOUT_CYCLES"] = str(job.timeout_cycles)  # of one launch, whatever the case runs
    if job.library:
        told["PRESIL_REGRESS_LIBRARY"] = job.library
        told["PRESIL_LIBRARY_PATH"] = _library_folder(job, directory)
    return told


def _library_folder(job: Job, directory: Path) -> str:
    """A folder in which the driver finds the user's library under the name that it looks for."""
    folder = directory / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / f"libpresil_sim_{job.chip}_{job.build}.so"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(job.library).resolve())
    others = os.environ.get("PRESIL_LIBRARY_PATH", "")
    build = build_directory()
    places = [str(folder), str(Path(job.library).resolve().parent), others, str(build / "lib") if build else ""]
    return os.pathsep.join(filter(None, places))


def _model(job: Job) -> str:
    """Of a file of the suite's folder with its path."""
    model = job.parameters["model"]
    if ".py:" in model and not Path(model.split(":")[0]).is_absolute():
        return str(Path(job.folder) / model)
    return model


def _cosim(job: Job, directory: Path, jobs: int) -> Command:
    several = job.parameters["mode"] in ("verify", "hybrid") and job.build != COVERAGE_BUILD
    task = {
        **job.parameters,
        "jobs": jobs if several else None,  # None: one, whatever PRESIL_JOBS says
        "model": _model(job),
        "seed": job.seed,
        "timeout_cycles": job.timeout_cycles,
        "memory": job.memory_model,
    }
    argv = [sys.executable, "-m", "torch_presil.regress.cosim_case", json.dumps(task)]
    return Command(argv, str(directory))


def replay_words(job: Job, file: Path, result: Path) -> list[str]:
    """presil-replay on a bundle, as the job is to be run."""
    program = find_program("presil-replay")
    if program is None:
        raise Skip("presil-replay is not built")
    argv = [program, str(file), "--json", str(result)]
    argv += ["--library", job.library] if job.library else ["--build", job.build]
    argv += ["--timeout-cycles", str(job.timeout_cycles)] if job.timeout_cycles else []
    return [*argv, *(["--memory", job.memory_model] if job.memory_model else [])]


def arguments_of(job: Job, directory: Path) -> list[str]:
    """Those of presil-replay that a case has."""
    return _fill(job.parameters.get("arguments", []), job, directory)


def _bundle(job: Job, directory: Path) -> Command:
    file = Path(job.folder) / job.parameters["file"]
    if not file.exists():
        raise UsageError(f"{file}: there is no such bundle")
    argv = replay_words(job, file, directory / "result.json")
    return Command([*argv, "--mode", job.parameters["mode"], *arguments_of(job, directory)], str(directory))


def _layers(job: Job, directory: Path) -> Command:
    """presil-replay alone, if the bundle is there; else PyTorch makes it first."""
    file = made.path_of(job, directory.parents[2])
    argv = [*replay_words(job, file, directory / "result.json"), *arguments_of(job, directory)]
    if file.exists():
        return Command(argv, str(directory))
    facts = {"seed": job.seed, "chip": job.chip, "path": str(file), "then": argv}
    task = {**job.parameters, "model": _model(job), **facts}
    making = [sys.executable, "-m", "torch_presil.regress.layers_case", json.dumps(task)]
    return Command(making, str(directory), {"PRESIL_MEMORY_MODEL": "", "PRESIL_MODE": "model"})


def _fill(words: list, job: Job, directory: Path) -> list[str]:
    build = build_directory()
    names = {
        "python": sys.executable,
        "root": str(SOURCE_ROOT),
        "folder": job.folder,
        "directory": str(directory),
        "build_directory": str(build or ""),
        "seed": job.seed,
        "chip": job.chip,
        "build": job.build,
        "memory": job.memory_model or "default",
        "library": job.library,
        "timeout_cycles": job.timeout_cycles,
        # "directory" of a command is where it runs; the field is the run's own, as documented
        **{k: v for k, v in job.parameters.items() if not isinstance(v, (list, dict)) and k != "directory"},
    }
    try:
        return [str(word).format(**names) for word in words]
    except (KeyError, IndexError, ValueError) as error:
        raise UsageError(
            f"{job.name}: the command {words!r} has a field that is unknown ({error}); known: "
            f"{', '.join(sorted(names))}; a brace itself is {{{{"
        ) from error


def _command(job: Job, directory: Path) -> Command:
    words = _fill(job.template or job.parameters["command"], job, directory)
    place = _fill([job.parameters.get("directory") or job.folder], job, directory)[0]
    program = words[0]
    if not os.path.isabs(program):
        beside = Path(job.folder) / program
        found = shutil.which(str(beside)) or find_program(program)
        if not found:
            closed = ": the file there is not executable (chmod +x)" if beside.is_file() else ""
            raise UsageError(f"{job.name}: there is no program {program!r} in {job.folder}, the build or PATH{closed}")
        words[0] = found
    return Command(words, str(Path(job.folder) / place))
