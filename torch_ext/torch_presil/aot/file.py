# SPDX-License-Identifier: Apache-2.0
"""The file of a program compiled ahead of time: docs/aot.md."""

import struct
import zlib
from dataclasses import dataclass

import torch

from torch_presil.aot.host import HostOperator
from torch_presil.interchange import address

MAGIC, HEADER_BYTES, DIMS, CRC_AT = b"PRESILPR", 192, 8, 20
DTYPES = {torch.int8: 0, torch.bfloat16: 1, torch.float32: 2, torch.int32: 3, torch.float16: 6}
QUANTIZE = 3  # presil_step_kind
NO_CODES = {1: b"", 2: bytes(8), 3: bytes(16)}


@dataclass
class Contents:
    """rows: (name, tensor in the arena, Codes or None) of inputs, then outputs. fixed: bytes at the arena's start that
    go into the file."""

    info: dict
    arena: torch.Tensor
    inputs: int
    rows: list
    fixed: int
    steps: object

    @property
    def version(self) -> int:
        codes = [c for _, _, c in self.rows if c]
        if self.steps.host_operators or any(c.rounds_first for c in codes):
            return 3
        return 2 if codes else 1


def _tensor(name, tensor, arena) -> bytes:
    pad = [0] * (DIMS - tensor.dim())
    return struct.pack(
        "<64sIIQ8q8q",
        name.encode()[:63],
        DTYPES[tensor.dtype],
        tensor.dim(),
        address(tensor) - address(arena),
        *tensor.shape,
        *pad,
        *tensor.stride(),
        *pad,
    )


def _codes(codes, version: int) -> bytes:
    if codes is None:
        return NO_CODES[version]
    pair = struct.pack("<fi", codes.factor, codes.zero_point)
    return pair if version == 2 else pair + struct.pack("<II", codes.rounds_first, 0)


def _attribute(name: str, values) -> bytes:
    """Integers, reals, or a text."""
    head = name.encode().ljust(32, b"\0")
    if isinstance(values, str):
        return head + struct.pack("<II64s", 2, 0, values.encode())
    integers = all(isinstance(v, int) for v in values)
    padded = [*values, *[0] * (DIMS - len(values))]
    return head + struct.pack("<II8q" if integers else "<II8d", 0 if integers else 1, len(values), *padded)


def _host_operator(operator: HostOperator, arena) -> bytes:
    steps = [operator.quantize] if operator.quantize else []
    out = struct.pack("<IIII", operator.kind, len(operator.inputs), len(operator.attributes), len(steps))
    out += b"".join(_tensor(name, t, arena) for name, t in operator.inputs.items())
    out += _tensor("output", operator.output, arena)
    out += b"".join(_attribute(name, values) for name, values in operator.attributes.items())
    return out + b"".join(struct.pack("<IfffiiiI", QUANTIZE, 1.0, 0.0, 0.0, *step, 0) for step in steps)


def _steps(contents: Contents) -> tuple[bytes, bytes]:
    """(table, commands)."""
    table = commands = b""
    for step in contents.steps.steps:
        if isinstance(step, HostOperator):
            body = _host_operator(step, contents.arena)
            table += struct.pack("<IIQ", 1, len(body), 0) + body
        else:
            image = step.save(contents.steps.base)
            table += struct.pack("<IIQ", 0, 0, len(image))
            commands += image
    return table, commands


def write(path, contents: Contents) -> int:
    """Returns the file's bytes."""
    version, arena, info = contents.version, contents.arena, contents.info
    table = b"".join(_tensor(name, t, arena) + _codes(codes, version) for name, t, codes in contents.rows)
    steps, commands = _steps(contents)
    if version < 3:
        steps = b""
    data = HEADER_BYTES + len(table) + (24 if contents.fixed else 0) + len(steps) + len(commands)
    constants = arena[: contents.fixed].cpu().numpy().tobytes()
    body = table + (struct.pack("<QQQ", 0, contents.fixed, data) if contents.fixed else b"")
    body += steps + commands + constants
    header = struct.pack(
        "<8sIIIIQ32s64sIIIIQQI28x",
        MAGIC,
        version,
        HEADER_BYTES,
        0,
        0,
        HEADER_BYTES + len(body),
        info["chip"].encode(),
        info["config"].encode(),
        info.get("config_hash", 0),
        contents.inputs,
        len(contents.rows) - contents.inputs,
        1 if contents.fixed else 0,
        arena.numel(),
        len(commands),
        len(contents.steps.steps) if version == 3 else 0,
    )
    crc = zlib.crc32(body, zlib.crc32(header))
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(header[:CRC_AT] + struct.pack("<I", crc) + header[CRC_AT + 4 :] + body)
    temporary.replace(path)
    return HEADER_BYTES + len(body)
