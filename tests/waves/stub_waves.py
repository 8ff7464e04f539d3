# SPDX-License-Identifier: Apache-2.0
"""Waveforms of a small chip that isn't ours, and the command that shows them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "sim" / "python"), str(ROOT / "torch_ext" / "torch_presil")]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
VIEW = Path(__file__).with_name("stub.toml")
BEATS = 64


@pytest.fixture(scope="session")
def stub_trace(tmp_path_factory):
    """stub_trace(name, memory model) -> path of the FST of a copy of 64 beats."""
    from presil_transport import IRQ, Transport

    folder = tmp_path_factory.mktemp("stub")
    made = {}

    def make(name: str, model: str = "default") -> Path:
        if name in made:
            return made[name]
        path = folder / f"{name}.fst"
        chip = Transport(BUILD / "lib" / "libpresil_sim_stub_trace.so", memory_model=model, memory_bytes=1 << 20)
        chip.memory_write(0, bytes(range(256)) * 64)
        chip.launch(1)
        chip.call("trace", str(path).encode(), 0, 2**64 - 1)
        for offset, value in ((0x08, 0), (0x0C, 0), (0x10, 0x8000), (0x14, 0), (0x18, BEATS), (0x1C, 1)):
            chip.write32(offset, value)
        assert chip.wait(100_000, 5000)[0] == IRQ
        chip.call("trace", None, 0, 0)
        chip.close()
        made[name] = path
        return path

    return make


def _runner(folder: Path, *program: str):
    def run(*arguments, status: int = 0, **environment):
        command = [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / program[0]), *program[1:]]
        environment = {**os.environ, "PRESIL_BUILD_DIR": str(BUILD), **environment}
        command += map(str, arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=folder, env=environment)
        assert done.returncode == status, done.stdout + done.stderr
        done.text = " ".join(done.stdout.split())
        return done

    return run


@pytest.fixture
def waves(tmp_path):
    """waves(*arguments) -> the finished process of `presil waves`, started in a folder of its own."""
    return _runner(tmp_path, "waves")


@pytest.fixture
def why(tmp_path):
    """Likewise of `presil why`."""
    return _runner(tmp_path, "cli.py", "why")
