# SPDX-License-Identifier: Apache-2.0
"""The device without Python: what its library links, find_package(Presil), and a C++ program that runs models."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from cmake_project import BUILD, build, built
import torch_presil  # noqa: F401  (torchvision needs its operators)
import torchvision

HERE = Path(__file__).parent
LIBRARY = BUILD / "python" / "torch_presil" / "libtorch_presil.so"


def needed(path: Path) -> set:
    text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return {line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line}


def test_the_library_does_not_need_python():
    assert {"libpresil.so.0", "libtorch_cpu.so", "libc10.so"} <= needed(LIBRARY)
    loaded = subprocess.run(
        ["ldd", LIBRARY], capture_output=True, text=True, check=True
    ).stdout  # and nothing that it needs does
    assert "libtorch_cpu.so" in loaded and "not found" not in loaded
    assert "python" not in " ".join(line.split("=>")[0] for line in loaded.splitlines())
    undefined = subprocess.run(
        ["nm", "-D", "--undefined-only", LIBRARY], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not [name for name in undefined if name.startswith(("Py", "_Py", "THP"))]
    assert any("libtorch_python" in name for name in needed(LIBRARY.with_name("_C.so")))  # the test would see it


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return built(HERE, tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    model = torch.jit.script(torchvision.models.resnet18(weights=None).eval())
    torch.jit.save(model, folder / "scripted.pt")
    torch.jit.save(torch._C._jit_to_backend("presil", model, {"forward": ""}), folder / "lowered.pt")
    return folder


def run(program: Path, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, env={**environment, "PRESIL_MODE": "model"}, timeout=300
    )


def test_resnet18_scripted_and_lowered(programs, models):
    result = run(programs / "run_model", models / "scripted.pt", models / "lowered.pt")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "python=0" in result.stdout and "devices=1" in result.stdout
    assert int(result.stdout.split("twin_threads=+")[1]) >= 2, "at::set_num_threads(3) gives the twin threads too"


def test_status_tells_what_went_wrong(programs, models, tmp_path):
    assert run(programs / "run_model").returncode == 2
    missing = run(programs / "run_model", tmp_path / "none.pt", tmp_path / "none.pt")
    assert missing.returncode == 3 and "none.pt" in missing.stderr
    other = torch.jit.script(torchvision.models.resnet18(weights=None).eval())  # other weights
    torch.jit.save(other, tmp_path / "other.pt")
    assert run(programs / "run_model", tmp_path / "other.pt", models / "lowered.pt").returncode == 1


def test_the_driver_alone(programs):
    result = run(programs / "driver_only")
    assert (result.returncode, result.stdout) == (0, "base 64 lanes\n"), result.stderr
    assert not [name for name in needed(programs / "driver_only") if "torch" in name]


@pytest.mark.parametrize(
    "request_, text",
    [("Presil REQUIRED COMPONENTS warp", "no component 'warp', it has: .*driver"), ("Presil 0.2 REQUIRED", "version")],
)
def test_find_package_says_what_it_lacks(tmp_path, request_, text):
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(x C)\nfind_package({request_})\n"
    )
    result = build(tmp_path, tmp_path / "build")
    assert result.returncode != 0
    assert re.search(text, " ".join(result.stderr.split())), result.stderr
