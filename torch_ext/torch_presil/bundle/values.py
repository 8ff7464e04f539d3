# SPDX-License-Identifier: Apache-2.0
"""Values of fields: read and checked as driver/bundle/values.c and decode.c do; and as JSON, as json.c prints them."""

import base64
import math
import struct
from dataclasses import dataclass
from types import SimpleNamespace

from .fields import (
    ATTACHMENT,
    BYTES,
    F64,
    GROUP,
    I64,
    ID,
    MEMORY,
    OPERAND,
    PAIR,
    RANGES,
    RECORDS,
    TENSOR,
    TEXT,
    U64,
    Field,
    Fields,
)

PIECE = 65536
MOST = 2**64


class BundleError(ValueError):
    """The file is damaged, or no bundle."""


class NewerVersion(BundleError):
    """The bundle was written by a newer version of Presil."""


@dataclass(frozen=True)
class Block:
    """Contents that are stored once, by their name. As a piece of a memory: the contents of `ranges` ranges."""

    hash: bytes  # XXH3-128, big-endian
    bytes: int
    ranges: int = 0


@dataclass(frozen=True)
class Memory:
    """Contents of device memory: sorted, disjoint ranges (address, bytes), and the blocks that hold them."""

    ranges: tuple[tuple[int, int], ...]
    pieces: tuple[Block, ...]

    @property
    def bytes(self) -> int:
        return sum(count for _, count in self.ranges)


def walk(raw: memoryview):
    """(tag, kind, value) of a list of fields."""
    at = 0
    while at < len(raw):
        if len(raw) - at < 8:
            raise BundleError("the list of fields ends within a field's header")
        tag, kind, count = struct.unpack_from("<HHI", raw, at)
        padded = (count + 7) // 8 * 8
        if padded > len(raw) - at - 8:
            raise BundleError("a field is longer than the list that it is in")
        yield tag, kind, raw[at + 8 : at + 8 + count]
        at += 8 + padded


# ---- values
def _ranges(raw: memoryview) -> tuple[tuple[int, int], ...]:
    if len(raw) % 16:
        raise BundleError("ranges of broken length")
    found, end = tuple(struct.iter_unpack("<QQ", raw)), 0
    for base, count in found:
        if not count or base < end or base + count >= MOST:
            raise BundleError("ranges that are empty, overlap or are unsorted")
        end = base + count
    return found


