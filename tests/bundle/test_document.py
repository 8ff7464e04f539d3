# SPDX-License-Identifier: Apache-2.0
"""docs/bundle.md is right: its bytes are those that the library writes, its tables those of both readers."""

import re
from pathlib import Path

import xxhash
from torch_presil.bundle import Bundle, Limits
from torch_presil.bundle import fields as rows
from torch_presil.bundle.fields import BYTES, KINDS, NAMES, RANGES, RECORDS

from . import library as lib

PAGE = (lib.ROOT / "docs" / "bundle.md").read_text()
SOURCE = lib.ROOT / "driver" / "bundle"
GROUPS = (rows.COUNTER, rows.PAIR, rows.TENSOR, rows.DIFFERENCE, rows.ASKED, rows.OPERAND, rows.ATTRIBUTE, rows.STEP)


def block(name: str) -> list:
    """The page's bytes: an int, or None for any; `?? N`: N of any."""
    out = []
    for line in re.search(rf"```{name}\n(.*?)```", PAGE, re.S).group(1).splitlines():
        words = re.split(r"\s{3,}", line)[0].split()
        while words:
            word = words.pop(0)
            many = int(words.pop(0)) if word == "??" and words and len(words[0]) < 3 else 1
            out += [None if word == "??" else int(word, 16)] * many
    return out


def table(above: str) -> list[tuple]:
    """(tag, kind, name) of the rows of the table below a line."""
    rows = PAGE.split(f"\n{above}", 1)[1].split("| tag |", 1)[1].split("\n\n", 1)[0]
    return [tuple(cell.strip() for cell in line.split("|")[1:4]) for line in rows.splitlines()[2:]]


def expected(fields) -> list[tuple]:
    def kind(row):
        name = row.group.name if row.group else KINDS[row.kind - 1]
        return name + "[]" * (row.many or (row.array and row.kind not in (BYTES, RANGES)))

    return [(str(row.tag), kind(row), row.name) for row in fields.rows]


def test_a_file_byte_for_byte(tmp_path):
    path = tmp_path / "page.presil"
    with lib.Writer(path) as writer:
        writer.labels({"a": "b"})
    found, page = path.read_bytes(), block("file")
    assert len(found) == len(page)
    wrong = [
        f"byte {i}: {p:#04x} on the page, {f:#04x} found"
        for i, (p, f) in enumerate(zip(page, found))
        if p not in (None, f)
    ]
    assert not wrong, "\n".join(wrong)
    # From the page alone, without the library: the hashes that it describes.
    made = bytes(0x5A if byte is None else byte for byte in page)
    made = made[:36] + (xxhash.xxh3_64_intdigest(made[:36]) & 0xFFFFFFFF).to_bytes(4, "little") + made[40:]
    path.write_bytes(made)
    with Bundle(path) as bundle:
        assert bundle.labels() == {"a": "b"} and not bundle.summary.torn and bundle.summary.id == b"\x5a" * 16


def test_tables_of_records():
    for fields in RECORDS.values():
        assert table(f"### {fields.name}\n") == expected(fields), fields.name
    for fields in GROUPS:
        assert table(f"{fields.name}:") == expected(fields), fields.name


def test_types_and_kinds():
    types = PAGE.split("| type | record |", 1)[1].split("\n\n", 1)[0]
    assert {int(n): name for n, name in re.findall(r"^\| (\d) \| (\w+)", types, re.M)} == NAMES
    kinds = PAGE.split("| kind | name |", 1)[1].split("\n\n", 1)[0]
    assert tuple(re.findall(r"^\| \d \| (\w+)", kinds, re.M)) == KINDS


def test_c_has_the_same_rows():
    """Tags and kinds of driver/bundle/fields.c, as its text has them."""
    source = (SOURCE / "fields.c").read_text()
    row = re.compile(
        r'(?:ROW|ARRAY)\(\w+,\s*(\d+),\s*BUNDLE_(\w+),\s*(\w+)|(TEXTS|GROUPS)\(\w+,\s*(\d+),\s*"(\w+)"'
        r'|\.tag = (\d+),\s*\.kind = BUNDLE_(\w+),.*?\.name = "(\w+)"',
        re.S,
    )
    for fields in (*RECORDS.values(), *GROUPS):
        text = re.search(rf"{fields.name.lower()}_rows\[\] = \{{(.*?)\n\}};", source, re.S).group(1)
        found = []
        for a, b, c, macro, d, e, f, g, h in row.findall(text):
            kind = b or g or {"TEXTS": "TEXT", "GROUPS": "GROUP"}[macro]
            found.append((int(a or d or f), kind.lower(), c or e or h))
        assert found == [(r.tag, KINDS[r.kind - 1], r.name) for r in fields.rows], fields.name


def test_limits_are_those_of_the_page():
    limits = Limits()
    assert f"{limits.record_bytes >> 20} MiB a record, {limits.total_bytes >> 40} TiB in all, 2²⁸" in PAGE
    assert limits.records == 1 << 28
    index = (SOURCE / "index.c").read_text()
    assert "DEFAULT_RECORD_BYTES (256ull << 20)" in index and "DEFAULT_TOTAL_BYTES (1ull << 40)" in index
    assert "DEFAULT_RECORDS (1ull << 28)" in index


def test_the_files_that_the_page_names_are_there():
    for name in ("tests/bundle/version1.presil", "tests/c/test_bundle_torn.c"):
        assert name in PAGE and Path(lib.ROOT / name).exists()
