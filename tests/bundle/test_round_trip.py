# SPDX-License-Identifier: Apache-2.0
"""What the C library writes, Python's reader finds, field by field; and both readers say the same of every file, whole,
torn or damaged."""

import json
import random
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_presil.bundle import Bundle, BundleError, Limits, NewerVersion

from . import library as lib

GOLDEN = Path(__file__).parent / "version1.presil"
BASE = 0x1_0000_0000
U64, U32 = st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NAME = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)
LABELS = st.dictionaries(TEXT.filter(bool), TEXT, max_size=4)


def members(**strategies):
    return st.fixed_dictionaries(strategies)


def some(strategy, most: int = 3):
    return st.lists(strategy, max_size=most)


CHIP_TEXTS = ("chip", "config", "build", "transport", "simulator", "rtl_hash", "library_hash", "memory_model")
CHIP_TEXTS += ("presil_version", "torch_version")
CHIP_NUMBERS = ("config_hash", "clock_mhz", "memory_base", "memory_bytes", "seed", "hang_cycles")
CHIP = members(
    **dict.fromkeys(CHIP_TEXTS, TEXT),
    **dict.fromkeys(CHIP_NUMBERS, U64),
    **dict.fromkeys(("abi_chip", "abi_transport", "capabilities"), U32),
    engines=some(TEXT),
    causes=some(TEXT),
    counters=some(st.tuples(TEXT, TEXT)),
)
TENSOR = st.integers(0, 8).flatmap(
    lambda ndim: members(
        name=TEXT,
        dtype=TEXT,
        data=U64,
        element_bytes=U64,
        element_bits=st.sampled_from([0, 1, 4, 65535]),
        written=st.integers(0, 1),
        shape=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * ndim),
        stride=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * ndim),
    )
)
I64, I32 = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
OPERAND = st.integers(0, 8).flatmap(
    lambda ndim: members(
        name=TEXT,
        dtype=TEXT,
        data=U64,
        packed=st.integers(0, 1),
        shape=st.tuples(*[I64] * ndim),
        stride=st.tuples(*[I64] * ndim),
    )
)
ATTRIBUTE = members(name=TEXT, integers=some(I64).map(tuple), reals=some(U64).map(tuple), text=TEXT)
STEP_NUMBERS = ("input", "zero_point", "int_low", "int_high")
STEP = members(
    kind=TEXT,
    **dict.fromkeys(("scale_bits", "low_bits", "high_bits"), U32),
    **dict.fromkeys(STEP_NUMBERS, I32),
)
LISTED = lambda many: many or ()  # noqa: E731
ASKED = members(
    kind=TEXT,
    compute=U32,
    tiling=U32,
    inputs=some(OPERAND).map(LISTED),
    outputs=some(OPERAND).map(LISTED),
    attributes=some(ATTRIBUTE).map(LISTED),
    steps=some(STEP).map(LISTED),
    bias=st.binary(max_size=40),
    scale=st.binary(max_size=40),
)
DEVICE = st.binary(min_size=400, max_size=400).map(lambda seed: seed * 500)  # 200,000 bytes from BASE on
RANGES = some(st.tuples(st.integers(0, 199_000), st.one_of(st.integers(0, 900), st.just(70_000))), 6)
LAUNCH_NUMBERS = ("signature", "macs", "passes", "peak_macs_per_cycle", "descriptors", "segments", "estimate")
LAUNCH_NUMBERS += ("origin", "tag", "launch")
LAUNCH = members(
    **dict.fromkeys(LAUNCH_NUMBERS, U64),
    mode=U32,
    label=TEXT,
    commands=st.binary(max_size=600),
    reads=RANGES,
    expected=st.none() | RANGES,
    labels=LABELS,
    tensors=some(TENSOR),
    asked=st.none() | ASKED,
)
DIFFERENCE = members(
    expected=st.integers(0, 255), found=st.integers(0, 255), address=U64, bytes=U64, cycle=U64, text=TEXT
)
RESULT_NUMBERS = ("cycles", "fill", "drain", "sim_ns", "twin_ns", "host_ns")
RESULT = members(
    **dict.fromkeys(RESULT_NUMBERS, U64),
    executor=TEXT,
    status=I32,
    verified=I32,
    error=TEXT,
    stalls=st.booleans(),
    counters=st.booleans(),
    writes=st.none() | RANGES,
    difference=st.none() | DIFFERENCE,
    stray=some(st.integers(1, 99)),
    missing=some(st.integers(1, 99)),
)
ATTACHMENT = members(name=NAME, media_type=TEXT, data=st.binary(max_size=300), has_launch=st.integers(0, 1))
CASE = members(
    chip=CHIP,
    labels=LABELS,
    device=DEVICE,
    launches=some(st.tuples(LAUNCH, some(RESULT, 2), some(ATTACHMENT, 1))),
    options=members(
        ring=st.sampled_from([0, 9]),
        hold=st.integers(0, 1),
        level=st.sampled_from([-1, 0, 3]),
        foreground=st.integers(0, 1),
    ),
)


