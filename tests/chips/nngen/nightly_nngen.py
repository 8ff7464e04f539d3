# SPDX-License-Identifier: Apache-2.0
"""RTL that nobody here wrote, behind Presil by docs/own-chip.md: NNgen (the group "nngen" of pyproject.toml, installed
into a Python of its own) generates it, `new-chip --top` reads its ports; then conform, a PyTorch layer whose launches
are compared, a second shape, and a fault that is found and replayed. `./presil test --stage nightly-nngen`."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check")).resolve()
CLI = ROOT / "torch_ext" / "torch_presil" / "cli.py"
# What the chip has not; each is skipped with its reason.
LACKS = {"register-absent", "bus-errors", "copy", "conv", "layouts", "pool", "conv-transpose", "depthwise"}
LACKS |= {"weight-gradient", "elementwise", "reduction", "softmax", "norm", "gather", "steps", "activations", "scratch"}
LACKS |= {"queue", "timing", "usage", "work", "pool-index"}


def run(*words, status: int = 0, **environment) -> str:
    place = {"PRESIL_BUILD_DIR": str(BUILD), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=os.environ | place | environment)
    assert done.returncode == status, f"{words}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def generator() -> Path:
    """A Python with NNgen, kept in the build tree as long as pyproject.toml pins the same."""
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["nngen"]
    folder = BUILD / "nngen"
    stamp, python = folder / "pins.json", folder / "bin" / "python"
    if not stamp.exists() or json.loads(stamp.read_text()) != [*pins, sys.version]:
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", folder)
        run(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", *pins)
        stamp.write_text(json.dumps([*pins, sys.version]))
    return python


@pytest.fixture(scope="session")
def made(generator, tmp_path_factory):
    """made(name, *targets, shape=…, fault=…) -> the build folder of a project of its own with that accelerator."""

    def make(name: str, *targets: str, shape: tuple = (), fault: tuple = ()) -> Path:
        folder = tmp_path_factory.mktemp(name)
        rtl = folder / "rtl"
        run(generator, HERE / "generate.py", rtl, *shape)
        if fault:
            text = (rtl / "nnmac.v").read_text()
            assert fault[0] in text, "NNgen writes its multipliers in another way: plant the fault anew"
            (rtl / "nnmac.v").write_text(text.replace(*fault, 1))
        said = run(sys.executable, CLI, "new-chip", "--top", rtl / "nnmac.v", "--out", rtl / "ports.toml")
        assert "would refuse" not in said, said
        options = f"-DNNMAC_RTL={rtl}", f"-DPresil_DIR={BUILD / 'cmake'}", f"-DPython3_EXECUTABLE={sys.executable}"
        run("cmake", "-G", "Ninja", "-S", HERE, "-B", folder / "build", *options)
        run("cmake", "--build", folder / "build", *(word for target in targets for word in ("--target", target)))
        return folder / "build"

    return make


@pytest.fixture(scope="session")
def build(made):
    return made("nnmac")


def layer(build: Path, *sizes: int, status: int = 0, **environment) -> dict | str:
    place = {"PRESIL_LIBRARY_PATH": str(build), "PRESIL_CHIP": "nnmac", "PRESIL_MODE": "verify"}
    said = run(sys.executable, HERE / "layer.py", *sizes, status=status, **place, **environment)
    return said if status else json.loads(said.split("RESULT ")[1])


def test_it_conforms(build, tmp_path):
    out = tmp_path / "conform.json"
    for level in ("transport", "chip"):
        words = "conform", build / "libpresil_sim_nnmac_check.so", "--level", level, "--json", out
        said = run(sys.executable, CLI, *words)
        rows = json.loads(out.read_text())["checks"]
        skipped = {row["check"] for row in rows if row["status"] == "skipped"}
        assert skipped == LACKS & {row["check"] for row in rows}, said
        assert not [row for row in rows if row["status"] == "failed"], said
        assert sum(row["status"] == "passed" for row in rows) >= {"transport": 28, "chip": 12}[level], said


@pytest.mark.parametrize("rows, starts", [(8, 1), (9, 2), (20, 3), (64, 8)])
def test_a_layer_is_computed_by_it(rows, starts, build):
    found = layer(build, rows)
    (launch,) = found["launches"]
    assert found["equal"] and found["where"] == "chip", found
    assert (launch["segments"], launch["verified"], launch["status"]) == (starts, 1, 0), launch
    assert launch["cycles"] > 0


def test_too_few_rows_are_the_hosts(build):
    found = layer(build, 7)
    assert found["equal"] and found["where"] == "host" and "M is 7" in found["why"] and not found["launches"], found


def test_another_shape_needs_no_other_c(made):
    build = made("small", "presil_sim_nnmac_fast", "presil_chip_nnmac", shape=(3, 12, 5, 1, 1))
    found = layer(build, 7, 12, 5)
    assert found["equal"] and found["launches"][0]["verified"] == 1 and found["launches"][0]["segments"] == 3, found
    assert layer(build, 7, 64, 32)["where"] == "host"


def test_the_c_of_another_shape_is_refused(made, build, tmp_path):
    """A library of [8, 64, 32] and RTL of [3, 12, 5]: probe() sees it by the size of the tensors."""
    other = made("other", "presil_sim_nnmac_fast", shape=(3, 12, 5, 1, 1))
    shutil.copy(other / "libpresil_sim_nnmac_fast.so", tmp_path)
    shutil.copy(build / "libpresil_chip_nnmac.so", tmp_path)
    assert "not nnmac of [8, 64] by [64, 32]" in layer(tmp_path, status=1)


def test_a_planted_fault_is_found_and_replayed(made, build, tmp_path):
    fault = "assign _mul = _a * _b;", "assign _mul = _a * _b + (_a == 77);"
    faulty = made("faulty", "presil_sim_nnmac_fast", "presil_chip_nnmac", fault=fault)
    said = layer(faulty, status=1, PRESIL_CAPTURE_FAILURES=str(tmp_path))
    assert "chip and reference differ: output [0, 0, " in said, said
    (bundle,) = tmp_path.glob("*.presil")
    replay = BUILD / "bin" / "presil-replay", bundle, "--library"
    assert "output [0, 0, " in run(*replay, faulty / "libpresil_sim_nnmac_fast.so", status=1)
    run(
        *replay, build / "libpresil_sim_nnmac_fast.so"
    )  # the sound RTL gives what the reference said, in as many cycles
