# SPDX-License-Identifier: Apache-2.0
"""What is said when packages don't fit each other, the wheel's platform tag, and what a bundle refuses."""

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
PACKAGE = BUILD / "python" / "torch_presil"
sys.path.insert(0, str(ROOT / "torch_ext" / "packaging"))
import presil_wheel  # noqa: E402


def python(*arguments, path=PACKAGE.parent, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PRESIL_") and k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **clean,
            "PYTHONPATH": str(path),
            "PRESIL_MODE": "model",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            **environment,
        },
    )


@pytest.fixture
def package(tmp_path):
    """A package like the built one whose facts can be changed."""

    def make(**facts):
        place = tmp_path / "site" / "torch_presil"
        place.mkdir(parents=True)
        for source in PACKAGE.iterdir():
            if source.name not in ("build.json", "__pycache__"):
                (place / source.name).symlink_to(source.resolve())
        (place / "build.json").write_text(json.dumps({**json.loads((PACKAGE / "build.json").read_text()), **facts}))
        return place.parent

    return make


WRONG = [
    ({"torch": "2.12.0"}, "built for torch 2.12.0, found 2.13.0"),
    ({"cxx11_abi": False}, "_GLIBCXX_USE_CXX11_ABI=0, this torch with 1"),
    ({"python": "3.10"}, "built for Python 3.10, this is 3.11"),
]


@pytest.mark.parametrize("facts, text", WRONG, ids=["torch", "abi", "python"])
def test_what_does_not_fit_is_said_before_it_loads(package, facts, text):
    site = package(**facts)
    done = python(
        "-c",
        "import sys\ntry:\n    import torch_presil\nexcept ImportError as error:\n    print(error)\n"
        "print('torch_presil._C' in sys.modules)",
        path=site,
    )
    assert (
        done.returncode == 0
        and text in done.stdout
        and "rebuild torch_presil" in done.stdout
        and done.stdout.endswith("False\n")
    )
    said = python("-m", "torch_presil.diagnose", "--json", path=site)
    report = json.loads(said.stdout)
    assert said.returncode == 1 and not report["ok"] and not report["device"]["loaded"]
    assert [p for p in report["problems"] if p["severity"] == "error" and text in p["text"]], report["problems"]


def test_a_missing_symbol_is_explained(package, tmp_path):
    site = package()
    (tmp_path / "x.c").write_text("int absent_symbol(void); int PyInit__C(void) { return absent_symbol(); }\n")
    (site / "torch_presil" / "_C.so").unlink()
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", site / "torch_presil" / "_C.so", tmp_path / "x.c"], check=True)
    done = python("-c", "import torch_presil", path=site)
    assert (
        "lacks a symbol that the torch which torch_presil was built with" in done.stderr
        and "absent_symbol" in done.stderr
    )


@pytest.mark.parametrize(
    "before, name",
    [
        ("torch.utils.rename_privateuse1_backend('rival')", "'rival'"),
        (
            "l = torch.library.Library('aten', 'IMPL'); l.impl('empty.memory_format', lambda *a, **k: None, "
            "'PrivateUse1')",
            "did not name itself",
        ),
    ],
)
def test_another_backend_is_named(before, name):
    done = python("-c", f"import torch\n{before}\nimport torch_presil")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ImportError: the PrivateUse1 backend") and name in last


def test_no_object_of_the_extension_waits_for_the_python_module():
    """The export list comes of the module's objects. Only the link needs it: as a source of the library it held up
    every object, and one of two processors was idle for a quarter of the build."""
    ninja = next(
        line.split("=", 1)[1]
        for line in (BUILD / "CMakeCache.txt").read_text().splitlines()
        if line.startswith("CMAKE_MAKE_PROGRAM:")
    )

    def inputs(target):
        done = subprocess.run([ninja, "-C", BUILD, "-t", "query", target], capture_output=True, text=True, check=True)
        return done.stdout.split("outputs:")[0]

    library = (PACKAGE / "libtorch_presil.so").relative_to(BUILD)
    assert "libtorch_presil.map" in inputs(library)
    first = inputs("cmake_object_order_depends_target_torch_presil")
    assert "refused_operators.inc" in first and "libtorch_presil.map" not in first and "_C_objects" not in first


def test_diagnose_of_what_works():
    said = python("-m", "torch_presil.diagnose", "--json")
    report = json.loads(said.stdout)
    assert said.returncode == 0 and report["ok"], report["problems"]
    assert report["versions"]["built_with"]["torch"] == "2.13.0" and report["device"] == {
        **report["device"],
        "loaded": True,
        "devices": 1,
        "mode": "model",
        "chip": "base",
    }
    assert report["cpu"]["level"] >= "x86-64-v2" and report["driver"]["loads"]
    assert report["computing"] == {"mode": "model", "products": 4, "verified": 0, "cycles": 0}
    text = python("-m", "torch_presil.diagnose", PRESIL_MODE="rtl", PRESIL_CHIP="tiny")
    assert text.returncode == 0 and "Traceback" not in text.stderr, text.stdout
    assert text.stdout.endswith("the device works: 4 products, the RTL's bits are the twin's\n")


