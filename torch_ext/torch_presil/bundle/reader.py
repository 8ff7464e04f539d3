# SPDX-License-Identifier: Apache-2.0
"""Bundles from files: the same walk, the same limits and the same refusals as driver/bundle/index.c and reader.c."""

import base64
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import xxhash
import zstandard

from .fields import ATTACHMENT, BLOCK, CHIP, END, LABELS, LAUNCH, NAMES, RECORDS, RESULT
from .values import Block, BundleError, Memory, NewerVersion, complete, decode, to_json

MAGIC, OTHER_MAGIC = b"PRESILB\n", b"PRESILPR"
MAJOR, MINOR = 1, 0
FILE_HEADER = struct.Struct("<8sHHI16sII")
RECORD_HEADER = struct.Struct("<4sHHQQQ16sQII")
RECORD_MAGIC = b"PRec"
ZSTD, CRITICAL = 1, 2


@dataclass(frozen=True)
class Limits:
    """Of what a file may ask for."""

    record_bytes: int = 256 << 20
    total_bytes: int = 1 << 40
    records: int = 1 << 28


@dataclass(frozen=True)
class Record:
    number: int
    type: int
    flags: int
    offset: int
    raw_bytes: int
    stored_bytes: int
    hash: bytes
    stored_check: int


@dataclass(frozen=True)
class Summary:
    version: tuple[int, int]
    id: bytes
    file_bytes: int
    good_bytes: int  # up to the tear
    torn: bool
    tear: str  # what is wrong there


def _check(data) -> int:
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF


