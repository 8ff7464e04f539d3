# SPDX-License-Identifier: Apache-2.0
"""CHIP.conform.toml: what a chip says of its registers, and one small job for it. docs/conform.md has the format."""

import ast
import operator
import struct
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
JOB_KEYS = {"address_step", "bytes_step", "bytes_most", "target_bytes", "writes", "commands", "done", "failed", "clear"}
CHIP_KEYS = {"matmul", "ignores_bus_errors"}
REGISTER_KEYS = {"offset", "reset", "writable"}


class DescriptionError(Exception):
    """The file is not as docs/conform.md says."""


@dataclass(frozen=True)
class Register:
    name: str
    offset: int
    reset: int | None  # None: it depends on the configuration, or on what was done
    writable: int | None  # bits that keep what is written; None: a write does something, so none is made


@dataclass(frozen=True)
class Test:
    """(register & mask) == value."""

    offset: int
    mask: int
    value: int

    def holds(self, read: int) -> bool:
        return read & self.mask == self.value


@dataclass(frozen=True)
class Job:
    """Copies `bytes` from source to target: multiples of address_step, a multiple of bytes_step, at most bytes_most.
    With target_bytes: makes so many of them, the same for the same source."""

    address_step: int
    bytes_step: int
    bytes_most: int
    writes: list  # (offset, expression)
    commands: list  # expressions of 32-bit words
    done: Test | None  # None: its interrupt
    failed: Test | None
    clear: list  # (offset, expression)
    target_bytes: int | str | None = None  # an expression of `bytes`; None: the job copies


@dataclass(frozen=True)
class Description:
    path: Path
    registers: dict = field(default_factory=dict)
    absent: int | None = None  # an offset where there is no register
    absent_reads: int | None = None  # what reads there give; None: an error
    job: Job | None = None
    products: tuple = ()  # (batches, m, k, n) that the chip takes, where it takes few
    ignores_bus_errors: bool = False  # an answer with an error ends like any other


def evaluate(expression, values: dict) -> int:
    """An int, or a sum of ints and names such as "source >> 32"."""
    if isinstance(expression, int):
        return expression

    def of(node) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](of(node.left), of(node.right))
        raise DescriptionError(f"{expression!r}: numbers, {', '.join(values)} and + - * // % << >> & | are understood")

    try:
        return of(ast.parse(str(expression), mode="eval").body)
    except SyntaxError as error:
        raise DescriptionError(f"{expression!r}: {error.msg}") from error


def words(job: Job, values: dict) -> bytes:
    return b"".join(struct.pack("<I", evaluate(word, values) & 0xFFFFFFFF) for word in job.commands)


def _known(path: Path, table: dict, keys: set, where: str) -> None:
    if unknown := set(table) - keys:
        raise DescriptionError(
            f"{path}: {where}: unknown {', '.join(sorted(unknown))}; known: {', '.join(sorted(keys))}"
        )


def read(path: Path) -> Description:
    """Raises DescriptionError with the place."""
    try:
        tables = tomllib.loads(path.read_text())
        _known(path, tables, {"registers", "absent", "job", "chip"}, "top level")
        registers = {}
        for name, table in tables.get("registers", {}).items():
            _known(path, table, REGISTER_KEYS, f"register {name}")
            registers[name] = Register(name, table["offset"], table.get("reset"), table.get("writable"))
        absent = tables.get("absent", {})
        _known(path, absent, {"offset", "reads"}, "absent")
        job, chip = tables.get("job"), tables.get("chip", {})
        _known(path, chip, CHIP_KEYS, "chip")
        return Description(
            path,
            registers,
            absent.get("offset"),
            absent.get("reads"),
            _job(path, job, registers) if job else None,
            _products(path, chip.get("matmul", [])),
            bool(chip.get("ignores_bus_errors")),
        )
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DescriptionError(f"{path}: {error}") from error
    except KeyError as error:
        raise DescriptionError(f"{path}: {error} is missing") from error


def _products(path: Path, shapes: list) -> tuple:
    for shape in shapes:
        if not isinstance(shape, list) or len(shape) != 4 or any(type(size) is not int or size < 1 for size in shape):
            raise DescriptionError(f"{path}: chip.matmul: {shape!r}: [batches, m, k, n] was expected")
    return tuple(map(tuple, shapes))


def _job(path: Path, table: dict, registers: dict) -> Job:
    _known(path, table, JOB_KEYS, "job")

    def offset(name: str) -> int:
        if name not in registers:
            raise DescriptionError(f"{path}: job: there is no register {name!r}")
        return registers[name].offset

    def test(name: str) -> Test | None:
        value = table.get(name)
        return Test(offset(value["register"]), value["mask"], value["value"]) if value else None

    def pairs(name: str) -> list:
        return [(offset(register), value) for register, value in table.get(name, [])]

    return Job(
        table["address_step"],
        table["bytes_step"],
        table["bytes_most"],
        pairs("writes"),
        table.get("commands", []),
        test("done"),
        test("failed"),
        pairs("clear"),
        table.get("target_bytes"),
    )
