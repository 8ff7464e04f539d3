# SPDX-License-Identifier: Apache-2.0
"""A list of descriptors of which a test has found something wrong, once more through the driver, as a bundle
(docs/replay.md). PRESIL_CAPTURE_FAILURES: where to; without it nothing is kept."""

import contextlib
import ctypes as C
import os
import re
import struct
import weakref
from pathlib import Path

from oracle.layout import generated

from . import built, driver

BASE = 1 << 33  # of the lists' memory: that of the driver begins 4 GiB below, and has its ring there
BELOW = 1 << 32
RING = BELOW  # the driver's first block; every launch begins at its first entry
COMMAND = 128  # bytes
PIECE = 1 << 16
OUTSIDE, ROOM = 8, 1 << 16  # most commands that reach outside of memory: as many faults can be injected; bytes for each
QUEUE_RESET = 1  # CONTROL
PATIENCE = 4_000_000  # cycles: no list of the tests takes a tenth of them; one that never ends ends here
KEPT = "kept in "
OPEN = weakref.WeakSet()  # chips that tests have open


def folder() -> str | None:
    return os.environ.get("PRESIL_CAPTURE_FAILURES")


def near(raw: bytes, size: int, faults: list) -> bytes:
    """Of a LOAD or STORE the address as the driver reads it: signed, without bits beyond 40, which the chip ignores.
    So a row that begins below 0 and is read from 0 on stays in its place. What begins outside of memory (`size` bytes
    from 0 on) is done behind it, where the bus answers with an error as well: by a fault more."""
    g = generated()
    words = list(struct.unpack(f"<{g.WORDS}I", raw))
    kinds = {value: kind for kind, value in g.OPCODES.items()}
    word, low, width, _ = g.FIELDS["COMMON"]["opcode"]
    kind = kinds.get(words[word] >> low & (1 << width) - 1)
    if kind in ("LOAD", "STORE"):
        at = g.FIELDS[kind]["addr"][0]
        address = (words[at] | words[at + 1] << 32) & (1 << 40) - 1
        address -= (address & 1 << 39) << 1
        if not -ROOM < address < size and len(faults) < OUTSIDE:
            address = size + len(faults) * ROOM + address % ROOM // 2
            faults.append(f"decerr@{BASE + address}")
        words[at], words[at + 1] = address & 0xFFFFFFFF, address >> 32 & 0xFFFFFFFF
    return struct.pack(f"<{g.WORDS}I", *words)


def image(config: str, raw: list[bytes], label: str, size: int) -> tuple[bytes, str]:
    """(as presil_list_save of presil_image.h writes a list of one launch, addresses relative to BASE; what is to be
    injected, so that it comes to the same)."""
    text, faults = label.encode()[:63].ljust(64, b"\0"), []
    head = struct.pack("<4sIIIQQQQQ", b"PLIM", 1, generated().CONFIGS[config]["hash"], 1, len(raw), 0, 0, 0, 0) + text
    plan = head + struct.pack("<Q", len(raw)) + b"".join(near(one, size, faults) for one in raw)
    return struct.pack("<QQ", 1, len(plan)) + plan + bytes(-len(plan) % 8), ",".join(faults)


def moved(fault: str, ring: range, first: int) -> str:
    """A fault that was injected into a chip, for the launch in the bundle, whose first command was at the ring's count
    `first`: what the bus refuses in the test's ring, it refuses in the driver's. Raises ValueError: there is none such.
    """
    kind, _, at = fault.partition("@")
    if kind == "flip":
        raise ValueError(f"{fault}, which is of the test's own memory")
    if kind not in ("slverr", "decerr"):
        return fault
    if int(at) in ring:
        return f"{kind}@{RING + (int(at) - ring.start - COMMAND * first) % len(ring)}"
    return f"{kind}@{BASE + int(at)}"


ADD = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p, C.c_char_p)
DESCRIBE = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, ADD, C.c_void_p)


class Options(C.Structure):
    """presil_bundle_capture_options"""

    _fields_ = [
        ("size", C.c_uint32),
        ("last", C.c_uint32),
        ("first", C.c_uint64),
        ("launches", C.c_uint64),
        ("labels", C.c_char_p),
        ("overwrite", C.c_uint32),
        ("level", C.c_int32),
        ("torch_version", C.c_char_p),
        ("file_labels", C.c_void_p),
        ("file_label_count", C.c_uint32),
        ("reserved0", C.c_uint32),
        ("describe", DESCRIBE),
        ("context", C.c_void_p),
        ("source", C.c_void_p),
    ]


class Captured:
    """A bundle of a device: every launch (`to` is a file), or each that fails (`to` is a folder). injected: of the
    launches from now on, for presil-replay. source: a presil_capture_source."""

    def __init__(self, device: driver.Device, to: str | Path, failures: bool, source=None):
        self.lib, self.handle = C.CDLL(str(built.library("libpresil_capture.so"))), C.c_void_p()
        self.injected, self._describe = "", DESCRIBE(self._label)
        begin = self.lib.presil_bundle_capture_failures if failures else self.lib.presil_bundle_capture_open
        text, options = C.create_string_buffer(512), Options(size=C.sizeof(Options), describe=self._describe)
        options.source = C.cast(C.pointer(source), C.c_void_p) if source else None
        given = (C.byref(options), C.byref(self.handle), text, C.c_size_t(512))
        arguments = (device.handle, str(to).encode(), *given)
        if status := begin(*arguments):
            raise driver.PresilError(status, text.value.decode())

    def _label(self, _context, _launch, add, to) -> None:
        if self.injected:
            add(to, b"inject", self.injected.encode())

    def close(self) -> None:
        text = C.create_string_buffer(512)
        if status := self.lib.presil_bundle_capture_close(self.handle, None, text, C.c_size_t(512)):
            raise driver.PresilError(status, text.value.decode())