class Bundle:
    """A bundle, opened: its summary, records, launches and what they name. A torn file is read up to the tear.

    Raises BundleError (a ValueError) for what is damaged or no bundle, NewerVersion, MemoryError beyond a limit,
    OSError where the file can't be read."""

    def __init__(self, path: str | os.PathLike, limits: Limits = Limits()):
        self.path, self.limits = Path(path), limits
        self.records: list[Record] = []
        self._of: dict[int, list[int]] = {kind: [] for kind in NAMES}
        self._version, self._id, self._torn, self._good = (0, 0), bytes(16), "", 0
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            about = os.fstat(self._file)
            if not stat.S_ISREG(about.st_mode):
                raise BundleError(f"{path} is no file")
            self._bytes = about.st_size
            begin = self._read_header()
            if begin:
                self._walk(begin)
            else:
                self._tear(0, "the file's header is cut")
        except BaseException:
            self.close()
            raise
        self._blocks = {}
        for number in reversed(self._of[BLOCK]):
            self._blocks[self.records[number].hash, self.records[number].raw_bytes] = number

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    @property
    def summary(self) -> Summary:
        return Summary(self._version, self._id, self._bytes, self._good, bool(self._torn), self._torn)

    # ---- opening
    def _at(self, offset: int, count: int) -> bytes:
        data = os.pread(self._file, count, offset)
        while len(data) < count:
            more = os.pread(self._file, count - len(data), offset + len(data))
            if not more:
                raise OSError(f"{self.path} can't be read at byte {offset + len(data)}: it became shorter")
            data += more
        return data

    def _read_header(self) -> int:
        """Where the records begin; 0 if the file ends before."""
        there = self._at(0, min(self._bytes, FILE_HEADER.size))
        if there[:8] == OTHER_MAGIC:
            raise BundleError(f"{self.path} is a program of torch.presil.aot_save, no bundle: presil-run runs it")
        if there[:8] != MAGIC:
            raise BundleError(f"{self.path} is no bundle: it does not begin with PRESILB")
        if len(there) < FILE_HEADER.size:
            return 0
        _, major, minor, begin, self._id, _, check = FILE_HEADER.unpack(there)
        if major > MAJOR or major == 0:
            raise NewerVersion(
                f"{self.path} has format {major}.{minor}, this reader knows {MAJOR}.{MINOR}: use a newer Presil"
            )
        if check != _check(there[:36]) or begin < FILE_HEADER.size or begin % 8:
            raise BundleError(f"{self.path}: the file's header is damaged")
        self._version = (major, minor)
        return begin if begin <= self._bytes else 0

    def _tear(self, offset: int, what: str) -> None:
        self._torn, self._good = f"torn after {len(self.records)} records, at byte {offset}: {what}", offset

    def _record(self, offset: int, raw_bytes: int) -> tuple[Record, bytes] | str:
        """The record that begins there and its header, or why the file is torn."""
        left = self._bytes - offset
        if left < RECORD_HEADER.size:
            return "the next record's header is cut" if left else "the closing record is missing"
        header = self._at(offset, RECORD_HEADER.size)
        magic, kind, flags, number, raw, stored, digest, stored_check, _, check = RECORD_HEADER.unpack(header)
        left -= RECORD_HEADER.size
        if magic != RECORD_MAGIC or check != _check(header[:60]):
            return "the next record's header is damaged"
        if number != len(self.records):
            return "the next record has another number"
        if (stored + 7) // 8 * 8 > left:
            return "the next record is cut"
        if not flags & ZSTD and stored != raw:
            return "the next record's lengths don't fit"
        for found, most, what in (
            (raw, self.limits.record_bytes, "bytes in a record"),
            (raw_bytes + raw, self.limits.total_bytes, "bytes in all records"),
            (number + 1, self.limits.records, "records"),
        ):
            if found > most:
                raise MemoryError(f"{self.path}: {found} {what}, at most {most} are allowed")
        if flags & CRITICAL and kind not in NAMES:
            raise NewerVersion(f"{self.path}: record {number} of type {kind} must be understood: use a newer Presil")
        return Record(number, kind, flags, offset, raw, stored, digest, stored_check), header

    def _walk(self, offset: int) -> None:
        headers, raw_bytes = xxhash.xxh3_128(), 0
        while True:
            self._good = offset
            found = self._record(offset, raw_bytes)
            if isinstance(found, str):
                return self._tear(offset, found)
            record, header = found
            if record.type == END and (wrong := self._end_wrong(record, headers.digest())):
                return self._tear(offset, wrong)
            self.records.append(record)
            self._of.setdefault(record.type, []).append(record.number)
            raw_bytes += record.raw_bytes
            offset += RECORD_HEADER.size + (record.stored_bytes + 7) // 8 * 8
            self._good = offset
            if record.type == END:
                if offset != self._bytes:
                    self._tear(offset, "there is something behind the closing record")
                return None
            headers.update(header)

    def _end_wrong(self, record: Record, headers: bytes) -> str:
        try:
            raw = self._raw(record)
        except BundleError:
            return "the next record's contents are damaged"
        try:
            end = decode(RECORDS[END], memoryview(raw)) if len(raw) <= 65536 else {}
        except BundleError:
            end = {}
        found = (end.get("records", 0), end.get("launches", 0), end.get("headers", b""))
        fits = found == (record.number, len(self._of[LAUNCH]), headers)
        return "" if fits else "the closing record does not fit what is before it"

    # ---- records
    def _raw(self, record: Record) -> bytes:
        where = f"{self.path}: record {record.number} at byte {record.offset}"
        stored = self._at(record.offset + RECORD_HEADER.size, record.stored_bytes)
        if xxhash.xxh3_64_intdigest(stored) != record.stored_check:
            raise BundleError(f"{where}: its contents are damaged")
        if record.flags & ZSTD:
            try:
                if zstandard.frame_content_size(stored) != record.raw_bytes:
                    raise zstandard.ZstdError("another length")
                stored = zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
            except zstandard.ZstdError:
                raise BundleError(f"{where}: its contents can't be decompressed to the length that it has") from None
        if xxhash.xxh3_128_digest(stored) != record.hash:
            raise BundleError(f"{where}: its contents have another hash")
        return stored

    def raw(self, number: int) -> bytes:
        """The raw bytes of a record, checked."""
        return self._raw(self.records[number])

    def fields(self, number: int) -> dict:
        """Name -> value of the fields of a record that are there (values.decode)."""
        record = self.records[number]
        try:
            return decode(RECORDS[record.type], memoryview(self._raw(record)))
        except BundleError as error:
            if str(error).startswith(str(self.path)):
                raise
            raise BundleError(f"{self.path}: record {number} ({NAMES[record.type]}): {error}") from None

    def _all(self, kind: int) -> Iterator[SimpleNamespace]:
        for i, number in enumerate(self._of[kind]):
            yield self._one(kind, number, i)

    def _one(self, kind: int, number: int, i: int) -> SimpleNamespace:
        found = complete(RECORDS[kind], self.fields(number))
        if kind in (LAUNCH, RESULT) and found.chip >= len(self._of[CHIP]):
            raise BundleError(f"{self.path}: a record of chip {found.chip}: there are {len(self._of[CHIP])}")
        if kind == RESULT:
            self._check_counts(found, i)
        found.number, found.record = i, number
        return found

    def _check_counts(self, result: SimpleNamespace, i: int) -> None:
        chip = self._one(CHIP, self._of[CHIP][result.chip], result.chip)
        its = (len(chip.engines) * len(chip.causes), len(chip.counters))
        found = (len(result.stalls), len(result.counters))
        if any(count not in (0, most) for count, most in zip(found, its, strict=True)):
            raise BundleError(
                f"{self.path}: RESULT {i} has {found[0]} stalls and {found[1]} counters, its chip {its[0]} and {its[1]}"
            )

    # ---- what they hold
    def chips(self) -> list[SimpleNamespace]:
        return list(self._all(CHIP))

    def launches(self) -> Iterator[SimpleNamespace]:
        """Each with the fields of docs/bundle.md, and `number`: of the LAUNCH records, from 0."""
        return self._all(LAUNCH)

    def launch(self, number: int) -> SimpleNamespace:
        return self._one(LAUNCH, self._of[LAUNCH][number], number)

    def results(self) -> Iterator[SimpleNamespace]:
        return self._all(RESULT)

    def results_of(self, launch: SimpleNamespace) -> list[SimpleNamespace]:
        return [r for r in self.results() if (r.chip, r.launch) == (launch.chip, launch.launch)]

    def attachments(self) -> Iterator[SimpleNamespace]:
        return self._all(ATTACHMENT)

    def labels(self) -> dict[str, str]:
        return {pair.key: pair.value for record in self._all(LABELS) for pair in record.labels}

    def block(self, block: Block) -> bytes:
        """Contents by name."""
        number = self._blocks.get((block.hash, block.bytes))
        if number is None:
            raise BundleError(
                f"{self.path}: a block of {block.bytes} bytes (hash {block.hash[:4].hex()}...) is not in it"
                + (f": {self._torn}" if self._torn else "")
            )
        return self.raw(number)

    def memory(self, memory: Memory) -> Iterator[tuple[int, bytes]]:
        """(address, contents) of every range, in order of address."""
        ranges = iter(memory.ranges)
        for piece in memory.pieces:
            contents, at = self.block(piece), 0
            for _ in range(piece.ranges):
                base, count = next(ranges)
                yield base, contents[at : at + count]
                at += count

    # ---- JSON
    def convert(self, contents: bool = False) -> Iterator[dict]:
        """The lines of `presil-bundle convert`, as objects; errors in this reader's words."""
        yield {
            "format": "presil bundle",
            "version": list(self._version),
            "id": self._id.hex(),
            "file_bytes": self._bytes,
            "records": len(self.records),
            "torn": bool(self._torn),
            "tear": self._torn,
        }
        for record in self.records:
            line = {
                "record": record.number,
                "type": NAMES.get(record.type, record.type),
                "raw_bytes": record.raw_bytes,
                "stored_bytes": record.stored_bytes,
                "hash": record.hash.hex(),
            }
            try:
                if record.type in RECORDS:
                    line["fields"] = None
                    line["fields"] = to_json(RECORDS[record.type], self.fields(record.number), contents)
                elif contents:
                    line["contents"] = base64.b64encode(self._raw(record)).decode()
            except BundleError as error:
                line["error"] = str(error)
            yield line
