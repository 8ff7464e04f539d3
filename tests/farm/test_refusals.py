# SPDX-License-Identifier: Apache-2.0
"""A farm that is not there, of other versions, of another instruction set, without dask: said before anything runs."""

import shutil
import socket
import struct
import subprocess
import sys

import pytest

from torch_presil.regress import exit_codes
from torch_presil.regress.exit_codes import UsageError
from torch_presil.regress.farm import address, isa
from torch_presil.regress.farm.cache import Cache
from torch_presil.regress.farm.node import _refusal

ZEN = isa.Machine("x86_64", set("sse4_2 ssse3 popcnt avx avx2 fma bmi1 bmi2 f16c abm movbe".split()), (2, 36), "a CPU")


def compiled(tmp_path, march: str) -> bytes:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    source, library = tmp_path / "x.c", tmp_path / f"{march}.so"
    source.write_text('#include <stdlib.h>\nint f(void) { return getenv("X") != 0; }\n')
    words = ["gcc", f"-march={march}", "-mneeded", "-shared", "-fPIC", str(source), "-o", str(library)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"gcc here does not say what a library needs: {done.stderr[:200]}")
    return library.read_bytes()


@pytest.mark.parametrize("march, lacks", [("x86-64-v2", ""), ("x86-64-v3", ""), ("x86-64-v4", "avx512")])
def test_a_library_tells_its_processor(tmp_path, march, lacks):
    found = isa.needs(compiled(tmp_path, march))
    assert found.machine == "x86_64" and (0, 0) < found.glibc <= (2, 36) and ("avx512f" in found.flags) == bool(lacks)
    have = isa.Machine(ZEN.machine, ZEN.flags | {"cx16", "lahf_lm", "sse4_1"}, ZEN.glibc, ZEN.model)
    why = isa.refusal(found.machine, dict.fromkeys(found.flags, "x.so"), found.glibc, have)
    assert (lacks in why and "PRESIL_MARCH" in why) if lacks else why == ""


def test_other_processors_and_systems_are_refused():
    arm = isa.needs(b"\x7fELF" + bytes(14) + struct.pack("<H", 183) + bytes(40))
    assert arm.machine == "aarch64" and "is x86_64" in isa.refusal(arm.machine, {}, (0, 0), ZEN)
    marked = isa.needs(b"\x7fELF" + bytes(14) + struct.pack("<H", 62) + b"presil-isa: avx2 gfni\0")
    assert marked.flags == {"avx2", "gfni"}
    assert "has no gfni, for which l.so" in isa.refusal("x86_64", dict.fromkeys(marked.flags, "l.so"), (0, 0), ZEN)
    assert "glibc is 2.36" in isa.refusal("x86_64", {}, (2, 41), ZEN)
    assert isa.needs(b"#!/bin/sh\n").machine == ""
    here = isa.this_machine()
    assert here.machine and here.glibc > (2, 0)
    wanted = {"machine": ZEN.machine, "flags": {}, "glibc": (2, 0)}
    assert _refusal(wanted, ZEN) == ""
    assert "Python" in _refusal({**wanted, "python": "3.1"}, ZEN)
    assert "its torch is" in _refusal({**wanted, "packages": {"torch": "1.0"}}, ZEN)
    assert "not installed" in _refusal({**wanted, "packages": {"no-such-package": "1"}}, ZEN)


def test_workers_of_another_instruction_set_get_nothing(place, cluster, tmp_path):
    library = tmp_path / "libpresil_sim_tiny_fast.so"
    library.write_bytes(b"\x7fELF" + bytes(14) + struct.pack("<H", 62) + b"\0presil-isa: no_such_thing\0")
    place.suite("one", {"case": "passes"})
    assert place.go("one", farm=cluster.farm, library=str(library)) == exit_codes.USAGE
    assert place.errors.count("has no no_such_thing, for which libpresil_sim_tiny_fast.so") == 2
    assert place.go("one", farm=cluster.farm) == 0


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("cloud", "expected local, dask://HOST:PORT"),
        ("dask://host", "dask://HOST:PORT expected"),
        ("slurm,cores", "NAME=VALUE expected"),
        ("slurm,cores=none", "a number of 1 or more expected"),
        ("local,cores=2", "options are for farms of a queue"),
    ],
)
def test_names_of_farms(place, text, wanted):
    place.suite("one", {"case": "passes"})
    assert place.go("one", farm=text) == exit_codes.USAGE and wanted in place.errors


def test_a_farm_that_is_not_there(place, monkeypatch):
    monkeypatch.setenv("PRESIL_FARM_CONNECT", "2")
    place.suite("one", {"case": "passes"})
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        assert place.go("one", farm=f"dask://127.0.0.1:{port}") == exit_codes.USAGE  # nothing listens
        assert "no dask scheduler answers there within 2 s" in place.errors and "dask worker" in place.errors
        silent.listen()
        assert place.go("one", farm=f"dask://127.0.0.1:{port}") == exit_codes.USAGE  # what listens is mute
        assert "no dask scheduler answers" in place.errors
    assert place.go(resume=True) == 0


def test_without_dask(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    place.suite("one", {"case": "passes"})
    assert place.go("one", farm="local") == exit_codes.USAGE
    assert "pip install 'torch-presil[farm]'" in place.errors
    assert place.go("one") == 0


def test_a_queue_that_is_not_here(place, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    place.suite("one", {"case": "passes"})
    assert place.go("one", farm="lsf") == exit_codes.USAGE and "there is no bsub on PATH" in place.errors


@pytest.mark.parametrize("who", ["scheduler", "worker"])
def test_other_versions_are_refused(who):
    import dask
    import distributed

    good = {"packages": {"distributed": distributed.__version__, "dask": dask.__version__}}
    good["packages"]["python"] = ".".join(map(str, sys.version_info[:3])) + ".final.0"
    bad = {"packages": {**good["packages"], "distributed": "2020.1.0"}}

    class Client:
        def get_versions(self, check):
            return {
                "scheduler": bad if who == "scheduler" else good,
                "workers": {"w": bad if who == "worker" else good},
            }

    with pytest.raises(UsageError, match="has distributed 2020.1.0, here is"):
        address.same_versions("dask://x:1", Client())
    bad["packages"]["distributed"] = distributed.__version__
    address.same_versions("dask://x:1", Client())


def test_bytes_that_came_wrong_are_not_kept(tmp_path):
    import hashlib

    right = b"x" * 10000
    digest = hashlib.sha256(right).hexdigest()
    given = [right[:5000] + b"y" + right[5001:]]
    cache = Cache(tmp_path, lambda digest, offset: (given[0][offset : offset + 4096], len(given[0])))
    with pytest.raises(OSError, match="with other bytes"):
        cache.file(digest)
    assert not list((tmp_path / "files").iterdir())
    given[0] = right
    assert cache.file(digest).read_bytes() == right
    given[0] = b""
    assert cache.file(digest).read_bytes() == right
    gone = Cache(tmp_path / "other", lambda digest, offset: None)
    with pytest.raises(OSError, match="has no artifact"):
        gone.file(digest)
