# SPDX-License-Identifier: Apache-2.0
"""libpresil_bundle from Python: writes what tests make up, as presil_bundle.h says."""

import ctypes as c
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
TOOL = BUILD / "bin" / "presil-bundle"

u8, u16, u32, u64, i32, i64, text = c.c_uint8, c.c_uint16, c.c_uint32, c.c_uint64, c.c_int32, c.c_int64, c.c_char_p


def struct(kind: str, /, **members) -> type[c.Structure]:
    return type(kind, (c.Structure,), {"_fields_": list(members.items())})


Id = struct("Id", hash=u8 * 16, bytes=u64)
Range = struct("Range", base=u64, bytes=u64)
Piece = struct("Piece", block=Id, ranges=u64)
Memory = struct("Memory", ranges=c.POINTER(Range), pieces=c.POINTER(Piece), range_count=u64, piece_count=u64, bytes=u64)
Counter = struct("Counter", name=text, unit=text)
Pair = struct("Pair", key=text, value=text)
Chip = struct(
    "Chip",
    **dict.fromkeys(("size", "abi_chip", "abi_transport", "capabilities"), u32),
    **dict.fromkeys(("chip", "config", "build", "transport", "simulator", "rtl_hash", "library_hash"), text),
    **dict.fromkeys(("memory_model", "presil_version", "torch_version"), text),
    **dict.fromkeys(("config_hash", "clock_mhz", "memory_bytes", "seed", "hang_cycles", "memory_base"), u64),
    engines=c.POINTER(text),
    causes=c.POINTER(text),
    counters=c.POINTER(Counter),
    **dict.fromkeys(("engine_count", "cause_count", "counter_count", "reserved0"), u32),
)
Tensor = struct(
    "Tensor",
    name=text,
    dtype=text,
    data=u64,
    element_bytes=u64,
    shape=c.POINTER(i64),
    stride=c.POINTER(i64),
    ndim=u32,
    written=c.c_uint16,
    element_bits=c.c_uint16,
)
Operand = struct(
    "Operand",
    name=text,
    dtype=text,
    data=u64,
    shape=c.POINTER(i64),
    stride=c.POINTER(i64),
    ndim=u32,
    packed=u32,
)
Attribute = struct(
    "Attribute",
    name=text,
    integers=c.POINTER(i64),
    reals=c.POINTER(u64),
    text=text,
    integer_count=u32,
    real_count=u32,
)
Step = struct(
    "Step",
    kind=text,
    input=i32,
    **dict.fromkeys(("scale_bits", "low_bits", "high_bits"), u32),
    **dict.fromkeys(("zero_point", "int_low", "int_high"), i32),
)
Asked = struct(
    "Asked",
    **dict.fromkeys(("present", "compute", "tiling", "reserved0"), u32),
    kind=text,
    inputs=c.POINTER(Operand),
    outputs=c.POINTER(Operand),
    attributes=c.POINTER(Attribute),
    steps=c.POINTER(Step),
    **dict.fromkeys(("input_count", "output_count", "attribute_count", "step_count"), u32),
    bias=c.c_char_p,
    scale=c.c_char_p,
    bias_bytes=u64,
    scale_bytes=u64,
)
Launch = struct(
    "Launch",
    size=u32,
    mode=u32,
    chip=u64,
    launch=u64,
    label=text,
    commands=Id,
    **dict.fromkeys(("signature", "macs", "passes", "peak_macs_per_cycle", "descriptors", "segments"), u64),
    **dict.fromkeys(("estimate", "origin", "tag"), u64),
    reads=c.POINTER(Memory),
    expected=c.POINTER(Memory),
    labels=c.POINTER(Pair),
    tensors=c.POINTER(Tensor),
    label_count=u32,
    tensor_count=u32,
    scratch=u64,
    scratch_bytes=u64,
    asked=Asked,
)
Difference = struct(
    "Difference", present=u32, expected=u8, found=u8, reserved0=u16, address=u64, bytes=u64, cycle=u64, text=text
)
Result = struct(
    "Result",
    size=u32,
    status=i32,
    verified=i32,
    reserved0=u32,
    chip=u64,
    launch=u64,
    executor=text,
    error=text,
    **dict.fromkeys(("cycles", "fill", "drain", "sim_ns", "twin_ns", "host_ns"), u64),
    stalls=c.POINTER(u64),
    counters=c.POINTER(u64),
    stall_count=u32,
    counter_count=u32,
    writes=c.POINTER(Memory),
    difference=Difference,
    stray=c.POINTER(Range),
    missing=c.POINTER(Range),
    stray_count=u64,
    missing_count=u64,
)
Attachment = struct(
    "Attachment",
    size=u32,
    has_launch=u32,
    chip=u64,
    launch=u64,
    name=text,
    media_type=text,
    data=c.c_char_p,
    bytes=u64,
)
WriteOptions = struct(
    "WriteOptions",
    size=u32,
    hold=u32,
    ring=u32,
    level=i32,
    overwrite=u32,
    foreground=u32,
    hold_bytes=u64,
)
Source = struct("Source", host=c.c_char_p, base=u64, read=c.c_void_p, context=c.c_void_p)

LIBRARY = c.CDLL(str(BUILD / "lib" / "libpresil_bundle.so"))
LIBRARY.presil_bundle_error_text.restype = c.c_char_p


def call(name: str, *arguments) -> None:
    status = getattr(LIBRARY, f"presil_bundle_{name}")(*arguments)
    if status:
        raise RuntimeError(f"{name}: {status}: {LIBRARY.presil_bundle_error_text().decode()}")


def array(kind, values) -> tuple:
    """What a member of type pointer takes, and how many."""
    return ((kind * len(values))(*values) if values else None), len(values)


def pairs(values: dict) -> list:
    return [Pair(k.encode(), v.encode()) for k, v in values.items()]


class Group:
    """The records of one launch. Python's values are those that torch_presil.bundle must find."""

    def __init__(self, writer: "Writer"):
        self.handle = c.c_void_p()
        call("begin", writer.handle, c.byref(self.handle))

    def block(self, contents: bytes) -> Id:
        found = Id()
        call("put_block", self.handle, contents, u64(len(contents)), c.byref(found))
        return found

    def memory(self, device: bytes, base: int, ranges: list):
        found = c.POINTER(Memory)()
        source, (at, count) = Source(device, base), array(Range, ranges)
        call("put_memory", self.handle, c.byref(source), at, u64(count), c.byref(found))
        return found

    def put(self, name: str, kind, /, **members) -> None:
        call(f"put_{name}", self.handle, c.byref(kind(size=c.sizeof(kind), **members)))

    def commit(self) -> None:
        call("commit", self.handle)


class Writer:
    def __init__(self, path, **options):
        self.handle = c.c_void_p()
        its = WriteOptions(size=c.sizeof(WriteOptions), **options)
        call("create", str(path).encode(), c.byref(its), c.byref(self.handle))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            LIBRARY.presil_bundle_abort(self.handle)
        else:
            call("close", self.handle)

    def chip(self, **members) -> int:
        number = u64()
        call("put_chip", self.handle, c.byref(Chip(size=c.sizeof(Chip), **members)), c.byref(number))
        return number.value

    def labels(self, values: dict) -> None:
        at, count = array(Pair, pairs(values))
        call("put_labels", self.handle, at, u32(count))

    def group(self) -> Group:
        return Group(self)
