# SPDX-License-Identifier: Apache-2.0
"""Simulator libraries of this build, driven below the driver: sim/speed.py's transport and command lists.

usage: libraries.py CONFIG BUILD MEMORY_MODEL...     what launches leave behind, as JSON. A process of its own: there
is one SystemC kernel in each
"""

import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))


def _module(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


speed = _module("presil_speed", ROOT / "sim" / "speed.py")
isa = _module("presil_desc", BUILD / "generated" / "presil_desc.py")


def library(config: str, build: str) -> Path:
    """The file of a simulator library; builds of the SystemC platform are named systemc, systemc_check,
    systemc_trace."""
    name = f"libpresil_sim_{config}_{build}.so"
    for folder in (BUILD / "lib", *map(Path, os.environ.get("PRESIL_LIBRARY_PATH", "").split(":"))):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(
        f"{name} is not in {BUILD / 'lib'}: configure with PRESIL_SYSTEMC_CONFIGS (preset check), with "
        f"libsystemc-dev installed"
    )


class Chip(speed.Chip):
    """A transport, with what a test looks at afterwards."""

    def __init__(self, path: Path, memory_model: str):
        super().__init__(path, memory_model, BUILD / "generated")

    def prepare(self, memory_model: str, seed: int) -> None:
        self.set_memory_model(memory_model, seed)
        speed.prepare(self)

    def counters(self) -> list[int]:
        first = self.registers.REGISTERS["COUNTER"]
        return [self.read32(first + 4 * i) for i in range(180)]


def observe(chip: Chip, descriptors: list[bytes], memory: str, seed: int) -> dict:
    """Everything that one launch leaves behind."""
    speed.fill(chip, "int8")
    chip.memory_write(speed.OUT, bytes(4 << 20))
    chip.prepare(memory, seed)
    before = chip.cycles()
    cycles, _, _ = speed.run(chip, descriptors)
    after = chip.memory_read(speed.OUT, 4 << 20)
    return {
        "launch": cycles,
        "with registers": chip.cycles() - before,
        "counters": chip.counters(),
        "memory": hashlib.sha256(after).hexdigest(),
    }


def main(config_name: str, build: str, memories: list[str]) -> None:
    config = isa.CONFIGS[config_name]
    lists = {
        "features": speed.features(isa, config, ("int8", "bf16", "fp16")),
        **{
            f"{t} kernel {k}": speed.layer(isa, config, t, k, k == 3, 4)
            for t in ("int8", "bf16", "fp16")
            for k in (1, 3)
        },
    }
    chip = Chip(library(config_name, build), "default")
    print(
        json.dumps(
            {m: {name: observe(chip, descriptors, m, 7) for name, descriptors in lists.items()} for m in memories}
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
