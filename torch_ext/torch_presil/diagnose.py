# SPDX-License-Identifier: Apache-2.0
"""python -m torch_presil.diagnose [--json]: versions, ABI, chips, simulator libraries, compiler, what is wrong,
and a matrix product and a convolution on the chip, whose bits are compared with the C twin's.

Exit status: 0 if the device works, 1 if it doesn't. Each problem says what to do.
"""

import argparse
import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch_presil
from torch_presil import loading, simulators

# Of /proc/cpuinfo, what each level of x86-64 adds.
LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
TOOLS = ("g++", "make", "cmake", "ninja")


class Report:
    """sections: name -> {key: value}; problems: {"severity": "error" or "warning", "text"}."""

    def __init__(self):
        self.sections, self.problems = {}, []

    def error(self, text: str) -> None:
        self.problems.append({"severity": "error", "text": text})

    def warn(self, text: str) -> None:
        self.problems.append({"severity": "warning", "text": text})

    @property
    def ok(self) -> bool:
        return not any(p["severity"] == "error" for p in self.problems)

    def as_dict(self) -> dict:
        return {"ok": self.ok, **self.sections, "problems": self.problems}


def versions(report: Report) -> None:
    out = report.sections["versions"] = {
        "python": platform.python_version(),
        "torch": None,
        "torch_presil": None,
        "glibc": "".join(platform.libc_ver()[1:]),
    }
    try:
        import torch

        out["torch"] = torch.__version__
        out["torch_git"] = torch.version.git_version
        out["torch_cxx11_abi"] = torch.compiled_with_cxx11_abi()
        out["torch_path"] = str(Path(torch.__file__).parent)
    except ImportError as error:
        report.error(f"torch can't be imported: {error}")
    try:
        directory = loading.native_directory()
        facts = loading.build_facts(directory)
        out["torch_presil"] = facts["version"]
        out["torch_presil_path"] = str(directory)
        out["built_with"] = facts
        if out["torch"] and facts["torch_git"] != out["torch_git"] and out["torch"].split("+")[0] == facts["torch"]:
            report.warn(
                f"torch {facts['torch']} was built from another commit ({out['torch_git'][:10]}) than the one "
                f"torch_presil was built with ({facts['torch_git'][:10]})"
            )
    except ImportError as error:
        report.error(str(error))


def backend(report: Report) -> None:
    """Whether the device is there, and who else wants its place."""
    out = report.sections["device"] = {
        "loaded": torch_presil.load_error is None,
        "devices": 0,
        "mode": None,
        "chip": None,
        "build": None,
        "transport": None,
    }
    try:
        installed = [e.name for e in metadata.entry_points(group="torch.backends")]
    except Exception as error:  # a broken distribution of somebody else's
        installed = [f"unreadable: {error}"]
    out["installed_backends"] = sorted(installed)
    others = sorted(set(installed) - {"torch_presil"})
    if others:
        report.warn(
            f"other device backends are installed, which `import torch` loads too: {', '.join(others)}; if one of "
            f"them is a PrivateUse1 backend, the two exclude each other"
        )
    if torch_presil.load_error is not None:
        if str(torch_presil.load_error) not in [p["text"] for p in report.problems]:
            report.error(str(torch_presil.load_error))
        return
    import torch

    out["devices"] = torch.presil.device_count()
    settings = torch_presil._C
    out.update(
        mode=settings.get_mode(),
        chip=settings.get_chip(),
        build=settings.get_build(),
        transport=settings.get_transport(),
    )


def cpu(report: Report) -> None:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    flags = set(m.group(1).split()) if (m := re.search(r"^flags\s*:(.*)$", text, re.M)) else set()
    level = "x86-64"
    for name, needs in LEVELS.items():
        if not needs <= flags:
            break
        level = name
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.M)
    report.sections["cpu"] = {
        "machine": platform.machine(),
        "model": model.group(1) if model else None,
        "level": level,
        "cores": len(os.sched_getaffinity(0)),
    }
    if platform.machine() != "x86_64":
        report.error(f"the machine is {platform.machine()}; the packages are built for x86_64")
    elif flags and level == "x86-64":
        report.error(f"the CPU lacks {', '.join(sorted(LEVELS['x86-64-v2'] - flags))}: x86-64-v2 is needed")


