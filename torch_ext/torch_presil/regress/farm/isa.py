# SPDX-License-Identifier: Apache-2.0
"""For which machines a library was compiled, out of its bytes alone: it is not loaded."""

import platform
import re
import struct
from dataclasses import dataclass, field

MARK = b"presil-isa:"  # sim/harness/isa.cpp: what the compiler was allowed, as /proc/cpuinfo calls it
MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_LEVELS = (
    (1 << 1, "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"),  # x86-64-v2
    (1 << 2, "abm avx avx2 bmi1 bmi2 f16c fma movbe"),  # x86-64-v3
    (1 << 3, "avx512bw avx512cd avx512dq avx512f avx512vl"),  # x86-64-v4
)
_NEEDED = 0xC0008002  # GNU_PROPERTY_X86_ISA_1_NEEDED


@dataclass
class Needs:
    """What a library's machine must have."""

    machine: str = ""  # "" where it is no ELF file
    flags: set = field(default_factory=set)
    glibc: tuple = (0, 0)


def needs(data: bytes) -> Needs:
    if data[:4] != b"\x7fELF":
        return Needs()
    number = struct.unpack_from("<H", data, 18)[0]
    found = Needs(MACHINES.get(number, f"ELF machine {number}"))
    at = data.find(struct.pack("<II", _NEEDED, 4))
    level = struct.unpack_from("<I", data, at + 8)[0] if at >= 0 else 0
    for bit, names in _LEVELS:
        if level >= bit:
            found.flags |= set(names.split())
    for match in re.finditer(MARK + rb"([ \w]*)", data):
        found.flags |= set(match[1].decode().split())
    versions = re.findall(rb"\0GLIBC_2\.(\d+)(?=[\0.])", data)
    found.glibc = (2, max(map(int, versions), default=0))
    return found


@dataclass
class Machine:
    """What a machine has."""

    machine: str
    flags: set
    glibc: tuple
    model: str = ""


def this_machine(cpuinfo: str | None = None) -> Machine:
    if cpuinfo is None:
        with open("/proc/cpuinfo") as file:
            cpuinfo = file.read()
    rows = dict(re.findall(r"^([^\t:]+)\s*: (.*)$", cpuinfo.partition("\n\n")[0], re.MULTILINE))
    version = platform.libc_ver()[1] or "0.0"
    glibc = tuple(int(part) for part in version.split(".")[:2])
    flags = set(rows.get("flags", rows.get("Features", "")).split())
    return Machine(platform.machine(), flags, glibc, rows.get("model name", platform.machine()))


def refusal(machine: str, flags: dict, glibc: tuple, have: Machine) -> str:
    """Why a machine can't run what needs these; "" if it can. flags: name -> a file that needs it."""
    if machine and machine != have.machine:
        return f"its processor is {have.machine}, the libraries are for {machine}: build them there"
    lacking = sorted(set(flags) - have.flags) if have.flags else []
    if lacking:
        return (
            f"its processor ({have.model}) has no {' '.join(lacking)}, for which {flags[lacking[0]]} was compiled: "
            "build with -DPRESIL_MARCH= what all have, such as x86-64-v3"
        )
    if glibc > have.glibc > (0, 0):
        return f"its glibc is {'.'.join(map(str, have.glibc))}, the libraries need {'.'.join(map(str, glibc))}"
    return ""
