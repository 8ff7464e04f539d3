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
PIECE = 1 << 16
QUEUE_RESET = 1  # CONTROL
PATIENCE = 4_000_000  # cycles: no list of the tests takes a tenth of them; one that never ends ends here
OPEN = weakref.WeakSet()  # chips that tests have open


def folder() -> str | None:
    return os.environ.get("PRESIL_CAPTURE_FAILURES")


def near(raw: bytes) -> bytes:
    """Of a LOAD or STORE the address as the driver reads it: signed, without bits beyond 40, which the chip ignores.
    So a row that begins below 0 and is read from 0 on stays in its place."""
    g = generated()
    words = list(struct.unpack(f"<{g.WORDS}I", raw))
    kinds = {value: kind for kind, value in g.OPCODES.items()}
    word, low, width, _ = g.FIELDS["COMMON"]["opcode"]
    kind = kinds.get(words[word] >> low & (1 << width) - 1)
    if kind in ("LOAD", "STORE"):
        at = g.FIELDS[kind]["addr_hi"][0]
        high = words[at] & 0xFF
        words[at] = high | 0xFFFFFF00 if high & 0x80 else high
    return struct.pack(f"<{g.WORDS}I", *words)


def image(config: str, raw: list[bytes], label: str) -> bytes:
    """As presil_list_save (presil_image.h) writes a list of one launch, addresses relative to BASE."""
    text = label.encode()[:63].ljust(64, b"\0")
    head = struct.pack("<4sIIIQQQQQ", b"PLIM", 1, generated().CONFIGS[config]["hash"], 1, len(raw), 0, 0, 0, 0) + text
    plan = head + struct.pack("<Q", len(raw)) + b"".join(map(near, raw))
    return struct.pack("<QQ", 1, len(plan)) + plan + bytes(-len(plan) % 8)


class Captured:
    """A bundle of a device: every launch (`to` is a file), or each that fails (`to` is a folder)."""

    def __init__(self, device: driver.Device, to: str | Path, failures: bool):
        self.lib, self.handle = C.CDLL(str(built.library("libpresil_capture.so"))), C.c_void_p()
        begin = self.lib.presil_bundle_capture_failures if failures else self.lib.presil_bundle_capture_open
        text = C.create_string_buffer(512)
        arguments = (device.handle, str(to).encode(), None, C.byref(self.handle), text, C.c_size_t(512))
        if status := begin(*arguments):
            raise driver.PresilError(status, text.value.decode())

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


def write(chip, lists: list, contents, size: int, label: str, path: Path) -> bool:
    """A bundle of the lists, one launch each; whether the last one failed."""
    library = str(Path(chip.path).resolve())
    path.unlink(missing_ok=True)
    with driver.Device(chip.name, "verify", None, chip.model, chip.seed, BELOW + size, library=library) as device:
        device.set_timeout(PATIENCE)
        captured = Captured(device, path, failures=False)
        try:
            return [run(device, image(chip.name, raw, label), size, contents) for raw in lists][-1]
        finally:
            captured.close()


def keep(chip, raw: list[bytes], contents, size: int, label: str, before: list[bytes] = ()) -> None:
    """chip: a bench.chip.Chip, to say which; contents: (address, bytes) of its memory before, which has `size` bytes
    from 0 on; before: the launch before it, which is kept too where it is in order alone. Prints where the bundle is,
    or why there is none."""
    if not folder() or not raw:
        return
    path = Path(folder()) / (re.sub(r"[^\w.-]", "-", label) + ".presil")
    try:
        if not write(chip, [raw], contents, size, label, path) and before:
            write(chip, [before, raw], contents, size, label, path)
    except (driver.PresilError, OSError) as error:
        path.unlink(missing_ok=True)
        print(f"no bundle of {label}: {error}", flush=True)
    else:
        print(f"kept in {path}", flush=True)


class Given:
    """The descriptors that a chip was given since it was idle, by its registers."""

    def __init__(self, chip):
        self.chip, self.tail, self.over, self.raw = weakref.proxy(chip), 0, False, []
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
            places = [(self.tail + i) % size for i in range(count)]
            self.raw += [chip.memory_read(chip.ring + 128 * at, 128) for at in places]
            self.tail = value

    def keep(self, label: str) -> None:
        """With memory as it is now: what the launch itself overwrote, it finds written."""
        chip, end = self.chip, self.chip.memory_base + self.chip.memory_bytes
        places = range(chip.memory_base, end, PIECE)
        pieces = ((at, chip.memory_read(at, min(PIECE, end - at))) for at in places)
        keep(chip, self.raw, [piece for piece in pieces if any(piece[1])], end, label)
