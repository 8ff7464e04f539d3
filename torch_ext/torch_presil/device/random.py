# SPDX-License-Identifier: Apache-2.0
"""Seeds and states of the devices' generators. The same seed gives the CPU's numbers. A generator is plain host
state: nothing here opens a device."""

import torch

from torch_presil import _C
from torch_presil.device._index import index_of

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

default_generators = tuple(_C.default_generator(i) for i in range(_C.device_count()))


def _generator(device=None) -> torch.Generator:
    return _C.default_generator(index_of(device))


def manual_seed(seed: int) -> None:
    """Of the current device."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> int:
    """A random seed for the current device; returns it."""
    return _generator().seed()


def seed_all() -> None:
    """One random seed for all devices."""
    manual_seed_all(seed())


def initial_seed() -> int:
    """The current seed of the current device."""
    return _generator().initial_seed()


def get_rng_state(device="presil") -> torch.Tensor:
    """A uint8 tensor on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list:
    return [g.get_state() for g in default_generators]


def set_rng_state(state: torch.Tensor, device="presil") -> None:
    _generator(device).set_state(state.cpu())


def set_rng_state_all(states) -> None:
    for i, state in enumerate(states):
        set_rng_state(state, i)