@contextlib.contextmanager
def failures_of(device: driver.Device):
    """Launches that fail leave bundles."""
    captured = Captured(device, folder(), failures=True) if folder() else None
    try:
        yield
    finally:
        if captured:
            captured.close()


def load(device: driver.Device, data: bytes, size: int) -> C.c_void_p:
    """The list, also where the chip is to refuse it."""
    out, arguments = C.c_void_p(), (device.handle, data, C.c_uint64(len(data)), C.c_uint64(BASE), C.c_uint64(size))
    if driver.LIB.presil_list_load(*arguments, C.byref(out)):
        device.check(driver.LIB.presil_list_load_refused(*arguments, C.byref(out)))
    return out


def run(device: driver.Device, data: bytes, size: int, contents) -> bool:
    """Whether it failed."""
    listed = load(device, data, size)
    for address, some in contents:
        host = driver.LIB.presil_host_pointer(device.handle, BASE + address, len(some))
        C.memmove(host, bytes(some), len(some))
    try:
        device.check(driver.LIB.presil_list_submit(listed, None))
        device.synchronize()
    except driver.PresilError as error:
        print(f"through the driver: {error}")
        return True
    finally:
        driver.LIB.presil_list_destroy(listed)
    return False


def write(chip, lists, contents, size: int, label: str, path: Path, fault: str = "") -> bool:
    """A bundle of the lists, one launch each; whether the last one failed. fault: injected into the last one."""
    library, room = str(Path(chip.path).resolve()), size + OUTSIDE * ROOM
    path.unlink(missing_ok=True)
    with driver.Device(chip.name, "verify", None, chip.model, chip.seed, BELOW + room, library=library) as device:
        device.set_timeout(PATIENCE)
        captured, failed = Captured(device, path, failures=False), False
        try:
            for raw in lists:
                data, faults = image(chip.name, raw, label, size)
                captured.injected = ",".join(filter(None, [fault if raw is lists[-1] else "", faults]))
                device.check(driver.LIB.presil_inject(device.handle, captured.injected.encode() or None))
                failed = run(device, data, room, contents)
            return failed
        finally:
            captured.close()


def keep(
    chip, raw: list[bytes], contents, size: int, label: str, before=(), fault: str = "", both=False, first=0
) -> str:
    """chip: a bench.chip.Chip, to say which; contents: (address, bytes) of its memory before, which has `size` bytes
    from 0 on; before: the launch before it, which is kept too where it is in order alone (both: in any case); fault:
    what was injected; first: the ring's count of its first command. Prints where the bundle is, or why there is none,
    and returns that."""
    if not folder() or not raw:
        return ""
    path = Path(folder()) / (re.sub(r"[^\w.-]", "-", label) + ".presil")
    try:
        ring = range(chip.ring, chip.ring + (COMMAND << chip.ring_log2))
        fault = ",".join(moved(one, ring, first) for one in filter(None, fault.split(",")))
        both = both and bool(before)
        if (
            not write(chip, [before, raw] if both else [raw], contents, size, label, path, fault)
            and before
            and not both
        ):
            write(chip, [before, raw], contents, size, label, path, fault)
    except (driver.PresilError, OSError, ValueError) as error:
        path.unlink(missing_ok=True)
        text = f"no bundle of {label}: {error}"
    else:
        text = f"{KEPT}{path}"
    print(text, flush=True)
    return text


class Given:
    """The descriptors that a chip was given since it was idle, by its registers, and what was injected; `seen`: the
    registers that were read last, with nothing else in between."""

    def __init__(self, chip):
        self.chip, self.tail, self.over, self.raw = weakref.proxy(chip), 0, False, []
        self.first = 0  # the ring's count of raw[0]
        self.fault, self.seen = "", []
        OPEN.add(chip)

    def reset(self) -> None:
        self.over, self.tail = True, self.chip.start

    def write(self, name: str, value: int) -> None:
        """Before the register has it."""
        if name == "IRQ_CLEAR":
            self.over = True
        elif name == "CONTROL" and value & QUEUE_RESET:
            self.reset()
        elif name == "RING_TAIL":
            chip, size = self.chip, 1 << self.chip.ring_log2
            count = value - self.tail & 0xFFFFFFFF
            if count > size:
                return  # the chip refuses it
            self.raw, self.over = ([] if self.over else self.raw), False
            self.first = self.first if self.raw else self.tail
            places = [(self.tail + i) % size for i in range(count)]
            self.raw += [chip.memory_read(chip.ring + COMMAND * at, COMMAND) for at in places]
            self.tail = value

    def read(self, address: int) -> None:
        """A register."""
        names = {at: name for name, at in self.chip.map.REGISTERS.items()}
        name = names.get(address) or names[max(at for at in names if at <= address)]
        if name not in self.seen:
            self.seen.append(name)

    @property
    def unit(self) -> str:
        """The registers whose values a test has just looked at; empty: it looked at something else."""
        names = sorted(self.seen, key=self.chip.map.REGISTERS.get)
        names = [*names[:1], *names[1:][-1:]]
        return f"register{'s' * (len(names) > 1)} {' to '.join(names)}" if names else ""

    def keep(self, label: str) -> str:
        """With memory as it is now: what the launch itself overwrote, it finds written."""
        if not self.raw:
            return "no bundle: the test gave the chip no command"
        chip, end = self.chip, self.chip.memory_base + self.chip.memory_bytes
        places = range(chip.memory_base, end, PIECE)
        pieces = ((at, chip.memory_read(at, min(PIECE, end - at))) for at in places)
        contents = [piece for piece in pieces if any(piece[1])]
        return keep(chip, self.raw, contents, end, label, fault=self.fault, first=self.first)
