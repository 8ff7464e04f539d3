# SPDX-License-Identifier: Apache-2.0
"""Bundles of launches on `tiny`: captured once, and changed as a test needs them."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest
import xxhash

from bundle import Bundle
from bundle.fields import BLOCK, END, GROUP, RESULT, TEXT, U64
from bundle.reader import FILE_HEADER, RECORD_HEADER
from stub_waves import BUILD

CAPTURE = """
import sys
import torch
import torch_presil

torch.manual_seed(0)
a, b = (torch.randn(s).to("presil") for s in ((8, 24), (24, 16)))
with torch.presil.capture("good.presil"):
    (a @ b).cpu(), ((a + a) @ b).cpu()
torch.backends.presil.memory_model, torch.backends.presil.watchdog_cycles = "r=dead", 3000
try:
    with torch.presil.capture("hung.presil"):
        (a @ b).cpu()
except RuntimeError as error:
    assert "EHUNG" in str(error)
else:
    sys.exit("a memory that never answers was expected to hang the chip")
"""


@pytest.fixture(scope="session")
def captured(tmp_path_factory):
    """A folder with good.presil (products of two matrices; no two results alike) and hung.presil."""
    folder = tmp_path_factory.mktemp("captured")
    environment = {"PYTHONPATH": str(BUILD / "python"), "PRESIL_CHIP": "tiny", "PATH": "/usr/bin:/bin"}
    subprocess.run(
        [sys.executable, "-c", CAPTURE], cwd=folder, env=environment, check=True, timeout=120, capture_output=True
    )
    return folder


def _field(tag: int, kind: int, value: bytes) -> bytes:
    return struct.pack("<HHI", tag, kind, len(value)) + value + bytes(-len(value) % 8)


def difference(cycle: int) -> bytes:
    """The field of a RESULT (docs/bundle.md)."""
    numbers = {1: 1, 2: 0x1_0000_0000, 3: 1, 4: 2, 5: 1, 6: cycle}
    group = b"".join(_field(tag, U64, struct.pack("<Q", value)) for tag, value in numbers.items())
    return _field(21, GROUP, group + _field(7, TEXT, b"output [0, 0]"))


def rewrite(source: Path, target: Path, edit) -> Path:
    """target: source with the raw bytes of each record as edit(record, raw) gives them, whole again."""
    with Bundle(source) as bundle:
        data, headers = bytearray(source.read_bytes()[: FILE_HEADER.size]), xxhash.xxh3_128()
        for record in bundle.records:
            raw = edit(record, bundle.raw(record.number))
            if record.type == END:
                old = bundle.fields(record.number)["headers"]
                raw = raw.replace(bytes(old), headers.digest())
            flags, count = record.flags & ~1, len(raw)
            head = (b"PRec", record.type, flags, record.number, count, count)
            check = xxhash.xxh3_128_digest(raw), xxhash.xxh3_64_intdigest(raw), 0
            header = RECORD_HEADER.pack(*head, *check, 0)[:60]
            header += struct.pack("<I", xxhash.xxh3_64_intdigest(header) & 0xFFFFFFFF)
            headers.update(header)
            data += header + raw + bytes(-count % 8)
    target.write_bytes(data)
    return target


def with_difference(source: Path, target: Path, result: int, cycle: int) -> Path:
    """Recorded, as a launch in mode verify leaves it."""
    seen = []

    def edit(record, raw):
        if record.type != RESULT:
            return raw
        seen.append(record)
        return raw + difference(cycle) if len(seen) == result + 1 else raw

    return rewrite(source, target, edit)


def with_wrong_byte(source: Path, target: Path, launch: int, offset: int) -> tuple:
    """(target, the four bytes there that the RTL writes): one byte of what the launch wrote is another."""
    with Bundle(source) as bundle:
        writes = bundle.results_of(bundle.launch(launch))[0].writes
        (piece,) = writes.pieces
        right = bundle.block(piece)
    wrong = bytearray(right)
    wrong[offset] ^= 0x40
    names = piece.hash, xxhash.xxh3_128_digest(bytes(wrong))

    def edit(record, raw):
        return bytes(wrong) if record.type == BLOCK and record.hash == names[0] else raw.replace(*names)

    rewrite(source, target, edit)
    return target, right[offset & ~3 : (offset & ~3) + 4]
