# SPDX-License-Identifier: Apache-2.0
"""`pip install .` gives a package that stands alone: no build tree, no path into the sources, loaded by `import torch`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The package in a directory of its own, with the smallest chip only."""
    place = tmp_path_factory.mktemp("pip")
    # Packages that it needs are those of .venv; a build that must download torch again would prove no more.
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "--target", str(place / "site"),
               "-C", f"build-dir={place / 'build'}", "-C", "cmake.define.PRESIL_SIM_CONFIGS=tiny", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return place / "site"


def run(installed: Path, code: str, before: str = "") -> str:
    """Output of code with the package at hand; directories of `before` come first on the path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRESIL_")}
    environment.update(PYTHONPATH=f"{before}:{installed}", PRESIL_CHIP="tiny", PRESIL_MODE="verify")
    done = subprocess.run([sys.executable, "-c", code], cwd=installed.parent, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_import_torch_is_enough(installed):
    assert run(installed, "import torch; print(torch.ones(2, device='presil').sum().item(), torch.presil.__file__)") == f"2.0 {installed}/torch_presil/device/__init__.py"


@pytest.mark.parametrize("first, second", [("torch", "torch_presil"), ("torch_presil", "torch")])
def test_either_import_may_come_first(installed, first, second):
    assert run(installed, f"import {first}; import {second}; import torch; print(torch.ones(2, device='presil').sum().item())") == "2.0"


def test_a_broken_device_does_not_break_torch(installed, tmp_path):
    (tmp_path / "torch_presil").mkdir()
    (tmp_path / "torch_presil" / "__init__.py").write_text("raise ImportError('built for another torch')\n")
    code = ("import warnings; warnings.simplefilter('ignore')\nwith warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always')\n"
            "    import torch\nprint(torch.ones(2).sum().item(), [str(w.message) for w in seen if 'presil' in str(w.message)])")
    assert run(installed, code, str(tmp_path)) == "2.0 ['the device presil is not available: ImportError: built for another torch']"


def test_the_chip_runs(installed):
    code = ("import torch; torch.manual_seed(0); a, b = torch.randn(20, 30), torch.randn(30, 17); "
            "print((a.to('presil') @ b.to('presil')).cpu().sub(a @ b).abs().max().item() < 1e-4)")
    assert run(installed, code) == "True"


def test_nothing_points_into_the_sources(installed):
    libraries = list(installed.rglob("*.so*"))
    assert {"_C.so", "libtorch_presil.so", "libpresil_sim_tiny_fast.so"} <= {path.name for path in libraries}
    assert len([path for path in libraries if path.name.startswith("libpresil.so")]) == 1
    for path in libraries:
        assert str(ROOT / "build").encode() not in path.read_bytes(), path


def test_the_command_is_there(installed):
    said = run(installed, "import sys; sys.argv = ['presil', '--help']; from importlib.metadata import distribution; "
               "distribution('torch-presil').entry_points.select(group='console_scripts')['presil'].load()()")
    assert "demo" in said and "cosim" in said
