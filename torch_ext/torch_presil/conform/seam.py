# SPDX-License-Identifier: Apache-2.0
"""Finds sim/python/presil_transport.py, in the source tree or in the sources of an installed package."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve()
SOURCES = next(
    root
    for root in (_HERE.parents[1] / "sources", _HERE.parents[3])
    if (root / "sim/python/presil_transport.py").is_file()
)
sys.path.insert(0, str(SOURCES / "sim/python"))

from presil_transport import ABI, CANCELLED, DEADLINE, HUNG, IRQ, Transport, TransportError  # noqa: E402

__all__ = ["ABI", "CANCELLED", "DEADLINE", "HUNG", "IRQ", "SOURCES", "Transport", "TransportError"]
EINVAL, ENOMEM, EIO, ENOSYS, EBUS, ESTOPPED = range(-1, -7, -1)  # presil_transport_error
CLOCKED, TRACE, WRITE_LOG, MAPS, COHERENT, WRITE_TIMES = (1 << bit for bit in range(6))  # presil_transport_capability
