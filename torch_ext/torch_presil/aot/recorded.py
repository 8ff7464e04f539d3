# SPDX-License-Identifier: Apache-2.0
"""What a program does, in order: command lists, and what presil-run computes on the host between them."""

from torch_presil import _C
from torch_presil.aot.host import HostOperator
from torch_presil.interchange import address


class Steps:
    """In place of a _C.Partition while a graph is recorded: what is not on_host() goes into the current one.

    weights: bytes at the arena's start where packed weights are placed; None: they are not placed."""

    def __init__(self, arena, weights: int | None):
        self.arena, self.weights = arena, weights
        self.steps: list = []

    def __getattr__(self, name):
        return getattr(self._partition(), name)

    def _partition(self):
        if not self.steps or isinstance(self.steps[-1], HostOperator):
            index, used = self.arena.device.index, self.weights_bytes
            self.steps.append(_C.Partition(index))
            if self.weights is not None:
                self.steps[-1].place_weights(self.base + used, self.weights - used)
        return self.steps[-1]

    def on_host(self, operator: HostOperator) -> None:
        self.steps.append(operator)

    @property
    def base(self) -> int:
        return _C.device_address(self.arena.device.index, address(self.arena))

    @property
    def _partitions(self) -> list:
        return [s for s in self.steps if not isinstance(s, HostOperator)]

    def finish(self, name: str) -> None:
        parts = self._partitions
        for i, part in enumerate(parts):
            part.finish(name if len(parts) == 1 else f"{name}.{i}")

    @property
    def weights_bytes(self) -> int:
        return sum(p.weights_bytes for p in self._partitions)

    @property
    def launches(self) -> int:
        return sum(p.launches for p in self._partitions)

    @property
    def operators(self) -> int:
        return sum(p.operators for p in self._partitions)

    @property
    def host_operators(self) -> int:
        return len(self.steps) - len(self._partitions)
