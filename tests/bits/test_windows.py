# SPDX-License-Identifier: Apache-2.0
"""DMA windows drawn at random and transfers in, beside and across them: RTL, twin and oracle refuse the same burst of
the same descriptor (docs/isa.md section 1)."""

import os
import random

import pytest
from bench.twin import Twin
from oracle import layout
from oracle.layout import encode
from oracle.machine import WINDOW_ENABLE, WINDOW_READ, WINDOW_WRITE, Machine

from bench.rtl import RING, Rtl

DRAM = 64 << 20
PAGES = DRAM >> 12
LAUNCHES = 400


def draw_windows(r: random.Random) -> list:
    """The ring's, and three of a few pages near each other, or far away with the same low bits."""
    windows = [(RING >> 12, RING >> 12 | WINDOW_ENABLE | WINDOW_READ)]
    for _ in range(3):
        first = r.choice((r.randrange(0x40, 0x50), r.randrange(0x40, PAGES)))
        last = first + r.choice((0, 0, 1, 2, 3, 20, 20, -1))
        flags = (
            WINDOW_ENABLE * (r.random() < 0.8) | WINDOW_READ * (r.random() < 0.7) | WINDOW_WRITE * (r.random() < 0.7)
        )
        windows.append((first, min(last, PAGES - 1) | flags))
    r.shuffle(windows)
    return windows


def draw_transfer(r: random.Random, windows: list, word: int) -> tuple:
    """(kind, fields): rows that begin near a page of a window, upwards or downwards, by chunks that overlap or not."""
    page = r.choice(windows)[r.choice((0, 1))] & (1 << 28) - 1
    chunk = r.choice((1, word, 3 * word + 1, 1000, 4096, 5000))
    address = (page << 12) + r.choice((0, 4095, 4096, r.randrange(4096))) - r.choice((0, 0, 1, chunk, 4096))
    address = max(address, 0)
    if r.random() < 0.1:
        address ^= 1 << r.choice((20, 28, 31, 32, 36, 39))
    words = -(-chunk // word)
    n0, n1 = r.choice(((1, 1), (1, 3), (2, 2), (3, 1)))
    fields = dict(addr=address, chunk_bytes=chunk, word_bytes=word, sw=word)
    fields |= dict(n0=n0, n1=n1, n2=1, n3=1, sp_base=0, ss0=words * word, ss1=n0 * words * word)
    fields |= dict(ds1=r.choice((1, 4096, -4096, 8192 + 7, -5)))
    if r.random() < 0.5:
        return "STORE", fields
    step = r.choice((0, chunk // 2, chunk, chunk + 300))
    fields |= dict(pos0=r.choice((0, 0, 7, -3)), step0=step, row_bytes=r.choice((chunk, 2 * chunk, 9000)))
    return "LOAD", fields


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_the_same_burst_is_refused(config):
    seed = int(os.environ.get("PRESIL_SEED", "1"))
    print(f"PRESIL_SEED={seed}")
    r = random.Random(f"{config} {seed}")
    c, rtl, twin, dram, seen = layout.config(config), Rtl(config), Twin(config), bytearray(DRAM), {}
    machine = Machine(c, bytearray(DRAM))
    for n in range(LAUNCHES):
        windows = draw_windows(r)
        kind, fields = draw_transfer(r, windows, c.word_bytes)
        program = [encode("NOP")] * r.randrange(3) + [encode(kind, **fields)]
        for w, (first, last) in enumerate(windows):
            rtl.write(f"WINDOW{w}_FIRST", first)
            rtl.write(f"WINDOW{w}_LAST", last)
        twin.set_windows(windows)
        machine.memory.windows = windows
        oracle, two, chip = machine.launch(program), twin.launch(program, dram), rtl.launch(program)
        wanted = (0, 0, 0)
        if oracle.error:
            wanted = (layout.enum("ERROR", oracle.error[0]), *oracle.error[1:])
        found = [(chip.code, chip.index, chip.address), (two.code, two.index, two.address)]
        assert found == [wanted] * 2, (n, kind, fields, [(hex(a), hex(b)) for a, b in windows], wanted, found)
        name = oracle.error[0] if oracle.error else "done"
        seen[kind, name] = seen.get((kind, name), 0) + 1
    print(seen)
    assert set(seen) == {(kind, name) for kind in ("LOAD", "STORE") for name in ("done", "WINDOW")}, seen
    assert min(seen.values()) >= LAUNCHES // 20, seen
