# SPDX-License-Identifier: Apache-2.0
"""What a chip says of each launch before it runs: driver/include/presil_capture.h through ctypes."""

import ctypes as c
from dataclasses import dataclass, field

from . import driver_api as d
from .checks import Failed

AMOUNTS, NOTHING = 8, 0  # PRESIL_WORK_AMOUNTS, PRESIL_CAPTURE_NOTHING


class Work(c.Structure):
    """presil_work."""

    _fields_ = [
        ("size", c.c_uint32),
        ("count", c.c_uint32),
        ("kind", c.c_uint64),
        ("cycles", c.c_uint64),
        ("amounts", c.c_uint64 * AMOUNTS),
        ("stalls", c.c_uint64 * d.CAUSES * d.ENGINES),
    ]


class _Traffic(c.Structure):
    _fields_ = [("name", c.c_char_p), ("role", c.c_uint32), ("apart", c.c_uint32)]
    _fields_ += [(name, c.c_uint64) for name in ("read_bytes", "write_bytes", "again_bytes", "first")]


class _Occupancy(c.Structure):
    _fields_ = [("name", c.c_char_p), ("capacity", c.c_uint64), ("reserved", c.c_uint64)]
    _fields_ += [("in_use", c.POINTER(c.c_uint64)), ("steps", c.c_uint64)]


class _Usage(c.Structure):
    _fields_ = [(name, c.c_uint32) for name in ("size", "traffic_count", "memory_count", "reserved")]
    _fields_ += [("traffic", c.POINTER(_Traffic)), ("memories", c.POINTER(_Occupancy))]
    _fields_ += [("read_beats", c.c_uint64), ("write_beats", c.c_uint64)]  # of a chip that has them


_ADD = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_size_t)
_TELL = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(_Usage))


class _Launch(c.Structure):
    """presil_capture_launch. Each function's first argument is the launch."""

    _fields_ = [("size", c.c_uint32), ("mode", c.c_uint32), ("launch", c.c_uint64), ("label", c.c_char_p)]
    _fields_ += [(name, c.c_uint64) for name in "signature macs passes peak descriptors estimate".split()]
    _fields_ += [("segments", c.c_uint32), ("tensor_count", c.c_uint32), ("origin", c.c_uint64)]
    _fields_ += [("tag", c.c_uint64), ("tensors", c.c_void_p), ("may_write", c.c_void_p)]
    _fields_ += [("may_write_count", c.c_uint64), ("error", c.c_char_p)]
    _fields_ += [(name, c.c_void_p) for name in "commands read describe write_time core".split()]
    _fields_ += [("scratch", c.c_uint64), ("scratch_bytes", c.c_uint64)]
    _fields_ += [(name, c.c_void_p) for name in "keep asked asked_weights".split()]
    _fields_ += [
        ("timing", c.CFUNCTYPE(c.c_int, c.c_void_p, _ADD, c.c_void_p)),
        ("work", c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.POINTER(Work))),
        ("usage", c.CFUNCTYPE(c.c_int, c.c_void_p, _TELL, c.c_void_p)),
    ]


_BEGIN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p)
_END = c.CFUNCTYPE(c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)


class _Ops(c.Structure):
    _fields_ = [("size", c.c_uint32), ("reserved0", c.c_uint32), ("begin", _BEGIN), ("expected", c.c_void_p)]
    _fields_ += [("end", _END), ("supply", c.c_void_p)]


class _Identity(c.Structure):
    _fields_ = [(name, c.c_uint32) for name in ("size", "abi_chip", "abi_transport", "capabilities")]
    _fields_ += [(name, c.c_char_p) for name in ("memory_model", "rtl", "library")]
    _fields_ += [("seed", c.c_uint64), ("hang_cycles", c.c_uint64), ("timing", c.c_char_p)]


@dataclass
class Usage:
    """rows: (name, role, apart, read, written, read again); memories: (name, capacity, reserved, most in use)."""

    rows: list = field(default_factory=list)
    memories: list = field(default_factory=list)
    beats: dict = field(default_factory=dict)  # by their name in the report; empty: not told


def _copied(usage: _Usage) -> Usage:
    rows, memories = usage.traffic[: usage.traffic_count], usage.memories[: usage.memory_count]
    beats = {"read_beats": usage.read_beats, "write_beats": usage.write_beats} if usage.size >= c.sizeof(_Usage) else {}
    return Usage(
        [(t.name, t.role, t.apart, t.read_bytes, t.write_bytes, t.again_bytes) for t in rows],
        [(m.name, m.capacity, m.reserved, max(m.in_use[: m.steps], default=0)) for m in memories],
        beats if any(beats.values()) else {},
    )


@dataclass
class Told:
    """Of one launch; a result of presil_chip_ops, and what came with it."""

    timing: tuple  # (result, bytes)
    work: list  # (result, Work), asked twice
    usage: list  # (result, what tell() was given), asked twice


class Listener:
    """Asks the chip of every launch of a device, from now on."""

    def __init__(self, device: d.Device):
        device.call("presil_device_start")
        identity = _Identity(size=c.sizeof(_Identity))
        device.call("presil_device_identify", c.byref(identity))
        self.simulator, self.told = identity.timing or b"", []
        self._ops = _Ops(c.sizeof(_Ops), 0, _BEGIN(self._begin), None, _END(lambda *_: None), None)
        device.call("presil_set_capture", c.byref(self._ops), None)

    def _begin(self, _context, launch, _reads) -> int:
        pieces, of, works, usages = [], _Launch.from_address(launch), [], []
        add = _ADD(lambda _, at, count: pieces.append(c.string_at(at, count)))
        result = of.timing(launch, add, None)
        for _ in range(2):
            made, told = Work(size=c.sizeof(Work)), []
            works.append((of.work(launch, self.simulator, c.byref(made)), made))
            tell = _TELL(lambda _, usage, told=told: told.append(_copied(usage.contents)))
            usages.append((of.usage(launch, tell, None), told))
        self.told.append(Told((result, b"".join(pieces)), works, usages))
        return NOTHING

    def take(self) -> Told:
        """Of the one launch since it was asked last."""
        told, self.told = self.told, []
        if len(told) != 1:
            raise Failed(f"one launch was expected, {len(told)} were run")
        return told[0]
