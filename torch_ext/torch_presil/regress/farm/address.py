# SPDX-License-Identifier: Apache-2.0
"""--farm: which farm is meant, and a client of it; or why there is none."""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import sys
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

from ..exit_codes import UsageError
from ..process import blocked
from ..versions import PACKAGE

QUEUES = {"slurm": "SLURMCluster", "lsf": "LSFCluster", "sge": "SGECluster", "pbs": "PBSCluster"}
QUEUES |= {"htcondor": "HTCondorCluster", "oar": "OARCluster", "moab": "MoabCluster"}
FORMS = f"local, dask://HOST:PORT, or a queue[,NAME=VALUE...]: {', '.join(QUEUES)}"
CONNECT_SECONDS = "PRESIL_FARM_CONNECT"
MISSING = (
    "--farm needs the Python packages distributed and dask{more}, which are not installed ({error}): pip install "
    "'torch-presil[farm]' (in a source tree ./presil regress installs them)"
)
SUBMIT = {"slurm": "sbatch", "lsf": "bsub", "sge": "qsub", "pbs": "qsub", "htcondor": "condor_submit"}
SUBMIT |= {"oar": "oarsub", "moab": "msub"}
INTEGERS = ("cores", "processes", "jobs")


@dataclass
class Opened:
    name: str
    client: object
    cluster: object = None  # ours, ends with us
    fixed: bool = False  # its workers are not started by us

    def close(self) -> None:
        for thing in (self.client, self.cluster):
            if thing is not None:
                with contextlib.suppress(Exception):  # it may be gone
                    thing.close(timeout=10)


def parse(text: str) -> tuple[str, dict]:
    """(kind, options); of an address the kind is the address."""
    kind, *words = text.split(",")
    options = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--farm {text}: {word!r}: NAME=VALUE expected")
        options[name] = value.replace("+", ",")
        if name in INTEGERS:
            if not value.isdigit() or int(value) < 1:
                raise UsageError(f"--farm {text}: {name}={value}: a number of 1 or more expected")
            options[name] = int(value)
    if "://" in kind:
        scheme, _, place = kind.partition("://")
        host, colon, port = place.rpartition(":")
        if scheme not in ("dask", "tcp", "tls") or not host or not port.isdigit():
            raise UsageError(f"--farm {text}: dask://HOST:PORT expected, the scheduler's address")
        kind = f"tcp://{place}" if scheme == "dask" else kind
    elif kind != "local" and kind not in QUEUES:
        raise UsageError(f"--farm {text}: expected {FORMS}")
    if options and kind not in QUEUES:
        raise UsageError(f"--farm {text}: options are for farms of a queue ({', '.join(QUEUES)})")
    return kind, options


def connect(text: str, at_once: int | None, cores: int) -> Opened:
    """at_once: -j; cores: of this machine."""
    kind, options = parse(text)
    # Run as a file (cli.py) Python looks beside it first, and there is a distributed.py of ours.
    sys.path[:] = [place for place in sys.path if not place or Path(place).resolve() != PACKAGE]
    try:
        import distributed
    except ImportError as error:
        raise UsageError(MISSING.format(more="", error=error)) from error
    logging.getLogger("distributed").setLevel(os.environ.get("PRESIL_FARM_LOG", "CRITICAL").upper())
    if kind == "local":
        return _local(at_once or cores)
    if kind in QUEUES:
        return _queue(kind, options, at_once)
    seconds = float(os.environ.get(CONNECT_SECONDS) or 10)
    try:
        asyncio.run(_greet(kind, seconds))
        client = distributed.Client(kind, timeout=seconds, set_as_default=False)
    except Exception as error:  # noqa: BLE001 what answers may be anything
        raise UsageError(
            f"--farm {text}: no dask scheduler answers there within {seconds:g} s ({_short(error)}): 'dask scheduler' "
            f"starts one, 'dask worker {kind}' a worker on each machine (docs/farm.md)"
        ) from error
    opened = Opened(text, client, fixed=True)
    try:
        same_versions(text, client)
    except BaseException:
        opened.close()
        raise
    return opened


async def _greet(address: str, seconds: float) -> None:
    """What answers is a dask: a Client would wait for ever for one that takes the call and says nothing."""
    from distributed.core import connect
    from distributed.security import Security

    facts = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=seconds, **facts), seconds)
    await comm.close()


def _local(workers: int) -> Opened:
    from distributed import Client, LocalCluster

    main = sys.modules["__main__"]  # which multiprocessing would run in each worker again
    main.__spec__, main.__file__ = None, None
    facts = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    opened = Opened("local", None)
    resource_tracker.ensure_running()  # else the first worker starts it, and that unblocks Ctrl-C
    try:
        # A terminal sends Ctrl-C to all: it is the client's, which ends the workers. They inherit that it is blocked.
        with blocked(signal.SIGINT):
            opened.cluster = LocalCluster(silence_logs=logging.CRITICAL, **facts)
            opened.client = Client(opened.cluster, set_as_default=False)
    except BaseException:
        opened.close()
        raise
    return opened


def _queue(kind: str, options: dict, at_once: int | None) -> Opened:
    from shutil import which

    from distributed import Client

    try:
        import dask_jobqueue
    except ImportError as error:
        raise UsageError(MISSING.format(more=" and dask-jobqueue", error=error)) from error
    program = SUBMIT.get(kind)
    if program and not which(program):
        raise UsageError(f"--farm {kind}: there is no {program} on PATH: start this where jobs are submitted")
    facts = {"cores": 1, "memory": "2GB", **options}
    facts.setdefault("processes", facts["cores"])
    jobs = facts.pop("jobs", None) or -(-(at_once or 16) // facts["cores"])
    facts.setdefault("scheduler_options", {"dashboard_address": None})
    try:
        cluster = getattr(dask_jobqueue, QUEUES[kind])(silence_logs="critical", **facts)
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise UsageError(f"--farm {kind}: dask-jobqueue does not take this: {_short(error)}") from error
    opened = Opened(kind, None, cluster)
    try:
        # Not scale(): a job of the queue that ends (its time is over, its machine failed) is submitted again.
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs, interval="5s")
        opened.client = Client(cluster, set_as_default=False)
    except BaseException:
        opened.close()
        raise
    return opened


def same_versions(text: str, client) -> None:
    """dask needs the same on all sides; other versions may hang or fail anywhere."""
    import dask
    import distributed

    ours = {"distributed": distributed.__version__, "dask": dask.__version__}
    ours["python"] = platform.python_version().rpartition(".")[0]
    try:
        told = client.get_versions(check=False)
    except Exception as error:  # noqa: BLE001
        raise UsageError(f"--farm {text}: it doesn't tell its versions ({_short(error)}); here: {ours}") from error
    for who, theirs in [("the scheduler", told["scheduler"]), *told["workers"].items()]:
        packages = (theirs or {}).get("packages", {})
        for name, version in ours.items():
            found = str(packages.get(name, "unknown"))
            found = ".".join(found.split(".")[:2]) if name == "python" else found
            if found != version:
                raise UsageError(f"--farm {text}: {who} has {name} {found}, here is {version}: they must be the same")


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{type(error).__name__}: {text[:200]}" if type(error).__name__ not in text else text[:200]
