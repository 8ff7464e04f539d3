# SPDX-License-Identifier: Apache-2.0
"""oracle.machine: error codes, what hangs, rings; descriptors survive encoding."""

import pytest
from oracle import layout
from oracle.layout import encode
from oracle.machine import Machine
from oracle.support import rng

IN_A, OUT = 0x1000, 0xA000
DEPTHWISE = dict(depthwise=1, nx=4, ny=4, kx=3, ky=3, dx=1, dy=1, wgt_x_stride=1, wgt_y_stride=3)


def machine(chip):
    return Machine(chip, bytearray(0x10000))


def valid(kind):
    c = layout.config("tiny")
    loop = dict(n0=1, n1=1, n2=1, n3=1, chunk_bytes=4, word_bytes=4)
    return {
        "LOAD": dict(loop, addr=IN_A, row_bytes=4),
        "STORE": dict(loop, addr=OUT),
        "EPILOGUE": dict(rows=1, out_type=3, out_pitch=32),
        "MATRIX": dict(first=1, nx=c.acc_rows, ny=1, sx=1, sy=1, kx=1, ky=1, ncb=1, lim_x=1, lim_y=1, idx=1, idy=1),
    }[kind]


@pytest.mark.parametrize(
    "kind, fields, code",
    [
        ("LOAD", dict(n2=0), "FIELD"),
        ("LOAD", dict(word_bytes=17), "FIELD"),
        ("LOAD", dict(conv=1, chunk_bytes=32, word_bytes=32, row_bytes=32), None),
        ("LOAD", dict(conv=1, word_bytes=36), "FIELD"),
        ("LOAD", dict(transpose=1, n1=16), None),
        ("LOAD", dict(transpose=1, n1=17), "FIELD"),
        ("LOAD", dict(transpose=1, n0=2), "FIELD"),
        ("LOAD", dict(transpose=1, esize_log2=1, n1=9), "FIELD"),
        ("LOAD", dict(transpose=1, esize_log2=2, conv=2, n1=8), None),
        ("STORE", dict(chunk_bytes=0), "FIELD"),
        ("STORE", dict(word_bytes=32), "FIELD"),
        ("MATRIX", dict(ncb=0), "FIELD"),
        ("MATRIX", dict(idy=0), "FIELD"),
        ("MATRIX", dict(), None),
        ("MATRIX", dict(acc_base=1), "FIELD"),
        ("MATRIX", dict(DEPTHWISE), None),
        ("MATRIX", dict(DEPTHWISE, kx=5, ky=5), None),
        ("MATRIX", dict(DEPTHWISE, kx=6), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, ky=6), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, ncb=2), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, idx=2), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, idy=255), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, dx=2), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, dx=2, sx=4), None),
        ("MATRIX", dict(DEPTHWISE, sx=3), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, sy=3), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, dy=0), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, dy=0x8001, sy=2), "FIELD"),  # twice it, in 16 bits
        ("MATRIX", dict(DEPTHWISE, nx=62, ny=1), None),
        ("MATRIX", dict(DEPTHWISE, nx=63, ny=1), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, nx=64, ny=1, kx=1), None),
        ("MATRIX", dict(DEPTHWISE, nx=31, ny=1, sx=2), None),
        ("MATRIX", dict(DEPTHWISE, nx=32, ny=1, sx=2), "FIELD"),
        ("MATRIX", dict(DEPTHWISE, nx=1, ny=64), None),
        ("MATRIX", dict(DEPTHWISE, wgt_base=4087), None),
        ("MATRIX", dict(DEPTHWISE, wgt_base=4088), "SPAD_RANGE"),
        ("MATRIX", dict(dtype=5), None),
        ("MATRIX", dict(DEPTHWISE, dtype=5), None),
        ("MATRIX", dict(dtype=2), "FIELD"),
        ("MATRIX", dict(dtype=4), "FIELD"),
        ("EPILOGUE", dict(out_type=5), None),
        ("EPILOGUE", dict(out_type=4), "FIELD"),
        ("EPILOGUE", dict(out_type=6), "FIELD"),
        ("EPILOGUE", dict(out_type=5, out_base=8), "FIELD"),
        ("EPILOGUE", dict(out_type=5, out_base=16, out_pitch=16, rows=2), None),
        ("EPILOGUE", dict(out_type=5, out_pitch=8, rows=2), "FIELD"),
        ("EPILOGUE", dict(res_en=1, res_type=5), None),
        ("EPILOGUE", dict(res_en=1, res_type=5, res_base=24), "FIELD"),
        ("EPILOGUE", dict(res_en=1, res_type=5, rows=2, res_pitch=8), "FIELD"),
        ("EPILOGUE", dict(res_en=1, res_type=3), "FIELD"),
        ("EPILOGUE", dict(res_en=1, res_type=4), "FIELD"),
        ("EPILOGUE", dict(rows=64), None),
        ("EPILOGUE", dict(rows=64, acc_base=1), "FIELD"),
        ("LOAD", dict(isa=1, n0=0), "VERSION"),
        ("LOAD", dict(sp_base=4 * 1024 * 16), "SPAD_RANGE"),
        ("STORE", dict(sp_base=-16 & 0x7FFFFFF0), "SPAD_RANGE"),
        ("MATRIX", dict(wgt_base=4090), "SPAD_RANGE"),
        ("LOAD", dict(addr=0x10000), "READ_BUS"),
        ("LOAD", dict(addr=1 << 32), "READ_BUS"),
        ("STORE", dict(addr=0xFFFE), "WRITE_BUS"),
        ("LOAD", dict(row_bytes=0, addr=1 << 32), None),
    ],
)
def test_errors(kind, fields, code):
    result = machine("tiny").launch([encode("NOP"), encode(kind, **{**valid(kind), **fields})], first_index=40)
    assert (result.error[:2] if result.error else None) == ((code, 41) if code else None)


