# SPDX-License-Identifier: Apache-2.0
"""Chips with ports of their own behind a port map (docs/ports.md): tests/rtl/presil_ports_*, whose inside is one."""

import os
import random
import socket
import struct
import sys
from pathlib import Path

import pytest

from .servers import SERVERS, Server
from .test_document import block, memory, message, receive

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sim" / "python"))
from presil_transport import DEADLINE, IRQ, Transport, TransportError  # noqa: E402

LIB = Path(os.environ["PRESIL_BUILD_DIR"]) / "lib"
ID, WORD, SRC, DST, BEATS, BURSTS, CONTROL, STATUS, PROGRESS, SCRATCH = 0, 4, 8, 12, 16, 20, 24, 28, 32, 0xDFF0
BASE, SIZE = 0x100000, 1 << 20
# what a chip's registers cost in cycles, and whether its interrupts have a word
CHIPS = {
    "apb": {"word": 16, "access": 3, "strobes": True, "errors": True, "pending": None},
    "csb": {"word": 16, "access": 6, "strobes": False, "errors": False, "pending": 0xDFE0, "pulse": 2},
    "many": {"word": 8, "access": 6, "strobes": False, "errors": True, "pending": None, "registers": 0x20000},
}
BUILDS = ("fast", "check")


@pytest.fixture(params=[(name, build) for name in CHIPS for build in BUILDS], ids="-".join)
def chip(request):
    name, build = request.param
    path = LIB / f"libpresil_sim_ports_{name}_{build}.so"
    with Transport(path, memory_bytes=SIZE, memory_base=BASE, options="monitor=1") as transport:
        transport.properties = CHIPS[name]
        yield transport