def _memory(raw: memoryview) -> Memory:
    if len(raw) < 16:
        raise BundleError("a memory without its counts")
    range_count, piece_count = struct.unpack_from("<QQ", raw)
    if 16 + 16 * range_count + 32 * piece_count != len(raw):
        raise BundleError("a memory whose counts don't fit its bytes")
    ranges = _ranges(raw[16 : 16 + 16 * range_count])
    pieces = tuple(Block(h, count, n) for h, count, n in struct.iter_unpack("<16sQQ", raw[16 + 16 * range_count :]))
    at = 0
    for piece in pieces:
        its = ranges[at : at + piece.ranges]
        if not piece.ranges or len(its) != piece.ranges:
            raise BundleError("pieces that have other ranges than there are")
        if len({address // PIECE for base, count in its for address in (base, base + count - 1)}) != 1:
            raise BundleError("a piece that crosses a multiple of 65536")
        if sum(count for _, count in its) != piece.bytes:
            raise BundleError("a piece whose block has another length")
        at += piece.ranges
    if at != len(ranges):
        raise BundleError("ranges without a piece")
    return Memory(ranges, pieces)


_NUMBERS = {U64: "Q", I64: "q", F64: "d"}


def _number(row: Field, raw: memoryview):
    if row.array:
        if len(raw) % 8:
            raise BundleError("an array of broken length")
        return struct.unpack(f"<{len(raw) // 8}{_NUMBERS[row.kind]}", raw)
    if len(raw) != 8:
        raise BundleError("a number of broken length")
    (value,) = struct.unpack(f"<{_NUMBERS[row.kind]}", raw)
    low, high = (-(2 ** (row.bits - 1)), 2 ** (row.bits - 1)) if row.kind == I64 else (0, 2**row.bits)
    if row.kind != F64 and not low <= value < high:
        raise BundleError("a number that is out of range")
    return value


def _text(raw: memoryview) -> str:
    try:
        text = bytes(raw).decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise BundleError("a text that is no UTF-8, or has a 0")
    return text


def _value(row: Field, kind: int, raw: memoryview):
    if kind != row.kind:
        raise BundleError("a field of another kind")
    match kind:
        case _ if kind in _NUMBERS:
            return _number(row, raw)
        case _ if kind == TEXT:
            return _text(raw)
        case _ if kind == RANGES:
            return _ranges(raw)
        case _ if kind == MEMORY:
            return _memory(raw)
        case _ if kind == ID:
            if len(raw) != 24:
                raise BundleError("a block's name of broken length")
            return Block(bytes(raw[:16]), struct.unpack_from("<Q", raw, 16)[0])
        case _ if kind == GROUP:
            return decode(row.group, raw)
    return bytes(raw)


# ---- records
def decode(fields: Fields, raw: memoryview) -> dict:
    """Name -> value of the fields that are there; "unknown": (tag, kind, bytes) of those that this version does not
    know."""
    found: dict = {}
    unknown = []
    for tag, kind, value in walk(raw):
        row = fields.by_tag.get(tag)
        if row is None:
            unknown.append((tag, kind, len(value)))
        elif row.many:
            found.setdefault(row.name, []).append(_value(row, kind, value))
        elif row.name in found:
            raise BundleError("a field that is there twice")
        else:
            found[row.name] = _value(row, kind, value)
    _check(fields, found)
    ordered = {row.name: found[row.name] for row in fields.rows if row.name in found}
    return {**ordered, "unknown": unknown} if unknown else ordered


def attachment_name_wrong(name: str) -> bool:
    return (
        not 1 <= len(name.encode()) <= 255
        or name.startswith(".")
        or any(c == "/" or c < " " or c == "\x7f" for c in name)
    )


def _check(fields: Fields, found: dict) -> None:
    if fields is PAIR and not found.get("key"):
        raise BundleError("a label without a key")
    if fields is TENSOR and len(found.get("shape", ())) != len(found.get("stride", ())):
        raise BundleError("a tensor whose shape and strides have different lengths")
    if fields is OPERAND and len(found.get("shape", ())) != len(found.get("stride", ())):
        raise BundleError("an operand whose shape and strides have different lengths")
    if fields is RECORDS[ATTACHMENT] and attachment_name_wrong(found.get("name", "")):
        raise BundleError("an attachment's name is no name of a file")


def _default(row: Field):
    if row.many or (row.array and row.kind != BYTES):
        return ()
    return {U64: 0, I64: 0, F64: 0.0, TEXT: "", BYTES: b"", ID: Block(bytes(16), 0)}.get(row.kind)


def complete(fields: Fields, found: dict) -> SimpleNamespace:
    """With every field: those that are not there have their default (0, "", an empty tuple, None)."""
    out = SimpleNamespace()
    for row in fields.rows:
        value = found.get(row.name, _default(row))
        if row.kind == GROUP and row.many:
            value = tuple(complete(row.group, each) for each in value)
        elif row.kind == GROUP and value is not None:
            value = complete(row.group, value)
        setattr(out, row.name, tuple(value) if row.many else value)
    return out


# ---- JSON
def to_json(fields: Fields, found: dict, contents: bool) -> dict:
    """The object that `presil-bundle convert` prints for a record's fields."""

    def one(row: Field, value):
        match value:
            case Block():
                return {"hash": value.hash.hex(), "bytes": value.bytes}
            case Memory():
                blocks = [[piece.hash.hex(), piece.bytes, piece.ranges] for piece in value.pieces]
                return {"ranges": [list(r) for r in value.ranges], "blocks": blocks}
            case bytes():
                return base64.b64encode(value).decode() if contents else {"bytes": len(value)}
            case dict():
                return to_json(row.group, value, contents)
            case float() if not math.isfinite(value):
                return None
            case tuple() if row.kind == RANGES:
                return [list(r) for r in value]
            case tuple():
                return list(value)
        return value

    out = {}
    for row in fields.rows:
        if row.name in found:
            value = found[row.name]
            out[row.name] = [one(row, each) for each in value] if row.many else one(row, value)
    if "unknown" in found:
        out["unknown"] = [list(each) for each in found["unknown"]]
    return out
