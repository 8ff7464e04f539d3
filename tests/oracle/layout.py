# SPDX-License-Identifier: Apache-2.0
"""Descriptors by field name, from the layout that rtl/generate.py generates (the one thing that oracle, RTL and twin
share)."""

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

GENERATOR = Path(__file__).resolve().parents[2] / "rtl" / "generate.py"


@cache
def _modules():
    """Generated anew in each process: a build directory's may be older than the sources."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, str(GENERATOR), "--out", out], check=True)
        found = {}
        for name in ("presil_desc", "presil_regs"):
            exec((Path(out) / f"{name}.py").read_text(), names := {})
            found[name] = SimpleNamespace(**{k: v for k, v in names.items() if k.isupper()})
    return found


def generated():
    """The generated presil_desc.py as a namespace: WORDS, ISA_VERSION, OPCODES, ENUMS, FIELDS, CONFIGS."""
    return _modules()["presil_desc"]


def registers():
    """The generated presil_regs.py as a namespace: REGISTERS, SIZE, COUNT, FIELDS."""
    return _modules()["presil_regs"]


def config(name):
    """LANES, CELLS, ... of a named configuration, in the generated spelling (lanes, cells, word_bytes, banks,
    bank_words, acc_rows)."""
    return SimpleNamespace(**generated().CONFIGS[name])


def join(words):
    """A descriptor as one number, word 0 in the low bits."""
    return sum(word << 32 * k for k, word in enumerate(words))


def split(whole):
    return [whole >> 32 * k & 0xFFFFFFFF for k in range(generated().WORDS)]


def encode(opcode, **fields):
    """A descriptor, 32 words, from an opcode name and fields; `wait`, `signal`, `tag` and `isa` too; the others are
    0."""
    g = generated()
    values = {"opcode": g.OPCODES[opcode], "isa": g.ISA_VERSION, **fields}
    table = {**g.FIELDS["COMMON"], **g.FIELDS.get(opcode, {})}
    whole = 0
    for name, value in values.items():
        word, low, width, is_signed = table[name]
        limit = (-(1 << width - 1), 1 << width - 1) if is_signed else (0, 1 << width)
        if not limit[0] <= value < limit[1]:
            raise ValueError(f"{opcode}.{name} = {value} does not fit {width} bits")
        whole |= (value & (1 << width) - 1) << 32 * word + low
    return split(whole)


def decode(words):
    """All fields of a descriptor as attributes; `kind`: the opcode's name or None; `reserved`: bits of no field."""
    g = generated()
    kind = {v: k for k, v in g.OPCODES.items()}.get(words[0] & 15)
    out = SimpleNamespace(kind=kind, reserved=0)
    whole, named = join(words), 0
    for name, (word, low, width, is_signed) in {**g.FIELDS["COMMON"], **g.FIELDS.get(kind, {})}.items():
        value = whole >> 32 * word + low & (1 << width) - 1
        named |= (1 << width) - 1 << 32 * word + low
        setattr(out, name, value - (1 << width) if is_signed and value >> width - 1 else value)
    out.reserved = whole & ~named
    return out


def enum(kind, name):
    return generated().ENUMS[kind][name]


def enum_name(kind, value):
    return next(n for n, v in generated().ENUMS[kind].items() if v == value)


def to_bytes(words):
    """The 128 bytes of a descriptor in the ring."""
    return b"".join(w.to_bytes(4, "little") for w in words)
