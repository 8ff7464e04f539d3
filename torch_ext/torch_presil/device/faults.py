# SPDX-License-Identifier: Apache-2.0
"""torch.presil.inject: faults of the memory, the bus and the interrupt, for tests of what comes of them."""

from torch_presil import _C
from torch_presil.device._index import index_of

__all__ = ["inject"]


class inject:
    """Context in which the simulator has faults, such as "read-slverr@17,late=500" (docs/simulation.md). A launch that
    fails raises RuntimeError, and the next one works. Real devices raise RuntimeError here."""

    def __init__(self, faults: str, device=None):
        self.faults, self._device = faults, index_of(device)

    def __enter__(self):
        _C.synchronize(self._device)
        _C.inject(self._device, self.faults)
        return self

    def __exit__(self, kind, error, trace):
        try:
            _C.synchronize(self._device)
        finally:
            _C.inject(self._device, "")
        return False
