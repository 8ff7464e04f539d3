# SPDX-License-Identifier: Apache-2.0
"""What libpresil_chip_sa16.so calls a byte of its output, asked of the library alone: against coordinates counted out
one by one, of tensors as they lie and in planes of 16 channels, joined to one row of pixels or not, stored and loaded
again, merged."""

import ctypes as C
import itertools
import os
import re
from pathlib import Path

import numpy as np
import pytest
from test_chip import OP_POOL_MAX, Attribute, Op, Operand

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).resolve().parents[3] / "build" / "check"))
OP_COPY, INPUT, OUTPUT = 1, 0x100000000, 0x100800000
# The functions of presil_chip_ops, in its order, that are asked for here.
FUNCTIONS = "create destroy limits info probe reset layout pack layout_free supports plan plan_info describe plan_free"
FUNCTIONS += " submit service why counters execute merge save load progress completion waits commands command_name"
FUNCTIONS += " observed prefix subset names load_refused activation"


class Chip:
    def __init__(self, library: Path):
        self.library = C.CDLL(str(library))
        self.library.presil_chip_entry.restype = C.POINTER(C.c_void_p)
        table = self.library.presil_chip_entry()
        for i, name in enumerate(FUNCTIONS.split()):
            if table[2 + i]:
                setattr(self, name, C.CFUNCTYPE(C.c_int)(table[2 + i]))
        self.handle = C.c_void_p()
        assert self.create(b"sa16", C.byref(self.handle), None) == 0

    def planar(self, op: Op, operand: Operand) -> C.c_void_p:
        layout, size = C.c_void_p(), C.c_uint64()
        assert self.activation(self.handle, C.byref(op), C.byref(operand), C.byref(layout), C.byref(size)) == 0
        return layout

    def plan_of(self, op: Op) -> C.c_void_p:
        plan, text = C.c_void_p(), C.create_string_buffer(256)
        error = (C.c_void_p * 2)(C.addressof(text), 256)
        assert self.plan(self.handle, C.byref(op), C.byref(plan), error) == 0, text.value
        return plan

    def said(self, plan: C.c_void_p, address: int) -> str | None:
        text = C.create_string_buffer(256)
        failed = self.describe(plan, C.c_uint64(address), text, C.c_size_t(256))
        return None if failed else text.value.decode()


@pytest.fixture(scope="module")
def chip():
    return Chip(BUILD / "lib" / "libpresil_chip_sa16.so")


def question(kind, operands, **attributes):
    values = [(C.c_int64 * len(v))(*v) for v in attributes.values()]
    names = (Attribute * len(values))(*[Attribute(n.encode(), len(v), 0, v) for n, v in zip(attributes, values)])
    op = Op(C.sizeof(Op), kind, b"layer", 0, 0, C.addressof(operands[0]), C.addressof(operands[1]), 1, 1)
    op.attributes, op.n_attributes = C.addressof(names), len(values)
    op.kept = operands, values, names
    return op


def operand(name, at, shape, stride):
    v = Operand(name, at, 0, len(shape))
    v.shape[: len(shape)], v.stride[: len(shape)] = shape, stride
    return v


def dense(shape, pixel=None):
    row = (pixel or shape[3]) * shape[2]
    return [row * shape[1], row, pixel or shape[3], 1]


def pool(chip, shape, planar, kernel=1, pixel=None, at=OUTPUT):
    n, h, w, c = shape
    operands = [operand(b"input", INPUT, (n, h + kernel - 1, w + kernel - 1, c), [0] * 4)]
    operands[0].stride[:4] = dense(list(operands[0].shape[:4]))
    operands.append(operand(b"output", at, shape, dense(shape, pixel)))
    op = question(OP_POOL_MAX, operands, kernel=(kernel, kernel), stride=(1, 1))
    if planar:
        layouts = [chip.planar(op, operands[i]) for i in range(2)]
        operands[0].layout, operands[1].layout = (layout.value for layout in layouts)
    return op