def libraries(report: Report) -> None:
    """Simulator libraries by name. Each is loaded once, which runs nothing of the chip."""
    path = os.environ.get("PRESIL_LIBRARY_PATH", "")
    out = report.sections["simulators"] = {"path": path, "libraries": {}}
    for folder in filter(None, path.split(os.pathsep)):
        for library in sorted(Path(folder).glob("libpresil_sim_*.so")):
            name = library.stem.removeprefix("libpresil_sim_")
            out["libraries"].setdefault(name, _try_library(library))
    for name, state in out["libraries"].items():
        if state != "ok":
            report.warn(f"simulator library {name}: {state}")
    device = report.sections["device"]
    wanted = f"{device['chip']}_{device['build']}"
    if device["transport"] not in (None, "inproc"):
        sockets(report, device["transport"])
    elif device["mode"] in ("rtl", "verify") and wanted not in out["libraries"]:
        report.error(
            f"mode {device['mode']} needs the simulator library libpresil_sim_{wanted}.so, and "
            f"$PRESIL_LIBRARY_PATH ({path or 'empty'}) has "
            f"{', '.join(out['libraries']) or 'none'}: run './presil build' in the sources, choose a chip that is "
            f"there (PRESIL_CHIP), or PRESIL_MODE=model"
        )


def sockets(report: Report, transport: str) -> None:
    """Whether somebody listens at each device's socket; nobody is connected to."""
    out = report.sections["sockets"] = {}
    listening = {
        line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if line.split()[3] == "00010000"
    }
    for entry in transport.split(";"):
        path = entry.removeprefix("socket:").split(",")[0]
        out[path] = "listening" if path in listening else "nobody listens"
        if out[path] != "listening":
            report.error(
                f"PRESIL_TRANSPORT={transport}: nobody listens at {path}: start the server there (presil-serve, "
                f"or another of docs/transport-protocol.md)"
            )


def _try_library(path: Path) -> str:
    # In a process of its own: one built for another CPU ends it.
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).presil_transport_entry"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    if done.returncode < 0:
        return f"ends the process with signal {-done.returncode}; it was built for another CPU: build it here"
    said = (done.stderr.strip().splitlines() or ["?"])[-1]
    if "ISA level" in said:
        said += (
            "; it was built for a processor that has instructions which this one lacks: build it here "
            "('./presil build', or 'python -m torch_presil.simulators')"
        )
    return "ok" if done.returncode == 0 else said


