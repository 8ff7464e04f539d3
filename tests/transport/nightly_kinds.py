# SPDX-License-Identifier: Apache-2.0
"""Chips behind port maps in SystemC and DPI, which CI has in the plain harness alone (test_kinds.py, test_widths.py);
and faults of a map that only the simulation can see (docs/ports.md, "What a wrong map does"), in every way."""

import contextlib
import os
import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from .kinds import WAYS, made
from .servers import BUILD, SERVERS, Server
from .test_document import memory
from .test_ports import BASE, ID, SCRATCH, SIZE, WORD, Client, Transport, TransportError, start

START = {"systemc": "presil-serve {socket} --library ", "dpi": ""}


def served(monkeypatch, way: str, made_file: Path) -> None:
    tail = " +presil_socket={socket}" if way == "dpi" else ""
    monkeypatch.setitem(SERVERS, "kind", f"{START[way]}{made_file}{tail}")


@pytest.mark.parametrize("way", ["systemc", "dpi"])
def test_lite(way, tmp_path, monkeypatch):
    """Registers of 64 bits, a vector of interrupts, and a copy, as in test_kinds.py."""
    served(monkeypatch, way, made(tmp_path / "b", "lite", way))
    data, fd = random.Random(3).randbytes(0x20000), memory()
    os.pwrite(fd, data, 0)
    with Server("kind", "lite", tmp_path) as server:
        client = Client(server.path, fd)
        assert [client.read32(at) for at in (ID, WORD, SCRATCH)] == [0x504F5254, 32, 0x12345678]
        client.post(9, struct.pack("<Q", 0))
        start(client, 0, BASE, BASE + 0x40000, 16, 5)
        while client.read32(28) & 1:
            client.ask(10, struct.pack("<QQQ", 1000, 0, 0))
        assert client.read32(0xDFE0) == 0b101
        assert os.pread(fd, 2560, 0x40000) == data[:2560]
    os.close(fd)


@pytest.mark.parametrize(("word", "bits"), [(4, 1), (8, 8), (16, 9), (32, 16), (128, 32)])
@pytest.mark.parametrize("way", ["systemc", "dpi"])
def test_any_burst(way, word, bits, tmp_path, monkeypatch):
    """On buses of so many bytes, with IDs of so many bits; what is reordered keeps the order of each ID."""
    parameters = [f"WORD={word}", f"ID={bits}"]
    file = made(tmp_path / "b", "burst", way, PORTS="", MAP=["clocks.clk = 1"], PARAMETERS=parameters)
    if way == "dpi":
        served(monkeypatch, way, file)
    with Server("kind", "burst", tmp_path) if way == "dpi" else contextlib.nullcontext() as server:
        for test in ("bursts", "memory_model"):
            command = [BUILD / f"bin/test_{test}", f"socket:{server.path}" if server else file]
            done = subprocess.run(command, capture_output=True, text=True, timeout=500)
            assert done.returncode == 0 and "PASSED" in done.stderr, done.stdout[-3000:] + done.stderr[-3000:]


def poke(chip, fault: str) -> None:
    """A copy on one of the two engines of presil_ports_many_top."""
    engine = 0 if fault == "a level as a pulse" else 0x10000
    start(chip, engine, BASE + 0x10000, BASE + 0x60000, 3, 29)


FAULTS = {
    "polarity of an interrupt": ("apb", "interrupts.done_intr = { kind = 'level', active = 'low' }",
                                 r"interrupts\.done_intr: active when the reset end"),
    "a level as a pulse": ("many", "interrupts.irq_a = 'pulse'",
                           r"interrupts\.irq_a: a pulse that stays"),
    "a pulse as a level": ("many", "interrupts.step_b = 'level'",
                           r"interrupts\.step_b: a level that fell by itself"),
    "the wrong port as sram": (
        "many", "memory = [{ prefix = 'rd_' }, { prefix = 'wr_' }, { prefix = 'sram_', bus = 'axi3' }, "
        "{ prefix = 'big_', sram = { base = 0x80000000, bytes = 0x2000 } }]",
        r"the memory on the chip: a read at 0x110000 is outside of 0x80000000 to 0x80002000"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_map_ends_in_a_text(way, fault, tmp_path, monkeypatch):
    chip, change, text = FAULTS[fault]
    file = made(tmp_path / "b", chip, way, MAP=[change])
    if way == "plain":
        with pytest.raises(TransportError, match=text):
            with Transport(file, memory_bytes=SIZE, memory_base=BASE) as opened:
                poke(opened, fault)
                for _ in range(1000):
                    opened.wait(2000)
                    opened.read32(ID)
        return
    served(monkeypatch, way, file)
    fd = memory()
    with Server("kind", chip, tmp_path) as server:
        said = ""
        try:
            client = Client(server.path, fd)
            said = repr(client.welcome)
            poke(client, fault)
            for _ in range(1000):
                client.ask(10, struct.pack("<QQQ", 2000, 0, 0))
                client.read32(ID)
        except (AssertionError, OSError, struct.error) as error:
            said += repr(error)
        said += server.log.read_text() if way == "dpi" else ""
    os.close(fd)
    assert re.search(text, said), said[-3000:]