def encoded(values: dict) -> dict:
    return {k: v.encode() if isinstance(v, str) else v for k, v in values.items()}


# ---- writing
def clipped(ranges):
    return None if ranges is None else [(base, min(count, 200_000 - base)) for base, count in ranges]


def put_memory(group, case, ranges):
    ranges = clipped(ranges)
    if not ranges:
        return None
    return group.memory(case["device"], BASE, [lib.Range(BASE + base, count) for base, count in ranges])


def spaced(lengths: list) -> list:
    """Ranges with gaps between them."""
    return [(1000 * i, count) for i, count in enumerate(lengths)]


def put_tensor(t: dict):
    shape, ndim = lib.array(lib.i64, t["shape"])
    stride, _ = lib.array(lib.i64, t["stride"])
    rest = {k: v for k, v in t.items() if k not in ("shape", "stride")}
    return lib.Tensor(**encoded(rest), shape=shape, stride=stride, ndim=ndim)


def put_attribute(a: dict):
    integers, integer_count = lib.array(lib.i64, a["integers"])
    reals, real_count = lib.array(lib.u64, a["reals"])
    tables = dict(integers=integers, integer_count=integer_count, reals=reals, real_count=real_count)
    return lib.Attribute(**encoded({k: a[k] for k in ("name", "text")}), **tables)


def put_operand(t: dict):
    shape, ndim = lib.array(lib.i64, t["shape"])
    stride, _ = lib.array(lib.i64, t["stride"])
    rest = {k: v for k, v in t.items() if k not in ("shape", "stride")}
    return lib.Operand(**encoded(rest), shape=shape, stride=stride, ndim=ndim)


def put_asked(a: dict | None):
    if a is None:
        return lib.Asked()
    inputs, input_count = lib.array(lib.Operand, [put_operand(t) for t in a["inputs"]])
    outputs, output_count = lib.array(lib.Operand, [put_operand(t) for t in a["outputs"]])
    attributes, attribute_count = lib.array(lib.Attribute, [put_attribute(t) for t in a["attributes"]])
    steps, step_count = lib.array(lib.Step, [lib.Step(**encoded(t)) for t in a["steps"]])
    tables = dict(inputs=inputs, input_count=input_count, outputs=outputs, output_count=output_count)
    tables |= dict(attributes=attributes, attribute_count=attribute_count, steps=steps, step_count=step_count)
    rest = {k: a[k] for k in ("kind", "compute", "tiling", "bias", "scale")}
    return lib.Asked(present=1, **encoded(rest), **tables, bias_bytes=len(a["bias"]), scale_bytes=len(a["scale"]))