def test_diagnose_computes_before_it_says_that_the_device_works(tmp_path):
    """A library that loads, and is of another chip than its name says."""
    shutil.copy(BUILD / "lib" / "libpresil_sim_tiny_fast.so", tmp_path / "libpresil_sim_base_fast.so")
    said = python("-m", "torch_presil.diagnose", "--json", PRESIL_LIBRARY_PATH=str(tmp_path), PRESIL_MODE="rtl")
    report = json.loads(said.stdout)
    assert said.returncode == 1 and not report["ok"] and report["simulators"]["libraries"] == {"base_fast": "ok"}
    assert [p["text"] for p in report["problems"] if "computing on the chip failed" in p["text"]], report["problems"]


def test_diagnose_sees_broken_and_missing_simulators(tmp_path):
    (tmp_path / "libpresil_sim_base_check.so").write_text("not a library")
    said = python("-m", "torch_presil.diagnose", "--json", PRESIL_LIBRARY_PATH=str(tmp_path), PRESIL_MODE="rtl")
    report = json.loads(said.stdout)
    texts = " ".join(p["text"] for p in report["problems"])
    assert (
        said.returncode == 1
        and "simulator library base_check: " in texts
        and "needs the simulator library libpresil_sim_base_fast.so" in texts
        and "PRESIL_MODE=model" in texts
    )


def test_a_simulator_for_another_processor_is_refused(tmp_path):
    """A library that the linker marked for a level of x86-64 above all that there are."""
    (tmp_path / "x.c").write_text("int presil_transport_entry(void) { return 0; }\n")
    made = tmp_path / "libpresil_sim_base_fast.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-z,x86-64-v2", "-o", made, tmp_path / "x.c"], check=True)
    note = bytes.fromhex("028000c004000000")  # GNU_PROPERTY_X86_ISA_1_NEEDED, four bytes
    data = made.read_bytes()
    at = data.index(note) + len(note)
    made.write_bytes(data[:at] + bytes([data[at] | 0x80]) + data[at + 1 :])
    done = python(
        "-c",
        "import torch, torch_presil\nx = torch.ones(2, 2, device='presil'); (x @ x).cpu()",
        PRESIL_LIBRARY_PATH=str(tmp_path),
        PRESIL_MODE="rtl",
    )
    assert (
        done.returncode == 1
        and "built for a processor that has instructions which this one lacks: build it on this machine" in done.stderr
    ), done.stderr
    report = json.loads(
        python("-m", "torch_presil.diagnose", "--json", PRESIL_LIBRARY_PATH=str(tmp_path), PRESIL_MODE="rtl").stdout
    )
    assert "instructions which this one lacks: build it here" in report["simulators"]["libraries"]["base_fast"]


# ---- the wheel


def library(folder: Path, code: str, *options: str) -> Path:
    (folder / "x.c").write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "x.so", folder / "x.c", *options], check=True)
    return folder / "x.so"


def write_wheel(file: Path, libraries: dict[str, Path]) -> Path:
    """A wheel without digests, as a build leaves it to be tagged."""
    name = "-".join(file.name.split("-")[:2])
    texts = {
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
        f"{name}.dist-info/METADATA": "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(*name.split("-")),
    }
    with zipfile.ZipFile(file, "w") as archive:
        for at, path in libraries.items():
            archive.write(path, at)
        for at, text in texts.items():
            archive.writestr(at, text)
        archive.writestr(
            f"{name}.dist-info/RECORD", "".join(f"{at},,\n" for at in (*libraries, *texts, f"{name}.dist-info/RECORD"))
        )
    return file


@pytest.fixture
def wheel(tmp_path):
    def make(code: str, *options: str) -> Path:
        return write_wheel(
            tmp_path / "thing-1.0-cp311-cp311-linux_x86_64.whl", {"thing/x.so": library(tmp_path, code, *options)}
        )

    return make


