# SPDX-License-Identifier: Apache-2.0
"""torchvision beside a CPU build of torch: the wheel that pip finds carries CUDA-linked operators, which don't load
there.

Without its operators torchvision can't even be imported: its Python registers fake kernels for them by name. From
`import torch_presil` on, an import of torchvision whose library did not load gets the same operators from this
package (csrc/vision): kernels for the CPU, which a presil tensor reaches through the fallback. torchvision's own
Python then adds shapes, autograd and autocast, as it does for its own kernels. A torchvision that loads is left
alone.
"""

import importlib.abc
import importlib.machinery
import sys

from torch_presil import _C

_EXTENSION = "torchvision.extension"


def _provide_operators(extension) -> None:
    """Gives `extension` (the module torchvision.extension, executed) our operators if its own library did not load."""
    if not extension._has_ops():
        _C.define_vision_operators()
        extension._has_ops = lambda: True


class _Loader(importlib.abc.Loader):
    """Python's own loader of torchvision.extension, with our operators behind it: the next lines of torchvision's
    __init__ need them."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        self._loader.exec_module(module)
        _provide_operators(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != _EXTENSION:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    """Called once, by `import torch_presil`. A torchvision whose import failed before gets its operators too, so that
    the next try succeeds."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if _EXTENSION in sys.modules:
        _provide_operators(sys.modules[_EXTENSION])
