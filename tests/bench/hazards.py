# SPDX-License-Identifier: Apache-2.0
"""The driver's hazard sanitizer (presil_hazards.h) over lists of descriptors."""

import ctypes as C
from dataclasses import dataclass
from functools import cache

from . import built

NONE = C.c_size_t(-1).value


class _Hazard(C.Structure):
    _fields_ = [("size", C.c_uint32), ("kind", C.c_int), ("command", C.c_size_t), ("other", C.c_size_t)]
    _fields_ += [("tile", C.c_uint32), ("label", C.c_char_p), ("other_label", C.c_char_p), ("text", C.c_char_p)]


SINK = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(_Hazard))


class _Options(C.Structure):
    _fields_ = [("size", C.c_uint32), ("config", C.c_char_p), ("commands", C.c_char_p), ("count", C.c_size_t)]
    _fields_ += [("labels", C.POINTER(C.c_char_p)), ("memory", C.c_uint64), ("bytes", C.c_uint64)]
    _fields_ += [("sink", SINK), ("context", C.c_void_p)]


@dataclass
class Hazard:
    """kind: its name. other: the command in conflict, or None."""

    kind: str
    command: int
    other: int | None
    tile: int
    text: str


@cache
def library():
    lib = C.CDLL(str(built.library("libpresil_chip_presil.so")))
    lib.presil_hazard_name.restype = C.c_char_p
    return lib


def hazards(config, raw: bytes, labels=None, memory=(0, 0)) -> list[Hazard]:
    """Of descriptors of 128 bytes each; labels: a text for each; memory: (first device address, bytes)."""
    out, lib = [], library()

    def sink(_, h):
        other = None if h.contents.other == NONE else h.contents.other
        kind = lib.presil_hazard_name(h.contents.kind).decode()
        out.append(Hazard(kind, h.contents.command, other, h.contents.tile, h.contents.text.decode()))

    count = len(raw) // 128
    lines = (C.c_char_p * count)(*(label.encode() for label in labels)) if labels else None
    options = _Options(C.sizeof(_Options), config.encode(), raw, count, lines, *memory, SINK(sink), None)
    found = C.c_size_t()
    status = lib.presil_hazards(C.byref(options), C.byref(found))
    assert status == 0, f"presil_hazards: status {status}"
    assert found.value == len(out)
    return out