def tools(report: Report) -> None:
    """What building a simulator takes: programs, and packages of Python."""
    out = report.sections["tools"] = {}
    for name in TOOLS:
        program = simulators.program(name)
        out[name] = None
        if program:
            done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
            out[name] = (done.stdout.strip().splitlines() or [f"{program} does not run"])[0]
    for name, distribution in simulators.MODULES.items():
        try:
            out[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            out[name] = None
    if missing := simulators.missing_tools():
        report.warn(
            f"simulators can't be built here: {', '.join(missing)} missing. Those that are installed work, and so "
            f"does mode 'model'"
        )


def surroundings(report: Report) -> None:
    """Memory, and the environment that changes something."""
    free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else None
    report.sections["environment"] = {
        "PRESIL": {k: v for k, v in sorted(os.environ.items()) if k.startswith("PRESIL_")},
        "TORCH_DEVICE_BACKEND_AUTOLOAD": os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD"),
        "shm_free_bytes": free,
        "memfd": _memfd_works(),
    }
    if not report.sections["environment"]["memfd"]:
        report.error(
            "memfd_create is refused by this system, so the device can have no memory: run it outside this sandbox"
        )


def _memfd_works() -> bool:
    try:
        os.close(os.memfd_create("presil-diagnose"))
        return True
    except OSError:
        return False


def driver(report: Report) -> None:
    """The driver by itself, without torch."""
    out = report.sections["driver"] = {"path": None, "loads": False}
    try:
        directory = loading.native_directory()
    except ImportError:
        return
    found = [p for folder in (directory, directory.parent.parent / "lib") for p in sorted(folder.glob("libpresil.so*"))]
    if not found:
        report.error(f"libpresil.so is missing beside {directory}: the installation is incomplete, install it again")
        return
    out["path"] = str(found[0])
    try:
        ctypes.CDLL(str(found[0]))
        out["loads"] = True
    except OSError as error:
        report.error(f"the driver can't be loaded: {error}")


# Small integers, whose products and sums are exact in every type: the CPU's bits are the only right ones.
COMPUTE = """
import json, os, torch, torch_presil
mode = "model" if torch.backends.presil.mode == "model" else "verify"
torch.manual_seed(0)
def whole(*shape):
    return torch.randint(-4, 5, shape).float()
def conv(x, w):
    return torch.nn.functional.conv2d(x, w, padding=1)
wrong, verified, cycles = [], 0, 0
with torch.backends.presil.flags(mode=mode):
    for dtype in (torch.float32, torch.bfloat16):
        for name, work, operands in (("matrix product", torch.matmul, (whole(20, 33), whole(33, 17))),
                                     ("convolution", conv, (whole(1, 5, 8, 9), whole(12, 5, 3, 3)))):
            operands = [t.to(dtype) for t in operands]
            with torch.presil.reports() as reports:
                got = work(*[t.to("presil") for t in operands]).cpu()
                taken = reports.take()
            if not taken:
                wrong.append(f"the {name} in {dtype} did not run on the chip")
            if not torch.equal(got.float(), work(*[t.double() for t in operands]).to(dtype).float()):
                wrong.append(f"the {name} in {dtype} is wrong")
            verified += sum(r["verified"] == 1 for r in taken)
            cycles += sum(r["cycles"] for r in taken)
print(json.dumps({"mode": mode, "products": 4, "verified": verified, "cycles": cycles, "wrong": wrong}))
"""


def computes(report: Report) -> None:
    """Four small products on the chip, in a process of their own: mode `verify` unless the mode is `model`."""
    out = report.sections["computing"] = {"mode": None, "products": 0, "verified": 0, "cycles": 0}
    if not report.ok:
        out["mode"] = "not tried: see the errors"
        return
    try:
        done = subprocess.run([sys.executable, "-c", COMPUTE], capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        report.error("computing on the chip did not end within 300 s: see docs/simulation.md for the watchdog")
        return
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        report.error(f"computing on the chip failed: {said}")
        return
    found = json.loads(done.stdout.splitlines()[-1])
    for text in found.pop("wrong"):
        report.error(f"computing on the chip: {text}")
    out.update(found)
    if found["mode"] == "verify" and found["verified"] < found["products"]:
        report.error(f"only {found['verified']} of {found['products']} products were compared with the twin")


def diagnose() -> Report:
    report = Report()
    for part in (versions, backend, driver, cpu, libraries, tools, surroundings, computes):
        part(report)
    return report


def _print(report: Report) -> None:
    for name, section in report.sections.items():
        print(name)
        for key, value in section.items():
            for i, line in enumerate([f"{k}: {v}" for k, v in value.items()] if isinstance(value, dict) else [value]):
                print(f"  {'' if i else key:<20} {line}")
    print()
    for problem in report.problems:
        print(f"{problem['severity']}: {problem['text']}")
    computing = report.sections["computing"]
    compared = (
        "the RTL's bits are the twin's" if computing["mode"] == "verify" else "on the twin, the RTL was not asked"
    )
    print(
        f"the device works: {computing['products']} products, {compared}"
        if report.ok
        else "the device does not work: see the errors above"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_presil.diagnose", description="What is installed, what works, what is wrong."
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    arguments = parser.parse_args()
    report = diagnose()
    if arguments.json:
        print(json.dumps(report.as_dict(), indent=1))
    else:
        _print(report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