def test_opcode_ring_and_tokens():
    vector = encode("NOP")
    for opcode in (5, 9, 15):
        assert machine("tiny").launch([[opcode | vector[0] & ~15] + vector[1:]]).error == ("OPCODE", 0, 0)
    give = encode("LOAD", **valid("LOAD"), signal=8)
    assert machine("tiny").launch([give] * 255).error is None
    assert machine("tiny").launch([give] * 256).error == ("TOKEN_OVERFLOW", 255, 0)
    stuck = machine("tiny").launch([encode("STORE", **valid("STORE"), wait=1 << 3)])
    assert stuck.hang == "STORE: descriptor 0 waits for token [3]"
    # five LOADs that wait for a MATRIX behind them: the fifth does not fit the queue, so MATRIX is never seen
    waiting = encode("LOAD", **valid("LOAD"), wait=1 << 4)
    free = encode("MATRIX", **valid("MATRIX"), signal=1)
    assert machine("tiny").launch([waiting] * 5 + [free]).hang
    assert machine("tiny").launch([waiting] + [free]).hang is None
    m = machine("tiny")
    for i in range(4):
        m.memory.dram[i * 128 : (i + 1) * 128] = layout.to_bytes(encode("NOP"))
    assert m.launch_ring(0, 4, 0xFFFFFFFE, 2).error is None
    assert m.launch_ring(0, 4, 0, 5).error[0] == "RING"
    assert m.launch_ring(0, 1 << 17, 0, 1).error[0] == "RING"


def test_encode_decode_round_trip():
    r = rng("layout")
    g = layout.generated()
    for kind in ("LOAD", "STORE", "MATRIX", "EPILOGUE"):
        for _ in range(50):
            fields = {}
            for name, (_, _, width, is_signed) in {**g.FIELDS["COMMON"], **g.FIELDS[kind]}.items():
                if name != "opcode":
                    fields[name] = r.getrandbits(width) - ((1 << width - 1) if is_signed else 0)
            d = layout.decode(encode(kind, **fields))
            assert d.kind == kind and all(getattr(d, k) == v for k, v in fields.items())
    with pytest.raises(ValueError):
        encode("LOAD", n0=1 << 16)
