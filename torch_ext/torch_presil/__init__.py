# SPDX-License-Identifier: Apache-2.0
"""PyTorch device `presil`: matmul and convolution on the RTL of an accelerator, everything else on the CPU over the
same memory.

>>> import torch, torch_presil
>>> x = torch.randn(8, 64).to("presil")
>>> y = (x @ x.t()).cpu()

`torch.presil` is the device module (after torch.cuda), `torch.backends.presil` holds the settings: mode ("rtl",
"model", "verify"), chip, fp32_precision, strict. Importing starts no simulator; the first launch does.
"""

import atexit
import os
import sys
from pathlib import Path

from . import loading

load_error = None  # why the compiled part can't be loaded; only torch_presil.diagnose lives to read it
try:
    _C = loading.load()
except ImportError as error:
    if not loading.diagnosing():
        raise
    load_error = error
    from . import diagnose

    sys.exit(diagnose.main())

import torch  # noqa: E402

_C.set_library_folders([str(Path(p).parent) + os.sep for p in (torch.__file__, __file__, Path(__file__).resolve())])

from . import backends, compiler, device, distributed, interchange, losses, meta, vision  # noqa: E402, F401
from . import wide_products  # noqa: E402

torch.utils.rename_privateuse1_backend("presil")
torch._register_device_module("presil", device)
torch.utils.generate_methods_for_privateuse1_backend(
    for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
)
torch.backends.presil = backends.settings
sys.modules["torch.backends.presil"] = backends.settings
compiler.install()
interchange.install()
losses.install()
distributed.register()
vision.install()
wide_products.install()

__all__ = ["backends", "compiler", "device"]


# Before the interpreter goes; handlers that were registered later, the user's, run first and may still use the device.
atexit.register(_C.before_exit)