def put_launch(group, case, launch: dict, results: list, attachments: list) -> None:
    tensors, tensor_count = lib.array(lib.Tensor, [put_tensor(t) for t in launch["tensors"]])
    labels, label_count = lib.array(lib.Pair, lib.pairs(launch["labels"]))
    tables = dict(tensors=tensors, tensor_count=tensor_count, labels=labels, label_count=label_count)
    memories = {name: put_memory(group, case, launch[name]) for name in ("reads", "expected")}
    rest = {k: launch[k] for k in (*LAUNCH_NUMBERS, "mode", "label")}
    commands = group.block(launch["commands"]) if launch["commands"] else lib.Id()
    group.put(
        "launch", lib.Launch, **encoded(rest), **tables, **memories, commands=commands, asked=put_asked(launch["asked"])
    )
    for result in results:
        put_result(group, case, launch["launch"], result)
    for a in attachments:
        group.put("attachment", lib.Attachment, **encoded(a), bytes=len(a["data"]), launch=launch["launch"])


def put_result(group, case, launch: int, result: dict) -> None:
    chip, tables = case["chip"], {}
    for name, count in (("stalls", len(chip["engines"]) * len(chip["causes"])), ("counters", len(chip["counters"]))):
        numbers = list(range(2**63, 2**63 + count)) if result[name] else []
        tables[name], tables[{"stalls": "stall_count", "counters": "counter_count"}[name]] = lib.array(lib.u64, numbers)
    for name in ("stray", "missing"):
        tables[name], tables[f"{name}_count"] = lib.array(lib.Range, [lib.Range(*r) for r in spaced(result[name])])
    difference = (
        lib.Difference(present=1, **encoded(result["difference"])) if result["difference"] else lib.Difference()
    )
    rest = {k: result[k] for k in (*RESULT_NUMBERS, "executor", "status", "verified", "error")}
    writes = put_memory(group, case, result["writes"])
    group.put("result", lib.Result, **encoded(rest), **tables, launch=launch, difference=difference, writes=writes)


def write(path, case: dict) -> None:
    chip = case["chip"]
    engines, engine_count = lib.array(lib.text, [e.encode() for e in chip["engines"]])
    causes, cause_count = lib.array(lib.text, [e.encode() for e in chip["causes"]])
    counters, counter_count = lib.array(lib.Counter, [lib.Counter(a.encode(), b.encode()) for a, b in chip["counters"]])
    tables = dict(engines=engines, engine_count=engine_count, causes=causes, cause_count=cause_count)
    scalars = {k: v for k, v in chip.items() if k not in ("engines", "causes", "counters")}
    with lib.Writer(path, overwrite=1, **case["options"]) as writer:
        writer.chip(**encoded(scalars), **tables, counters=counters, counter_count=counter_count)
        writer.labels(case["labels"])
        for launch, results, attachments in case["launches"]:
            group = writer.group()
            put_launch(group, case, launch, results, attachments)
            group.commit()


# ---- what must be found
def check_memory(bundle, found, case, ranges) -> None:
    ranges = clipped(ranges)
    if not ranges:
        assert found is None
        return
    touched = bytearray(200_000)
    for base, count in ranges:
        touched[base : base + count] = b"\1" * count
    for address, contents in bundle.memory(found):
        assert contents == case["device"][address - BASE : address - BASE + len(contents)]
        at = address - BASE
        assert touched[at : at + len(contents)] == b"\1" * len(contents)
        touched[at : at + len(contents)] = bytes(len(contents))
    assert not any(touched)


def check_same(found, expected: dict, names) -> None:
    assert {k: getattr(found, k) for k in names} == {k: expected[k] for k in names}


def plain(found):
    """Groups and lists of groups as dictionaries and lists."""
    match found:
        case SimpleNamespace():
            return {k: plain(v) for k, v in vars(found).items()}
        case (SimpleNamespace(), *_):
            return [plain(each) for each in found]
    return found


def check_launch(bundle, found, case, expected: dict) -> None:
    check_same(found, expected, (*LAUNCH_NUMBERS, "mode", "label"))
    assert bundle.block(found.commands) == expected["commands"] if expected["commands"] else not found.commands.bytes
    check_memory(bundle, found.reads, case, expected["reads"])
    check_memory(bundle, found.expected, case, expected["expected"])
    assert {p.key: p.value for p in found.labels} == expected["labels"]
    assert [vars(t) for t in found.tensors] == expected["tensors"]
    assert plain(found.asked) == (expected["asked"] and {"present": 1, **expected["asked"]})