def counted(shape, planar, pixel=None):
    """Coordinate -> offset of its byte."""
    n, h, w, c = shape
    blocks, stride = -(-c // 16), dense(shape, pixel)
    for i in itertools.product(range(n), range(h), range(w), range(16 * blocks if planar else c)):
        block = ((i[0] * blocks + i[3] // 16) * h + i[1]) * w + i[2]
        yield i, block * 16 + i[3] % 16 if planar else int(np.dot(i, stride))


def coordinate(text: str) -> tuple:
    return tuple(int(i) for i in re.match(r"output \[([^]]+)\]", text)[1].split(", "))


# Images of one block of channels become one row of pixels with a 1x1 kernel; others are tiled by row and by block.
SHAPES = [(3, 2, 5, 16), (2, 4, 3, 7), (1, 3, 4, 40), (3, 2, 2, 33), (2, 1, 1, 20), (4, 5, 1, 5), (1, 30, 60, 90)]


# A row of pixels is not put into planes.
CASES = [
    (s, lies, k) for s in SHAPES for lies in ("dense", "slice", "planes") for k in (1, 2) if lies[0] != "p" or s[1] > 1
]


@pytest.mark.parametrize(("shape", "lies", "kernel"), CASES, ids=str)
def test_every_byte_has_its_coordinate(chip, shape, lies, kernel):
    planar, pixel = lies == "planes", shape[3] + 9 if lies == "slice" else None
    plan = chip.plan_of(pool(chip, shape, planar, kernel, pixel))
    seen = list(counted(shape, planar, pixel))
    for index, offset in seen if len(seen) < 20_000 else seen[::97]:
        text = chip.said(plan, OUTPUT + offset)
        assert text and coordinate(text) == index, (index, offset, text)
        assert ("beyond the last channel" in text) == (index[3] >= shape[3]), text
        assert re.search(r"operation \d+ of \d+ \(register set [01]\)", text), text
    if lies == "slice":
        assert chip.said(plan, OUTPUT + shape[3]) is None
    assert chip.said(plan, OUTPUT - 1) is None
    assert chip.said(plan, OUTPUT + 1 + seen[-1][1]) is None
    chip.plan_free(plan)


def test_a_copy_counts_bytes(chip):
    operands = [operand(b"input", INPUT, (320,), [1]), operand(b"output", OUTPUT, (320,), [1])]
    plan = chip.plan_of(question(OP_COPY, operands))
    for i in (0, 15, 16, 319):
        assert coordinate(chip.said(plan, OUTPUT + i)) == (i,)
    assert chip.said(plan, OUTPUT + 320) is None


@pytest.mark.parametrize("base", (OUTPUT, INPUT))
def test_a_stored_plan_says_the_same_elsewhere(chip, base):
    """From a base that is the output's own address, too."""
    plan = chip.plan_of(pool(chip, (2, 3, 4, 20), True))
    size, moved = C.c_uint64(), C.c_void_p()
    assert chip.save(plan, C.c_uint64(base), None, C.byref(size), None) == 0
    stored = C.create_string_buffer(size.value)
    assert chip.save(plan, C.c_uint64(base), stored, C.byref(size), None) == 0
    new, room = base + 0x3000000, C.c_uint64(1 << 34)
    failed = chip.load(chip.handle, stored, size, C.c_uint64(new), room, C.byref(moved), None)
    assert bool(failed) == (base == OUTPUT)  # the input lies before it
    if not failed:
        for index, offset in counted((2, 3, 4, 20), True):
            assert coordinate(chip.said(moved, OUTPUT + 0x3000000 + offset)) == index


def test_a_merged_plan_says_no_coordinate(chip):
    """Whose output it is, is not kept: rather none than another's."""
    plans = [chip.plan_of(pool(chip, (1, 3, 4, 20), True, at=OUTPUT + i * 0x10000)) for i in range(2)]
    merged = C.c_void_p()
    assert chip.merge(chip.handle, (C.c_void_p * 2)(*plans), 2, b"both", C.byref(merged), None) == 0
    assert chip.said(merged, OUTPUT + 5) == "operation 0 of 2 (register set 0)"
    assert chip.said(merged, OUTPUT + 0x10000 + 5) == "operation 1 of 2 (register set 1)"


class Memory(C.Structure):
    """presil_executor_memory."""

    _fields_ = [("size", C.c_uint32), ("reserved", C.c_uint32), ("base", C.c_uint64), ("bytes", C.c_uint64)]
    _fields_ += [("host", C.c_void_p), ("on_write", C.c_void_p), ("context", C.c_void_p), ("threads", C.c_uint32)]
    _fields_ += [("reserved1", C.c_uint32), ("scratch", C.c_uint64), ("scratch_bytes", C.c_uint64)]


@pytest.mark.parametrize("blocks", (1, 0))
def test_stored_commands_that_read_beyond_their_weights_are_refused(chip, blocks):
    """A pooling turned into a convolution of no weights at all, or of no channels: load() takes it, as it touches
    nothing that it may not; the model has to refuse it too."""
    head, mode, weights, words, count = 200, 1, 22, 24, 33
    plan, size, bent = chip.plan_of(pool(chip, (1, 2, 2, 16), False)), C.c_uint64(), C.c_void_p()
    assert chip.save(plan, C.c_uint64(INPUT), None, C.byref(size), None) == 0
    stored = C.create_string_buffer(size.value)
    assert chip.save(plan, C.c_uint64(INPUT), stored, C.byref(size), None) == 0
    registers = (C.c_uint32 * 39).from_buffer(stored, head)
    assert registers[mode] == 0x21  # a maximum, with one multiplier
    registers[mode], registers[weights], registers[words] = 0x20, 0, 0
    registers[count] = blocks << 16 | 1
    room = OUTPUT - INPUT + 4096
    assert chip.load(chip.handle, stored, size, C.c_uint64(INPUT), C.c_uint64(room), C.byref(bent), None) == 0
    host = C.create_string_buffer(room)
    memory = Memory(C.sizeof(Memory), 0, INPUT, room, C.addressof(host))
    assert chip.execute(chip.handle, plan, C.byref(memory), None) == 0
    assert chip.execute(chip.handle, bent, C.byref(memory), None) == -6  # PRESIL_EBUS