@pytest.mark.parametrize(
    "code, options, tag",
    [
        ("int f(void) { return 1; }", (), "manylinux_2_5_x86_64"),
        # The reference is to that version of the symbol whatever the compiling system's default is. No platform is
        # named 2.25: the next one.
        (
            '#include <unistd.h>\n__asm__(".symver getentropy, getentropy@GLIBC_2.25"); int f(char *p) { return '
            "getentropy(p, 1); }",
            (),
            "manylinux_2_26_x86_64",
        ),
        # glibc 2.38 goes with gcc 12's libstdc++ still, which ends at 3.4.30.
        (
            "int newer(void); int f(void) { return newer(); }",
            ("-Wl,--no-as-needed", "libstdc++.so.6"),
            "manylinux_2_39_x86_64",
        ),
    ],
)
def test_the_tag_follows_the_symbols(wheel, tmp_path, monkeypatch, code, options, tag):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "newer.map").write_text("GLIBCXX_3.4.32 { global: newer; local: *; };")
    library(
        tmp_path, "int newer(void) { return 1; }", "-Wl,-soname,libstdc++.so.6", "-Wl,--version-script=newer.map"
    ).rename("libstdc++.so.6")
    made = presil_wheel.retag(wheel(code, *options))
    assert (
        made.name == f"thing-1.0-cp311-cp311-{tag}.whl"
        and not (tmp_path / "thing-1.0-cp311-cp311-linux_x86_64.whl").exists()
    )
    with zipfile.ZipFile(made) as archive:
        assert f"Tag: cp311-cp311-{tag}\n" in archive.read("thing-1.0.dist-info/WHEEL").decode()
        rows = list(csv.reader(archive.read("thing-1.0.dist-info/RECORD").decode().splitlines()))
        assert {row[0] for row in rows} == {name for name in archive.namelist() if not name.endswith("/")}
        for name, digest, size in rows:
            if not name.endswith("RECORD"):
                data = archive.read(name)
                assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(
                    b"="
                ).decode() and int(size) == len(data)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--platform",
            tag,
            "--target",
            tmp_path / "site",
            made,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and (tmp_path / "site" / "thing" / "x.so").exists(), done.stderr


def test_a_foreign_library_is_refused(wheel, tmp_path):
    other = library(tmp_path, "int f(void) { return 1; }", "-Wl,-soname,libutil_of_mine.so.1").rename(
        tmp_path / "libutil_of_mine.so"
    )
    with pytest.raises(ValueError, match="thing/x.so needs libutil_of_mine.so.1, which another machine may lack"):
        presil_wheel.retag(wheel("int f(void); int g(void) { return f(); }", str(other)))


def test_our_own_libraries_have_a_tag(tmp_path):
    file = tmp_path / "torch_presil-1.0-cp311-cp311-linux_x86_64.whl"
    ours = [BUILD / "lib" / f"libpresil{part}.so.0" for part in ("", "_bundle", "_capture", "_jobs", "_store")]
    tag = presil_wheel.platform_tag(
        write_wheel(file, {f"torch_presil/{path.name}": path for path in (*PACKAGE.glob("*.so"), *ours)})
    )
    assert tag.startswith("manylinux_2_") and tag.endswith("_x86_64")
    glibc = float(os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[1])
    assert int(tag.split("_")[2]) <= max(glibc, 39)


def test_a_bundle_spares_other_files(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    done = subprocess.run([ROOT / "presil", "bundle", tmp_path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "holds other files" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_bundle_refuses_another_python(tmp_path):
    script = tmp_path / "install"
    subprocess.run(["bash", "-c", f"source {ROOT}/presil; write_install 3.99 {script}"], check=True)
    done = subprocess.run(
        [script, tmp_path / "new"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PRESIL_PYTHON": sys.executable},
    )
    assert (
        done.returncode == 2 and "these wheels are for Python 3.99" in done.stderr and not (tmp_path / "new").exists()
    )


def test_a_bundle_names_the_missing_venv(tmp_path):
    """Debian's Python without python3-venv."""
    version = "{}.{}".format(*sys.version_info)
    script, bare = tmp_path / "install", tmp_path / "python"
    subprocess.run(["bash", "-c", f"source {ROOT}/presil; write_install {version} {script}"], check=True)
    bare.write_text(f'#!/bin/sh\ncase $2 in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"\n')
    bare.chmod(0o755)
    done = subprocess.run(
        [script, tmp_path / "new"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PRESIL_PYTHON": str(bare)},
    )
    assert (
        done.returncode == 2
        and f"apt-get install python{version}-venv" in done.stderr
        and len(done.stderr.splitlines()) == 1
        and not (tmp_path / "new").exists()
    )


@pytest.mark.parametrize("name, given", [("toy_fast", True), ("toy_check", True), ("toy_two_fast", False)])
def test_a_simulator_of_another_chip_is_not_this_ones(name, given, tmp_path):
    (tmp_path / f"libpresil_sim_{name}.so").touch()
    ask = "from torch_presil import simulators; print(simulators._is_given('toy'))"
    done = python("-c", ask, PRESIL_LIBRARY_PATH=str(tmp_path))
    assert done.stdout.strip() == str(given), done.stderr
    done = python("-c", ask, PRESIL_LIBRARY_PATH=str(tmp_path), PRESIL_CACHE=str(tmp_path))
    assert done.stdout.strip() == "False", done.stderr