def check_result(bundle, found, case, expected: dict) -> None:
    chip = case["chip"]
    check_same(found, expected, (*RESULT_NUMBERS, "executor", "status", "verified", "error"))
    stalls = len(chip["engines"]) * len(chip["causes"]) * expected["stalls"]
    assert found.stalls == tuple(range(2**63, 2**63 + stalls))
    assert found.counters == tuple(range(2**63, 2**63 + len(chip["counters"]) * expected["counters"]))
    check_memory(bundle, found.writes, case, expected["writes"])
    assert (found.stray, found.missing) == (tuple(spaced(expected["stray"])), tuple(spaced(expected["missing"])))
    difference = found.difference and vars(found.difference)
    assert difference == (expected["difference"] and {"present": 1, **expected["difference"]})


def check(path, case: dict) -> None:
    with Bundle(path) as bundle:
        assert not bundle.summary.torn and bundle.labels() == case["labels"]
        (chip,) = bundle.chips()
        check_same(chip, case["chip"], (*CHIP_TEXTS, *CHIP_NUMBERS, "abi_chip", "abi_transport", "capabilities"))
        assert [list(chip.engines), list(chip.causes)] == [case["chip"]["engines"], case["chip"]["causes"]]
        assert [(x.name, x.unit) for x in chip.counters] == case["chip"]["counters"]
        found = list(bundle.launches())
        assert len(found) == len(case["launches"])
        results, attachments = bundle.results(), bundle.attachments()
        for launch, (expected, its_results, its_attachments) in zip(found, case["launches"], strict=True):
            check_launch(bundle, launch, case, expected)
            for one in its_results:
                check_result(bundle, next(results), case, one)
            for one in its_attachments:
                check_same(next(attachments), one, ("name", "media_type", "data", "has_launch"))
        assert next(results, None) is None and next(attachments, None) is None


def converted(path, *options) -> tuple[list, int]:
    done = subprocess.run([lib.TOOL, "convert", path, *options], capture_output=True, timeout=60)
    return [json.loads(line) for line in done.stdout.split(b"\n") if line], done.returncode


# Without a deadline: the machine may be busy.
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(CASE)
def test_c_writes_python_reads(tmp_path_factory, case):
    path = tmp_path_factory.getbasetemp() / "case.presil"
    write(path, case)
    check(path, case)
    with Bundle(path) as bundle:
        assert converted(path, "--contents") == (list(bundle.convert(contents=True)), 0)
        assert converted(path) == (list(bundle.convert()), 0)


def test_version_1_is_read():
    with Bundle(GOLDEN) as bundle:
        assert not bundle.summary.torn and bundle.summary.version == (1, 0)
        assert [launch.launch for launch in bundle.launches()] == [40, 41]
        assert bundle.results_of(bundle.launch(0))[0].difference.text == "output [0, 1], tile 3"
        assert converted(GOLDEN, "--contents") == (list(bundle.convert(contents=True)), 0)


# ---- torn and damaged: both readers say the same
def both(path) -> tuple:
    """What each reader makes of a file, without the words of a record's error."""
    lines, status = converted(path, "--contents")
    try:
        with Bundle(path) as bundle:
            found = list(bundle.convert(contents=True))
    except BundleError:
        found = []
    for line in (*lines, *found):
        if "error" in line:
            line.update(error=True, fields=None, contents=None)
    return lines, found, status


@pytest.mark.parametrize("part", range(8))
def test_torn_at_any_byte(tmp_path, part):
    whole, path = GOLDEN.read_bytes(), tmp_path / "torn.presil"
    for count in range(part * 5, len(whole), 41):
        path.write_bytes(whole[:count])
        lines, found, status = both(path)
        assert lines == found and status == 2, f"torn at byte {count}"
        assert not lines or lines[0]["torn"], f"torn at byte {count}"