def copy(chip, launch, beats, bursts, source=0, target=SIZE // 2):
    """Cycles of a copy, and whether it is right."""
    size = beats * bursts * chip.properties["word"]
    data = random.Random(launch).randbytes(size)
    chip.memory_write(BASE + source, data)
    chip.memory_write(BASE + target, bytes(size))
    for register, value in ((SRC, BASE + source), (DST, BASE + target), (BEATS, beats), (BURSTS, bursts)):
        chip.write32(register, value)
    if chip.properties["pending"] is not None:
        chip.write32(chip.properties["pending"], chip.properties["pulse"])
    chip.launch(launch)
    start = chip.cycles()
    chip.write32(CONTROL, 1)
    while not chip.read32(STATUS) & 2:
        assert chip.wait(100000)[0] == IRQ
        if chip.properties["pending"] is not None:
            seen = chip.read32(chip.properties["pending"])
            assert seen, "nobody raised it"
            chip.write32(chip.properties["pending"], seen & chip.properties["pulse"])
    chip.write32(STATUS, 2)
    return chip.cycles() - start, chip.memory_read(BASE + target, size) == data


def test_registers_behind_any_bus(chip):
    assert chip.read32(ID) == 0x504F5254
    assert chip.read32(WORD) == chip.properties["word"]
    assert chip.read32(SCRATCH) == 0x12345678, "not reset, or only the low 12 bits of an address arrive"
    for value in (0, 0xFFFFFFFF, 0xA5A55A5A):
        chip.write32(SCRATCH, value)
        chip.write32(SCRATCH & 0xFFF, 0x77)
        assert chip.read32(SCRATCH) == value
    end = chip.properties.get("registers", 0x10000)
    with pytest.raises(TransportError, match=f"{end:#x} is not a multiple of 4 below {end:#x}"):
        chip.read32(end)
    if chip.properties["errors"]:
        for access in (lambda: chip.read32(0xE000), lambda: chip.write32(0xFFFC, 1)):
            with pytest.raises(TransportError, match="answered SLVERR"):
                access()
    chip.reset()
    assert chip.read32(SCRATCH) == 0x12345678


def test_an_access_takes_what_the_bus_takes(chip):
    taken = []
    for access in (lambda: chip.read32(ID), lambda: chip.write32(SRC, 5), lambda: chip.read32(SRC)) * 3:
        before = chip.cycles()
        access()
        taken.append(chip.cycles() - before)
    assert set(taken[1:]) == {chip.properties["access"]}, taken


@pytest.mark.parametrize(
    "model", ["default", "ideal", "ideal,pressure=heavy,commit=b", "reorder=1,interleave=1,stall=0.3"]
)
def test_memory_and_interrupts(chip, model):
    chip.set_memory_model(model, 3)
    first = {}
    for launch, (beats, bursts) in enumerate([(1, 1), (16, 1), (16, 5), (3, 7)]):
        first[launch] = copy(chip, launch, beats, bursts)
        assert first[launch][1], "wrong bytes"
    for launch in (3, 0, 2, 1):  # the same cycles whatever was before
        beats, bursts = [(1, 1), (16, 1), (16, 5), (3, 7)][launch]
        chip.wait(launch + 1)
        assert copy(chip, launch, beats, bursts) == first[launch]


def test_pulses_are_kept_until_cleared(chip):
    pending = chip.properties["pending"]
    if pending is None:
        assert chip.wait(1000)[0] == DEADLINE
        return
    copy(chip, 1, 1, 1)
    assert chip.read32(pending) == 0
    for register, value in ((SRC, BASE), (DST, BASE + 4096), (BEATS, 1), (BURSTS, 2), (CONTROL, 1)):
        chip.write32(register, value)
    assert chip.wait(100000)[0] == IRQ
    assert chip.read32(pending) == 2, "the first burst's pulse, and the level is not there yet"
    assert chip.wait(10) == (IRQ, 0)
    chip.write32(pending, 2)
    assert chip.read32(pending) == 0
    assert chip.wait(100000)[0] == IRQ
    chip.reset()
    assert chip.read32(pending) == 0
    assert chip.wait(1000)[0] == DEADLINE


def start(chip, engine, source, target, beats, bursts):
    for register, value in ((SRC, source), (DST, target), (BEATS, beats), (BURSTS, bursts), (CONTROL, 1)):
        chip.write32(engine + register, value)


def finish(chip, engine):
    for _ in range(10000):
        if chip.read32(engine + STATUS) & 2:
            return chip.write32(engine + STATUS, 2)
    pytest.fail("never done")


@pytest.fixture(params=BUILDS)
def many(request):
    path = LIB / f"libpresil_sim_ports_many_{request.param}.so"
    with Transport(path, memory_bytes=SIZE, memory_base=BASE, options="monitor=1") as transport:
        transport.properties = CHIPS["many"]
        yield transport


SRAM, SECOND = 0x80000000, 0x10000


@pytest.mark.parametrize("model", ["default", "ideal", "pressure=heavy,commit=b", "reorder=1,interleave=1,stall=0.2"])
def test_ports_of_several_widths_share_the_bus(many, model):
    """A reads and writes 64 bits through two ports while B moves 256 bits: narrow beats on the lanes of a wide bus."""
    many.set_memory_model(model, 5)
    random.seed(9)
    assert many.read32(WORD) == 8 and many.read32(SECOND + WORD) == 32
    for launch, skew in enumerate((0, 8, 24, 40)):
        data = random.randbytes(SIZE)
        many.memory_write(BASE, data)
        many.launch(launch)
        start(many, 0, BASE + skew, BASE + 0x40000 + 3 * skew, 7, 5)
        start(many, SECOND, BASE + 0x10000, BASE + 0x60000, 16, 9)
        finish(many, 0)
        finish(many, SECOND)
        want = bytearray(data)
        want[0x40000 + 3 * skew : 0x40000 + 3 * skew + 280] = data[skew : skew + 280]
        want[0x60000 : 0x60000 + 4608] = data[0x10000 : 0x10000 + 4608]
        assert many.memory_read(BASE, SIZE) == want
        assert many.read32(0x44) == 0, "a read came back with another ID"


def test_a_memory_on_the_chip(many):
    data = random.Random(4).randbytes(SIZE)
    many.memory_write(BASE, data)
    many.launch(0)
    start(many, 0, BASE, SRAM + 0x100, 16, 4)
    finish(many, 0)
    assert many.memory_read(BASE, SIZE) == data, "what is for the chip's own memory went to the other"
    start(many, 0, SRAM + 0x100, SRAM + 0x1000, 3, 10)
    finish(many, 0)
    many.reset()  # keeps it in the fast build; the check build makes a new model
    start(many, 0, SRAM + 0x1000, BASE + 0x8000, 5, 6)
    finish(many, 0)
    if "check" not in many.info().build.decode():
        assert many.memory_read(BASE + 0x8000, 240) == data[:240]
    start(many, 0, SRAM + 0x2000, BASE + 0x9000, 1, 1)
    with pytest.raises(TransportError, match="a read at 0x80002000 is outside of 0x80000000 to 0x80002000"):
        finish(many, 0)


def test_each_clock_has_its_rate(many):
    before, ticks = many.cycles(), many.read32(0x40)
    many.wait(6000)
    assert abs((many.read32(0x40) - ticks) * 2 - (many.cycles() - before)) <= 12
    start(many, 0, BASE, BASE + 4096, 1, 1)
    start(many, SECOND, BASE, BASE + 4096, 1, 3)
    many.wait(100000)
    assert many.wait(100000)[0] == IRQ


def test_outside_of_the_memory(chip):
    for register, value in ((SRC, 0), (DST, BASE), (BEATS, 1), (BURSTS, 1), (CONTROL, 1)):
        chip.write32(register, value)
    assert chip.wait(100000)[0] == IRQ
    assert chip.memory_read(BASE, 8) == bytes(8)


class Client:
    """A driver written from docs/transport-protocol.md."""

    def __init__(self, path, fd):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        hello = bytes(block("hello")).replace(struct.pack("<Q", 0x100000000), struct.pack("<Q", BASE))
        socket.send_fds(self.socket, [hello], [fd])
        self.sequence, self.welcome = 0, receive(self.socket)[2]

    def ask(self, kind, payload=b""):
        """(cycles, body); a refusal is an assertion."""
        self.post(kind, payload)
        answered = 65
        while answered == 65:
            answered, _, body = receive(self.socket)
        assert struct.unpack("<i", body[:4])[0] == 0, body
        return struct.unpack("<Q", body[8:16])[0], body[16:]

    def post(self, kind, payload):
        self.sequence += 1
        self.socket.sendall(message(kind, self.sequence, payload))

    def write32(self, offset, value):
        self.post(4, struct.pack("<II", offset, value))

    def read32(self, offset):
        return struct.unpack("<I", self.ask(3, struct.pack("<II", 1, offset))[1])[0]


@pytest.mark.parametrize("way", ["socket", "socket-systemc", "dpi"])
def test_every_way_takes_the_map(way, tmp_path, monkeypatch):
    """SystemC and DPI: the same registers and bytes, of DPI also the same cycles."""
    monkeypatch.setitem(
        SERVERS, "socket-systemc", "presil-serve {socket} --library {lib}/libpresil_sim_{config}_systemc.so"
    )
    data, fd = random.Random(8).randbytes(0x20000), memory()
    os.pwrite(fd, data, 0)
    with Server(way, "ports_many", tmp_path) as server:
        client = Client(server.path, fd)
        assert b"ports" in client.welcome
        assert [client.read32(SECOND + at) for at in (ID, WORD, SCRATCH)] == [0x504F5254, 32, 0x12345678]
        client.post(9, struct.pack("<Q", 0))
        begin, _ = client.ask(11)
        start(client, 0, BASE + 8, BASE + 0x40000, 7, 5)
        start(client, SECOND, BASE + 0x10000, BASE + 0x60000, 16, 9)
        reason = struct.unpack("<IIQ", client.ask(10, struct.pack("<QQQ", 100000, 0, 0))[1])[0]
        assert reason == IRQ
        finish(client, SECOND)
        end, _ = client.ask(11)
        finish(client, 0)
        assert os.pread(fd, 280, 0x40000) == data[8:288] and os.pread(fd, 4608, 0x60000) == data[0x10000:0x11200]
    os.close(fd)
    CYCLES[way] = end - begin
    if way == "dpi" and "socket" in CYCLES:
        assert CYCLES["dpi"] == CYCLES["socket"]


CYCLES = {}
