# SPDX-License-Identifier: Apache-2.0
"""PyTorch device `presil`: matmul and convolution on the RTL of an accelerator, everything else on the CPU over the same memory.

>>> import torch, torch_presil
>>> x = torch.randn(8, 64).to("presil")
>>> y = (x @ x.t()).cpu()

`torch.presil` is the device module (after torch.cuda), `torch.backends.presil` holds the settings: mode ("rtl", "model", "verify"), chip,
fp32_precision, strict. Importing starts no simulator; the first launch does.
"""

import atexit
import os
import sys
from pathlib import Path

import torch

TORCH_VERSION = "2.13.0"

if torch.__version__.split("+")[0] != TORCH_VERSION:
    raise ImportError(f"torch_presil was built for torch {TORCH_VERSION}, found {torch.__version__}: install torch=={TORCH_VERSION}, "
                      "or rebuild torch_presil for the torch that is installed")

_PACKAGE = Path(__file__).parent


def _native_directory() -> Path:
    """Where _C.so lies: beside this file when installed, in the build tree when the sources are used in place."""
    for candidate in (_PACKAGE, Path(os.environ.get("PRESIL_BUILD_DIR", "")) / "python" / "torch_presil"):
        if (candidate / "_C.so").exists():
            return candidate
    raise ImportError(f"torch_presil: _C.so is neither in {_PACKAGE} nor in $PRESIL_BUILD_DIR/python/torch_presil: "
                      "run './presil build', or 'pip install .'")


def _load_native():
    directory = _native_directory()
    libraries = directory / "lib"
    os.environ.setdefault("PRESIL_LIBRARY_PATH", str(libraries if libraries.is_dir() else directory.parent.parent / "lib"))
    # torch's symbols must be visible to the extension; its own stay private.
    import importlib.util
    spec = importlib.util.spec_from_file_location("torch_presil._C", directory / "_C.so")
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_presil._C"] = module
    spec.loader.exec_module(module)
    return module


_C = _load_native()
_C.set_library_folders([str(Path(p).parent) + os.sep for p in (torch.__file__, __file__, Path(__file__).resolve())])

from . import backends, compiler, device, distributed, interchange, meta, vision  # noqa: E402

torch.utils.rename_privateuse1_backend("presil")
torch._register_device_module("presil", device)
torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True)
torch.backends.presil = backends.settings
sys.modules["torch.backends.presil"] = backends.settings
compiler.install()
interchange.install()
distributed.register()
vision.install()

__all__ = ["backends", "compiler", "device"]


@atexit.register
def _wait_for_the_chip() -> None:
    _C.synchronize_all()