@pytest.mark.parametrize("part", range(8))
def test_flipped_anywhere(tmp_path, part):
    whole, path = GOLDEN.read_bytes(), tmp_path / "flipped.presil"
    for at in range(part * 5, len(whole), 41):
        bent = bytearray(whole)
        bent[at] ^= 1 << at % 8
        path.write_bytes(bent)
        lines, found, _ = both(path)
        assert lines == found, f"byte {at}"


def test_limits_and_newer_versions(tmp_path):
    path = tmp_path / "x.presil"
    for limits, text in (
        (Limits(record_bytes=100), "bytes in a record"),
        (Limits(total_bytes=1000), "bytes in all records"),
        (Limits(records=2), "3 records"),
    ):
        with pytest.raises(MemoryError, match=text):
            Bundle(GOLDEN, limits)
    whole = bytearray(GOLDEN.read_bytes())
    whole[8] = 2
    path.write_bytes(whole)
    with pytest.raises(NewerVersion, match="has format 2.0, this reader knows 1.0: use a newer Presil"):
        Bundle(path)
    path.write_bytes(b"PRESILPR" + bytes(200))
    with pytest.raises(BundleError, match="presil-run runs it"):
        Bundle(path)
    path.write_bytes(b"")
    with pytest.raises(BundleError, match="is no bundle"):
        Bundle(path)
    with pytest.raises(BundleError, match="is no file"):
        Bundle(tmp_path)
    with pytest.raises(FileNotFoundError):
        Bundle(tmp_path / "absent")


def resealed(record: bytes, contents: bytes, number: int | None = None, digest: bytes = b"") -> bytes:
    """A record with other contents, uncompressed, under right hashes (or a given one)."""
    size = len(contents).to_bytes(8, "little")
    its = record[8:16] if number is None else number.to_bytes(8, "little")
    head = record[:6] + bytes(2) + its + size + size + (digest or xxhash.xxh3_128_digest(contents))
    head += xxhash.xxh3_64_intdigest(contents).to_bytes(8, "little") + bytes(4)
    head += (xxhash.xxh3_64_intdigest(head) & 0xFFFFFFFF).to_bytes(4, "little")
    return head + contents + bytes(-len(contents) % 8)


