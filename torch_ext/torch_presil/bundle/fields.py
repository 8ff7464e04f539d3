# SPDX-License-Identifier: Apache-2.0
"""The fields of every record: the same rows as driver/bundle/fields.c and docs/bundle.md (tests/bundle compares
them)."""

from dataclasses import dataclass, field

U64, I64, F64, TEXT, BYTES, RANGES, MEMORY, ID, GROUP = range(1, 10)
KINDS = ("u64", "i64", "f64", "text", "bytes", "ranges", "memory", "id", "group")

CHIP, BLOCK, LAUNCH, RESULT, ATTACHMENT, LABELS, END = range(1, 8)


@dataclass(frozen=True)
class Field:
    tag: int
    kind: int
    name: str
    many: bool = False  # the field may come again: a list
    array: bool = False  # numbers, ranges or bytes of any count in one field
    bits: int = 64  # of a number
    group: "Fields | None" = None


@dataclass(frozen=True)
class Fields:
    name: str
    rows: tuple[Field, ...]
    by_tag: dict = field(default_factory=dict, compare=False)

    def __post_init__(self):
        self.by_tag.update({row.tag: row for row in self.rows})


def texts(first: int, *names: str) -> tuple[Field, ...]:
    return tuple(Field(first + i, TEXT, name) for i, name in enumerate(names))


def numbers(first: int, *names: str, bits: int = 64) -> tuple[Field, ...]:
    return tuple(Field(first + i, U64, name, bits=bits) for i, name in enumerate(names))


PAIR = Fields("pair", texts(1, "key", "value"))
COUNTER = Fields("counter", texts(1, "name", "unit"))
TENSOR = Fields(
    "tensor",
    (
        *texts(1, "name", "dtype"),
        *numbers(3, "data", "element_bytes"),
        Field(5, I64, "shape", array=True),
        Field(6, I64, "stride", array=True),
        *numbers(7, "written", "element_bits", bits=16),
    ),
)
OPERAND = Fields(
    "operand",
    (
        *texts(1, "name", "dtype"),
        *numbers(3, "data"),
        *numbers(4, "packed", bits=32),
        Field(5, I64, "shape", array=True),
        Field(6, I64, "stride", array=True),
    ),
)
ATTRIBUTE = Fields(
    "attribute",
    (
        *texts(1, "name"),
        Field(2, I64, "integers", array=True),
        Field(3, U64, "reals", array=True),
        *texts(4, "text"),
    ),
)
STEP = Fields(
    "step",
    (
        *texts(1, "kind"),
        Field(2, I64, "input", bits=32),
        *numbers(3, "scale_bits", "low_bits", "high_bits", bits=32),
        *(Field(6 + i, I64, name, bits=32) for i, name in enumerate(("zero_point", "int_low", "int_high"))),
    ),
)
ASKED = Fields(
    "asked",
    (
        *numbers(1, "present", bits=32),
        *texts(2, "kind"),
        *numbers(3, "compute", "tiling", bits=32),
        Field(5, GROUP, "inputs", many=True, group=OPERAND),
        Field(6, GROUP, "outputs", many=True, group=OPERAND),
        Field(7, GROUP, "attributes", many=True, group=ATTRIBUTE),
        Field(8, GROUP, "steps", many=True, group=STEP),
        Field(9, BYTES, "bias", array=True),
        Field(10, BYTES, "scale", array=True),
    ),
)
DIFFERENCE = Fields(
    "difference",
    (
        *numbers(1, "present", bits=32),
        *numbers(2, "address"),
        *numbers(3, "expected", "found", bits=8),
        *numbers(5, "bytes", "cycle"),
        *texts(7, "text"),
    ),
)

RECORDS = {
    CHIP: Fields(
        "CHIP",
        (
            *texts(1, "chip", "config", "build", "transport", "simulator", "rtl_hash", "library_hash", "memory_model"),
            *texts(9, "presil_version", "torch_version"),
            *numbers(16, "config_hash", "clock_mhz", "memory_base", "memory_bytes", "seed", "hang_cycles"),
            *numbers(22, "abi_chip", "abi_transport", "capabilities", bits=32),
            Field(32, TEXT, "engines", many=True),
            Field(33, TEXT, "causes", many=True),
            Field(34, GROUP, "counters", many=True, group=COUNTER),
        ),
    ),
    LAUNCH: Fields(
        "LAUNCH",
        (
            *numbers(1, "chip", "launch"),
            *numbers(3, "mode", bits=32),
            *texts(4, "label"),
            Field(5, ID, "commands"),
            *numbers(6, "signature", "macs", "passes", "peak_macs_per_cycle", "descriptors", "segments", "estimate"),
            *numbers(13, "origin", "tag", "scratch", "scratch_bytes"),
            Field(20, MEMORY, "reads"),
            Field(21, MEMORY, "expected"),
            Field(22, GROUP, "labels", many=True, group=PAIR),
            Field(23, GROUP, "tensors", many=True, group=TENSOR),
            Field(24, GROUP, "asked", group=ASKED),
        ),
    ),
    RESULT: Fields(
        "RESULT",
        (
            *numbers(1, "chip", "launch"),
            *texts(3, "executor"),
            Field(4, I64, "status", bits=32),
            *texts(5, "error"),
            Field(6, I64, "verified", bits=32),
            *numbers(7, "cycles", "fill", "drain", "sim_ns", "twin_ns", "host_ns"),
            Field(13, U64, "stalls", array=True),
            Field(14, U64, "counters", array=True),
            Field(20, MEMORY, "writes"),
            Field(21, GROUP, "difference", group=DIFFERENCE),
            Field(22, RANGES, "stray", array=True),
            Field(23, RANGES, "missing", array=True),
        ),
    ),
    ATTACHMENT: Fields(
        "ATTACHMENT",
        (
            *texts(1, "name", "media_type"),
            *numbers(3, "has_launch", bits=32),
            *numbers(4, "chip", "launch"),
            Field(6, BYTES, "data", array=True),
        ),
    ),
    LABELS: Fields("LABELS", (Field(1, GROUP, "labels", many=True, group=PAIR),)),
    END: Fields("END", (*numbers(1, "records", "launches"), Field(3, BYTES, "headers", array=True))),
}
NAMES = {BLOCK: "BLOCK", **{kind: fields.name for kind, fields in RECORDS.items()}}
