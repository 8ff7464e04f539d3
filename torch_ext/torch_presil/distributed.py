# SPDX-License-Identifier: Apache-2.0
"""torch.distributed backend "presil": collectives on device tensors, between processes that have a device each.

>>> dist.init_process_group("presil", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=2)   # or
"cpu:gloo,presil:presil" >>> model = DistributedDataParallel(model.to("presil"))

Gloo does the transport, on the mapped device memory itself; what it has not is refused with its text.
"""

from torch import distributed

from torch_presil import _C

__all__ = ["register"]


def _create(store, rank: int, size: int, timeout):
    return _C.make_process_group(distributed.ProcessGroupGloo(store, rank, size, timeout=timeout))


def register() -> None:
    """Makes the backend known; nothing to do where torch was built without torch.distributed or Gloo."""
    if not distributed.is_available() or not distributed.is_gloo_available():
        return
    distributed.Backend.register_backend("presil", _create, devices=["presil"])
