# SPDX-License-Identifier: Apache-2.0
"""Random programs go where single faults were once missed: whatever the seed, each of these is in some of a thousand
programs (in 25 or more on average, so that chance does not fail this once in 10^8 runs)."""

from collections import Counter

import pytest
from oracle import layout

from bench.programs import program

from .draw import FIRST_OF_DAY

COUNT, LEAST, FEATURES = 1000, 2, 31
FP16 = layout.enum("DTYPE", "FP16")


def load_features(f, word):
    """What is rare about a LOAD."""
    n0, step, chunk = f["n0"], f.get("step0", 0), f["chunk_bytes"]
    first, move = f.get("pos0", 0), (f["n0"] - 1) * f.get("step0", 0)
    alone = n0 > 1 and step < chunk and chunk > 14 * word
    if min(f["row_bytes"], first + move + chunk) - max(0, first) > 0xFFFF:
        yield "a row of more than 2^16 bytes is read"
    if move >> 32 and move & 0xFFFFFFFF < 512:
        yield "a span that 32 bits take for a short one"
    if alone and first + move >= 1 << 31:
        yield "chunks read one by one behind position 2^31"
    if f.get("transpose") and f["esize_log2"] == 2 and not f["conv"]:
        yield "columns of four-byte elements"
    if f.get("conv") and f.get("transpose"):
        yield "converted columns"


def epilogue_features(f):
    if f["int_lo"] > f["int_hi"] and f["out_type"] == 0:
        yield "integer bounds the wrong way round"
    if f["out_type"] == 3 and f["res_en"] and f["res_base"] >> 24:
        yield "RAW32 with a residual that is nowhere"
    if f["out_type"] == FP16:
        yield "rows of fp16"
    if f["res_type"] == FP16 and f["res_en"] and f["out_type"] != 3:
        yield "a residual of fp16"
    if f["rows"] > 1 and f["out_pitch"] >> 31:
        yield "output rows downwards"


def depthwise_features(f):
    """What is rare about a depthwise MATRIX."""
    step = f["sx"] // f["dx"]
    if (f["nx"] - 1) * step + f["kx"] == 64:
        yield "a row of a window as long as it can be"
    if step == 2 and f["kx"] == 1 and f["nx"] > 1:
        yield "a window with columns of no use"
    if f["kx"] == f["ky"] == 5:
        yield "a window as large as it can be"
    if f["dx"] > 1 and f["lim_x"] > 1:
        yield "a window that is dilated"
    if f["nx"] == 1 and f["ny"] > 3:
        yield "a window as narrow as the kernel"
    if not f["first"]:
        yield "depthwise sums on top of others"
    if f["extra_cells"] == 1:
        yield "a window's element for two cells"
    if f["extra_cells"] > 1 and f["extra_cells"] % 2 == 0:
        yield "a window's element for an odd number of cells"
    if f["extra_cells"] > 6:
        yield "a window's element for eight cells and more"
    if f["ox"] < 0 and f["oy"] < 0 and f["lim_x"] and f["lim_y"]:
        yield "a window with a corner of padding"


def fp16_features(f):
    if f["dtype"] == FP16:
        yield "fp16 depthwise" if f.get("depthwise") else "fp16"
        if f["absent"] and not f["skip_special"]:
            yield "absent weights of fp16"


def broken_depthwise(p):
    fault = p.expected
    op = p.operations[fault.at] if fault and fault.at is not None else None
    if op and op.kind == "MATRIX" and fault.changes.get(fault.at) and op.fields.get("depthwise"):
        yield "a broken depthwise MATRIX"


def as_added(stride):
    """A stride of DRAM as the chip adds it: modulo 2^40, with its sign."""
    return (stride + (1 << 39)) % (1 << 40) - (1 << 39)


def features(p, word):
    out = set()
    for op in p.operations:
        f = op.fields
        if op.kind == "LOAD":
            out.update(load_features(f, word))
        elif op.kind == "MATRIX":
            out.update(fp16_features(f))
            if f.get("depthwise"):
                out.update(depthwise_features(f))
        elif op.kind == "EPILOGUE":
            out.update(epilogue_features(f))
            if op.wait & 0xF00:
                out.add("an EPILOGUE waits for one before it")
        elif op.kind == "STORE" and f["n0"] * f["chunk_bytes"] > 0xFFFF:
            out.add("a row of more than 2^16 bytes is written")
        if op.kind in ("LOAD", "STORE"):
            farthest = max((abs(as_added(f[f"ds{i}"])) for i in (1, 2, 3) if f[f"n{i}"] > 1), default=0)
            if farthest >> 30:
                islands = round(farthest / (1 << 31))
                out.add(f"{op.kind}: a stride of about 2^31" if islands == 1 else f"{op.kind}: a stride beyond 2^31")
    out.update(broken_depthwise(p))
    if p.expected and p.expected.changes:
        out.add("descriptors that end with an error")
    return out


@pytest.mark.parametrize("first", [0, FIRST_OF_DAY], ids=["fixed", "of the day"])
@pytest.mark.parametrize("chip", ["tiny", "odd"])
def test_each_feature_is_drawn(chip, first):
    word, count = layout.config(chip).word_bytes, Counter()
    for number in range(first, first + COUNT):
        count.update(features(program(chip, number), word))
    print(f"{chip} from {first}: {dict(count)}")
    assert len(count) == FEATURES and min(count.values()) >= LEAST, f"{chip} from {first}: {count.most_common()[::-1]}"


@pytest.mark.parametrize(("chip", "number"), [("tiny", 1127), ("odd", 1115)])
def test_room_for_the_last_dump(chip, number):
    """Two rows of more than 2^16 bytes leave little of the memory to which a program stores; every region has its place
    there still."""
    stored = [op for op in program(chip, number).operations if op.kind == "STORE"]
    assert sum(op.fields["n0"] * op.fields["chunk_bytes"] > 1 << 16 for op in stored) >= 2
