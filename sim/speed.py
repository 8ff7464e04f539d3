#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a simulator library of the Presil chip runs: simulated kHz of tiled layers on a busy chip, and of an idle
one.

usage: speed.py LIBRARY --generated DIR [--tiles N] [--rounds N] [--only TEXT] [--memory MODEL] [--once | --train]

DIR holds presil_desc.py and presil_regs.py of rtl/generate.py. Each layer is a double-buffered stream of tiles of 32
x 32 pixels: load, matrix, epilogue, store.
1x1 keeps everything busy (the worst case), 3x3 with residual the array. No results are looked at: that is what the
tests do. --once: one round without the idle chip, for perf. --train: a short run through everything that the chip
has, to be profiled for the compiler. kHz are of the thread's CPU time. Prints the best round of each, and the matrix
engine's share of busy cycles.
"""

import argparse
import importlib.util
import random
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "python"))
from presil_transport import Transport  # noqa: E402

RING = 0
ACT, WEIGHTS, PARAMS, RESIDUAL, OUT = 0x100000, 0x800000, 0x8F0000, 0x900000, 0xA00000  # DRAM bytes
MEMORY_BYTES, RING_ENTRIES_LOG2 = 64 << 20, 10
IDLE_CYCLES = 1_000_000


def generated(folder, name):
    """The module that rtl/generate.py wrote into a folder."""
    spec = importlib.util.spec_from_file_location(name, Path(folder) / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Chip(Transport):
    """A simulator library with the registers of a folder of rtl/generate.py, by name."""

    def __init__(self, path, memory_model, folder):
        super().__init__(path, memory_model, MEMORY_BYTES)
        self.registers = generated(folder, "presil_regs")

    def read(self, name):
        return self.read32(self.registers.REGISTERS[name])

    def write(self, name, value):
        self.write32(self.registers.REGISTERS[name], value)

    def timed_wait(self, cycles):
        """(cycles, seconds of this thread, reason)."""
        start = time.thread_time()
        reason, done = self.wait(cycles)
        return done, time.thread_time() - start, reason

    def counter(self, engine, cause):
        at = self.registers.REGISTERS["COUNTER"] + 8 * (engine * 16 + cause)
        return self.read32(at) | self.read32(at + 4) << 32


def descriptor(isa, kind, wait, signal, **values):
    whole = 0
    values |= {"opcode": isa.OPCODES[kind], "isa": isa.ISA_VERSION, "wait": wait, "signal": signal}
    for name, value in values.items():
        word, low, width, _ = isa.FIELDS[kind].get(name) or isa.FIELDS["COMMON"][name]
        whole |= (value & (1 << width) - 1) << 32 * word + low
    return whole.to_bytes(4 * isa.WORDS, "little")


def load(isa, wait, signal, address, sp_word, rows, row_words, word):
    size = row_words * word
    return descriptor(
        isa,
        "LOAD",
        wait,
        signal,
        addr=address,
        row_bytes=size,
        chunk_bytes=size,
        n0=1,
        n1=rows,
        n2=1,
        n3=1,
        word_bytes=word,
        ds1=size,
        sp_base=sp_word * word,
        sw=word,
        ss1=size,
    )


# Tokens as bits of `wait`: LOAD 0 operands, 1 parameters; MATRIX 4 accumulators full, 5 operands free; EPILOGUE 8
# accumulators free, 9 parameters free,
# 10 output full; STORE 12 output free.
def layer(isa, config, kind, kernel, residual, tiles, depthwise=False):
    """Descriptors of `tiles` tiles of side x side pixels, CELLS output channels, one channel block."""
    word, cells = config["word_bytes"], config["cells"]
    side = 32 if config["acc_rows"] >= 1024 else 8
    rows, span = side * side, side + kernel - 1
    size, dtype, floats = 1 if kind == "int8" else 2, isa.ENUMS["DTYPE"][kind.upper()], kind != "int8"
    out_bytes = side * cells * size
    act_words, weight_words, param_words, out_words = (
        span * span,
        kernel * kernel * (1 if depthwise else cells),
        2 * -(-4 * cells // word),
        -(-rows * cells * size // word),
    )
    at, buffers = 0, {}
    for name, words in (
        ("act", act_words),
        ("wgt", weight_words),
        ("par", param_words),
        ("res", out_words),
        ("out", out_words),
    ):
        buffers[name] = (at, at + words)
        at += 2 * words
    if at > config["banks"] * config["bank_words"]:
        raise ValueError(f"{at} words don't fit the scratchpad")
    out = []
    for i in range(tiles):
        act, wgt, par, res, result = (buffers[n][i & 1] for n in ("act", "wgt", "par", "res", "out"))
        again = i >= 2
        out.append(load(isa, again << 5, 0, ACT, act, span, span, word))
        out.append(load(isa, 0, 1, WEIGHTS, wgt, kernel * kernel, 1 if depthwise else cells, word))
        out.append(load(isa, again << 9, 0 if residual else 2, PARAMS, par, 1, param_words, word))
        if residual:
            out.append(load(isa, 0, 2, RESIDUAL, res, out_words // min(16, out_words), min(16, out_words), word))
        out.append(
            descriptor(
                isa,
                "MATRIX",
                1 | again << 8,
                3,
                dtype=dtype,
                depthwise=depthwise,
                wgt_x_stride=depthwise,
                wgt_y_stride=kernel * depthwise,
                first=1,
                half=i & 1,
                act_base=act,
                wgt_base=wgt,
                nx=side,
                ny=side,
                sx=1,
                sy=1,
                kx=kernel,
                ky=kernel,
                ncb=1,
                dx=1,
                dy=1,
                lim_x=span,
                lim_y=span,
                x_stride=1,
                y_stride=span,
                idx=1,
                idy=1,
            )
        )
        out.append(
            descriptor(
                isa,
                "EPILOGUE",
                1 << 4 | 2 | again << 12,
                7,
                acc_fp32=floats,
                half=i & 1,
                bias_en=1,
                scale_en=1,
                res_en=residual,
                res_type=dtype,
                out_type=dtype,
                rows=rows,
                param_base=par,
                out_base=result * word,
                out_pitch=cells * size,
                res_base=res * word,
                res_pitch=cells * size,
                res_scale=0x3F800000,
                int_lo=-128,
                int_hi=127,
            )
        )
        out.append(
            descriptor(
                isa,
                "STORE",
                1 << 10,
                1,
                addr=OUT + i * rows * cells * size,
                chunk_bytes=out_bytes,
                n0=1,
                n1=side,
                n2=1,
                n3=1,
                word_bytes=word,
                ds1=out_bytes,
                sp_base=result * word,
                sw=word,
                ss1=out_bytes,
            )
        )
    return out


def features(isa, config, kinds):
    """One launch of descriptors that don't wait for each other: every conversion, transposition, padding, stride,
    output and residual type."""
    word, cells, lanes = config["word_bytes"], config["cells"], config["lanes"]
    rows, words = 16, config["banks"] * config["bank_words"]
    base = {"addr": ACT, "n0": 1, "n2": 1, "n3": 1, "sw": word, "word_bytes": word}
    out = []
    for conv in (1, 2, 3):
        out.append(
            descriptor(
                isa,
                "LOAD",
                0,
                0,
                **base
                | {
                    "conv": conv,
                    "esize_log2": 2,
                    "row_bytes": 8 * word,
                    "chunk_bytes": 8 * word,
                    "word_bytes": 2 * word,
                    "n1": rows,
                    "ds1": 8 * word,
                    "ss1": 4 * word,
                },
            )
        )
    for esize_log2, conv in ((0, 0), (1, 0), (2, 1), (2, 2)):
        size = 2 if conv else 1 << esize_log2
        chunk = word * 2 if conv else word
        out.append(
            descriptor(
                isa,
                "LOAD",
                0,
                0,
                **base
                | {
                    "conv": conv,
                    "esize_log2": esize_log2,
                    "transpose": 1,
                    "row_bytes": chunk,
                    "chunk_bytes": chunk,
                    "word_bytes": chunk,
                    "n1": lanes // size,
                    "ds1": chunk + 4,
                    "n2": 4,
                    "ds2": 4096,
                    "ss2": 64 * word,
                },
            )
        )
    for odd in (0, 3, 5):  # padding left and right of rows, rows outside, odd addresses, short words packed
        out.append(
            descriptor(
                isa,
                "LOAD",
                0,
                0,
                **base
                | {
                    "addr": ACT + odd,
                    "row_bytes": 10 * word,
                    "pos0": -word,
                    "chunk_bytes": 12 * word,
                    "n1": rows,
                    "ds1": 10 * word,
                    "ss1": 12 * word,
                    "rp0": -2,
                    "rp1": 1,
                    "row_limit": rows - 3,
                    "pad": 0x01020304,
                },
            )
        )
        out.append(
            descriptor(
                isa,
                "LOAD",
                0,
                0,
                **base
                | {
                    "addr": ACT + odd,
                    "row_bytes": 96,
                    "pos0": -9,
                    "step0": 6,
                    "chunk_bytes": 15,
                    "word_bytes": 15,
                    "n0": 16,
                    "ss0": word,
                    "n1": rows,
                    "ds1": 96,
                    "ss1": 16 * word,
                },
            )
        )
    for number, kind in enumerate(kinds):
        dtype = isa.ENUMS["DTYPE"][kind.upper()]
        for stride, dilation, spread in ((1, 1, 1), (2, 2, 1), (1, 1, 2)):
            out.append(
                descriptor(
                    isa,
                    "MATRIX",
                    0,
                    0,
                    dtype=dtype,
                    first=1,
                    half=number & 1,
                    skip_special=spread == 2,
                    absent=stride == 2,
                    act_base=0,
                    wgt_base=words // 2,
                    nx=7,
                    ny=7,
                    sx=stride,
                    sy=stride,
                    kx=3,
                    ky=3,
                    ncb=2,
                    dx=dilation,
                    dy=dilation,
                    ox=-1,
                    oy=-1,
                    lim_x=7,
                    lim_y=7,
                    x_stride=1,
                    y_stride=7,
                    cb_stride=49,
                    idx=spread,
                    idy=spread,
                    pad=7,
                )
            )
    for out_type in range(4):
        for res_type in range(3):
            pitch, res_pitch = (1, 2, 4, 4)[out_type] * cells, (1, 2, 4)[res_type] * cells
            pitch, res_pitch = (
                p if p & p - 1 == 0 or p > word // 2 else 1 << p.bit_length() for p in (pitch, res_pitch)
            )
            pitch, res_pitch = (p if p <= word // 2 else -(-p // word) * word for p in (pitch, res_pitch))
            out.append(
                descriptor(
                    isa,
                    "EPILOGUE",
                    0,
                    0,
                    acc_fp32=res_type & 1,
                    bias_en=1,
                    scale_en=out_type != 3,
                    res_en=out_type != 3,
                    res_type=res_type,
                    out_type=out_type,
                    clamp_en=res_type != 2,
                    rows=48,
                    param_base=8,
                    out_base=words // 2 * word,
                    out_pitch=pitch,
                    res_base=64 * word,
                    res_pitch=res_pitch,
                    res_zp=3,
                    res_scale=0x3F800000,
                    clamp_lo=0,
                    clamp_hi=0x42C80000,
                    int_lo=-128,
                    int_hi=127,
                )
            )
    for odd, ordered in ((0, 0), (1, 1), (7, 0)):
        out.append(
            descriptor(
                isa,
                "STORE",
                0,
                0,
                ordered=ordered,
                addr=OUT + odd,
                chunk_bytes=4 * word,
                n0=2,
                n1=8,
                n2=1,
                n3=1,
                word_bytes=word,
                ds1=9 * word,
                sw=word,
                ss0=4 * word,
                ss1=8 * word,
            )
        )
        out.append(
            descriptor(
                isa,
                "STORE",
                0,
                0,
                ordered=ordered,
                addr=OUT + odd,
                chunk_bytes=9,
                n0=8,
                n1=8,
                n2=1,
                n3=1,
                word_bytes=9,
                ds1=80,
                ss0=word,
                ss1=8 * word,
            )
        )
    return out


def fill(chip, kind):
    """Random operands: bytes, or floats of both signs between 0.5 and 2 (fp16: 0.25 and 2)."""
    random.seed(1)
    count = (OUT - ACT) // 2
    bits = random.getrandbits(16 * count).to_bytes(2 * count, "little")
    if kind != "int8":
        mask, exponent = (0x80, 0x3F) if kind == "bf16" else (0x8B, 0x34)
        high = bytes(b & mask | exponent for b in bits[1::2])
        bits = b"".join(bytes(p) for p in zip(bits[::2], high)) if count < 1000 else _interleave(bits[::2], high)
    chip.memory_write(ACT, bits)
    chip.memory_write(
        PARAMS,
        struct.pack("<f", 0.004) * 4096
        if kind != "int8"
        else struct.pack("<i", 300) * 32 + struct.pack("<f", 0.002) * 4064,
    )


def _interleave(low, high):
    out = bytearray(2 * len(low))
    out[::2], out[1::2] = low, high
    return out


def prepare(chip):
    for name, value in (("RING_BASE_LO", RING), ("RING_LOG2", RING_ENTRIES_LOG2), ("IRQ_ENABLE", 3)):
        chip.write(name, value)


def run(chip, descriptors):
    """One launch; returns (cycles, seconds, share of cycles that the matrix engine was busy)."""
    entries = 1 << RING_ENTRIES_LOG2
    if len(descriptors) > entries:
        raise ValueError(f"{len(descriptors)} descriptors, but the ring has {entries}")
    chip.write("CONTROL", 1 | 4)  # the ring from its start: where it wraps the fetch takes another burst
    for i, d in enumerate(descriptors):
        chip.memory_write(RING + i * len(d), d)
    chip.launch(1)
    chip.write("RING_TAIL", len(descriptors))
    cycles, seconds, reason = chip.timed_wait(50_000_000)
    if reason or chip.read("STATUS") & 2:
        found = [f"{name} {chip.read(name):#x}" for name in ("STATUS", "ERROR_CODE", "ERROR_INDEX")]
        raise RuntimeError(f"wait ended with {reason}, {', '.join(found)}")
    chip.write("IRQ_CLEAR", 3)
    chip.write("CONTROL", 2)
    return cycles, seconds, chip.counter(1, 0) / cycles


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--generated", type=Path, required=True)
    parser.add_argument("--tiles", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--memory", default="default")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--train", action="store_true")
    args = parser.parse_args()
    isa = generated(args.generated, "presil_desc")
    chip = Chip(args.library.resolve(), args.memory, args.generated)
    info = chip.info()
    config = isa.CONFIGS[info.config.decode()]
    if chip.read("CONFIG_HASH") != config["hash"]:
        raise SystemExit(
            f"the chip's CONFIG_HASH {chip.read('CONFIG_HASH'):#x} is not that of {args.generated}, {config['hash']:#x}"
        )
    print(f"{info.chip.decode()} {info.config.decode()} {info.build.decode()}: {info.text.decode()}")
    prepare(chip)
    kinds = ("int8", "bf16", "fp16")[: 2 + (chip.read("CAP_FEATURES") >> 6 & 1)]
    if args.train:
        args.tiles, args.rounds, args.once = 40, 1, True
        for kind in kinds:
            fill(chip, kind)
            for _ in range(2):
                run(chip, features(isa, config, kinds))
        chip.wait(2000)
    layers = [
        (f"{kind} {k}x{k}{text}", kind, k, text == " residual", text == " depthwise")
        for kind in kinds
        for k, text in ((1, ""), (3, " residual"), (3, " depthwise"))
    ]
    for name, kind, kernel, residual, depthwise in layers:
        if args.only not in name:
            continue
        tiles = args.tiles // (1 if depthwise else kernel * kernel) + 2
        descriptors = layer(isa, config, kind, kernel, residual, tiles, depthwise)
        fill(chip, kind)
        results = []
        for _ in range(1 if args.once else args.rounds):
            results.append(run(chip, descriptors))
        cycles, _, busy = results[0]
        if any(r[0] != cycles for r in results):
            raise SystemExit(f"{name}: cycles differ: {[r[0] for r in results]}")
        print(
            f"{name:18} {cycles:9} cycles  {max(n / s for n, s, _ in results) / 1e3:7.0f} kHz  matrix busy "
            f"{100 * busy:5.1f} %"
        )
    if not args.once and args.only in "idle":
        best = max(n / s for n, s, _ in (chip.timed_wait(IDLE_CYCLES) for _ in range(args.rounds)))
        print(f"{'idle':18} {'':9}         {best / 1e3:7.0f} kHz")


if __name__ == "__main__":
    main()
