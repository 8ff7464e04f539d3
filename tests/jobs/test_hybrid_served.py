# SPDX-License-Identifier: Apache-2.0
"""Mode hybrid with chips behind sockets: they say what their cycles depend on as the simulator in the process does, and
whoever comes in a server's place says it anew."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_hybrid import BUILD, rows

START_SECONDS = 100
LIBRARY = BUILD / "lib" / "libpresil_sim_tiny_fast.so"


class Server:
    def __init__(self, path: Path, library: Path, *arguments: str):
        path.unlink(missing_ok=True)
        command = [BUILD / "bin" / "presil-serve", path, "--library", library, "--quiet", *arguments]
        self.path, self.process = path, subprocess.Popen(command)
        until = time.monotonic() + START_SECONDS
        while not path.exists():
            assert time.monotonic() < until and self.process.poll() is None
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def other_rtl(folder: Path) -> Path:
    """The same library but for a digit of its sources' hash."""
    library = LIBRARY.read_bytes()
    found = library.index(b"rtl=") + len(b"rtl=")
    digit = b"0" if library[found : found + 1] != b"0" else b"1"
    made = folder / "other" / LIBRARY.name
    made.parent.mkdir()
    made.write_bytes(library[:found] + digit + library[found + 1 :])
    return made


@pytest.fixture
def store(tmp_path):
    return tmp_path / "timings.sqlite"


def alone(script: str, store: Path, **environment) -> list:
    """What a process says: its transport can't change once it is used."""
    code = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nSTORE = {str(store)!r}\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FORWARD = """
import json, torch, torch_presil
from test_hybrid import _C, forwards, network, numbers
for name, value in {settings}.items():
    setattr(torch.backends.presil, name, value)
results, reports = forwards(network().to("presil"), 1)
stats = _C.jobs_stats(0)
known = [stats[name] for name in ("known", "sampled", "unknown", "never")]
print(json.dumps([known, numbers(reports), results[0].tolist()]))
"""


def hybrid(store: Path, path: Path | None, sample: float = 0.0) -> dict:
    """The environment: a device that has begun in another mode holds the server."""
    settings = {"PRESIL_STORE": str(store), "PRESIL_STORE_SAMPLE": str(sample), "PRESIL_STORE_SEED": "1"}
    settings |= {"PRESIL_MODE": "hybrid", "PRESIL_JOBS": "1"}
    return settings | ({"PRESIL_TRANSPORT": f"socket:{path}"} if path else {})


def forward(store: Path, path: Path | None, sample: float = 0.0, **settings) -> list:
    """[how many launches were known, sampled, unknown, can't be known; numbers; result]"""
    return alone(FORWARD.format(settings=settings), store, **hybrid(store, path, sample))


@pytest.mark.parametrize("arguments", [(), ("--copy",)])
def test_what_a_served_chip_ran_is_known_in_process(store, tmp_path, arguments):
    with Server(tmp_path / "a", LIBRARY, *arguments) as server:
        there, again = forward(store, server.path), forward(store, server.path, sample=1.0)
    here = forward(store, None)
    assert there[0] == [0, 0, 3, 0] and again[0] == [0, 3, 0, 0] and here[0] == [3, 0, 0, 0]
    assert there[1:] == again[1:] == here[1:]


def test_another_memory_model_of_a_served_chip_is_another_key(store, tmp_path):
    with Server(tmp_path / "a", LIBRARY) as server:
        for change in ({}, {"memory_model": "ideal"}, {"memory_model_seed": 9}):
            assert forward(store, server.path, **change)[0] == [0, 0, 3, 0]
        assert forward(store, server.path)[0] == [3, 0, 0, 0]


REPLACED = """
import json, os, signal, time, torch
from test_hybrid import P, _C, rows
from test_hybrid_served import Server
from pathlib import Path
ran = []
x = torch.randn(16, 32, dtype=torch.bfloat16).to("presil")
with torch.inference_mode():
    for width in (8, 16, 24, 40):
        weight = torch.ones(width, 32, dtype=torch.bfloat16).to("presil")
        torch.nn.functional.linear(x, weight).cpu()
        try:
            P.synchronize()
            ran.append(width)
        except RuntimeError as error:  # its server has gone
            assert "EDEAD" in str(error) or "ESTOPPED" in str(error), error
        if width == 8:
            assert len(rows(STORE)) == 1
            os.kill({process}, signal.SIGKILL)
            second = Server(Path({path!r}), Path({library!r}))
    stats = _C.jobs_stats(0)
second.kill()
print(json.dumps([ran, stats["never"], stats["unknown"]]))
"""


def test_who_comes_in_a_servers_place_keeps_nothing_under_its_name(store, tmp_path):
    """The second server has other RTL: what it runs is right, and is no number of the first one's."""
    library = other_rtl(tmp_path)
    with Server(tmp_path / "a", LIBRARY) as server:
        path = str(server.path)
        script = REPLACED.format(process=server.process.pid, path=path, library=str(library))
        ran, *_ = alone(script, store, **hybrid(store, server.path))
    assert ran[0] == 8 and ran[-1] == 40, ran
    assert len(rows(store)) == 1, "cycles of the other RTL were kept as those of the first"