@pytest.mark.parametrize(
    ("tag", "value", "text"), [(1, 1, "a record of chip 1: there are 1"), (13, 9, "its chip 6 and 2")]
)
def test_results_fit_their_chip(tmp_path, tag, value, text):
    """Python and C refuse a result whose numbers its chip has no names for."""
    path = tmp_path / "counts.presil"
    with Bundle(GOLDEN) as bundle:
        record = next(r for r in bundle.records if r.type == 4)
        contents = bytearray(bundle.raw(record.number))
    at = contents.index(bytes([tag, 0, 1, 0]))
    if tag == 13:
        contents[at + 4 : at + 8 + 48] = (value * 8).to_bytes(4, "little") + bytes(value * 8)
    else:
        contents[at + 8] = value
    whole = GOLDEN.read_bytes()[: record.offset] + resealed(GOLDEN.read_bytes()[record.offset :], bytes(contents))
    path.write_bytes(whole)
    with Bundle(path) as bundle, pytest.raises(BundleError, match=text):
        list(bundle.results())
    done = subprocess.run([lib.TOOL, "info", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and text in done.stderr, done.stderr


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_bent_contents_under_right_hashes(tmp_path_factory, data):
    """What C's reader refuses, Python's refuses; what it shows, Python's shows."""
    path, whole = tmp_path_factory.getbasetemp() / "bent.presil", GOLDEN.read_bytes()
    with Bundle(GOLDEN) as bundle:
        bent = data.draw(st.sampled_from([r.number for r in bundle.records if r.type != 2]))
        parts = [whole[:40]]
        for record in bundle.records:
            contents = bytearray(bundle.raw(record.number))
            if record.number == bent:
                for _ in range(data.draw(st.integers(1, 3))):
                    at = data.draw(st.integers(0, len(contents) - 1))
                    contents[at] = data.draw(
                        st.sampled_from([0, 1, 2, 8, 0x7F, 0x80, 0xFF, contents[at] ^ 1, contents[at] ^ 8])
                    )
                del contents[data.draw(st.sampled_from([len(contents), len(contents), len(contents) - 8, 8])) :]
            parts.append(resealed(whole[record.offset :], bytes(contents)))
    path.write_bytes(b"".join(parts))
    lines, found, _ = both(path)
    assert lines == found


def u64s(*values) -> bytes:
    return b"".join(v.to_bytes(8, "little", signed=v < 0) for v in values)


FIXTURE = 0x4000_0000  # where the golden file's memory begins (tests/c/bundle_fixture.h)
WRONG = [  # type of record, its bytes, what they become
    (3, b"conv2d", b"co\0v2d"),
    (3, b"conv2d", b"\xffonv2d"),
    (3, u64s(FIXTURE + 88, 24), u64s(FIXTURE + 65530, 24)),
    (3, u64s(FIXTURE + 88, 24), u64s(FIXTURE + 88, 0)),
    (4, u64s(FIXTURE + 64, 4, FIXTURE + 100, 1), u64s(FIXTURE + 100, 1, FIXTURE + 64, 4)),
    (4, u64s(-11), u64s(-11 - 2**40)),
    (5, b"run.log", b"../log!"),
    (6, b"model", b"mod\0l"),
]


NAMES_OF_WRONG = [
    "0 in a text",
    "no UTF-8",
    "window",
    "empty range",
    "unsorted",
    "too large",
    "file name",
    "0 in a key",
]


@pytest.mark.parametrize(("kind", "old", "new"), WRONG, ids=NAMES_OF_WRONG)
def test_both_refuse(tmp_path, kind, old, new):
    path, whole = tmp_path / "wrong.presil", GOLDEN.read_bytes()
    with Bundle(GOLDEN) as bundle:
        record = next(r for r in bundle.records if r.type == kind)
        contents = bundle.raw(record.number)
    assert contents.count(old) == 1 and len(old) == len(new)
    path.write_bytes(whole[: record.offset] + resealed(whole[record.offset :], contents.replace(old, new)))
    lines, found, _ = both(path)
    assert lines == found and lines[-1]["record"] == record.number and lines[-1]["error"]


def test_both_compare_headers_and_the_end(tmp_path):
    path, whole = tmp_path / "wrong.presil", GOLDEN.read_bytes()
    with Bundle(GOLDEN) as bundle:
        second, last = bundle.records[1], bundle.records[-1]
        labels, end = bundle.raw(1), bundle.raw(last.number)
    before, behind = whole[: second.offset], whole[second.offset :]
    path.write_bytes(before + resealed(behind, labels, digest=bytes(16)))
    lines, found, _ = both(path)
    assert lines == found and lines[-1]["record"] == 1 and lines[-1]["error"]
    path.write_bytes(before + resealed(behind, labels, number=2))
    lines, found, _ = both(path)
    assert lines == found and "has another number" in lines[0]["tear"]
    for at in (8, 24, 40):  # records, launches, the hash of the headers
        bent = bytearray(end)
        bent[at] ^= 4
        path.write_bytes(whole[: last.offset] + resealed(whole[last.offset :], bytes(bent)))
        lines, found, _ = both(path)
        assert lines == found and "the closing record does not fit" in lines[0]["tear"]


@pytest.mark.parametrize("values, level, packed", [(40, 0, True), (48, 0, True), (64, 0, False), (64, 1, True)])
def test_contents_are_compressed_where_that_saves_a_fifth(tmp_path, values, level, packed):
    """Bytes of so many values, equally often: Huffman codes of 64 would save a quarter."""
    contents = bytes(random.Random(values).choices(range(values), k=65536))
    path = tmp_path / "x.presil"
    with lib.Writer(path, level=level) as writer:
        writer.chip(chip=b"c")
        group = writer.group()
        group.put("launch", lib.Launch, commands=group.block(contents), label=b"l")
        group.commit()
    assert (path.stat().st_size < 60_000) == packed
    with Bundle(path) as bundle:
        assert bundle.block(bundle.launch(0).commands) == contents
