# SPDX-License-Identifier: Apache-2.0
"""What is to be done to modules of others once they are imported, whose import is not ours to pay for."""

import importlib.abc
import sys

__all__ = ["after_import"]

_functions: dict = {}  # name of a module -> function of it


class _OnImport(importlib.abc.MetaPathFinder):
    """Calls our function after a module was loaded by its own loader."""

    def find_spec(self, name, path, target=None):
        if name not in _functions:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Then(spec.loader, _functions[name])
                return spec
        return None


class _Then(importlib.abc.Loader):
    def __init__(self, loader, function):
        self.loader, self.function = loader, function

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.function(module)


def after_import(name: str, function) -> None:
    """function(module), once: at once if the module is imported already, else when it is."""
    if name in sys.modules:
        function(sys.modules[name])
        return
    if not _functions:
        sys.meta_path.insert(0, _OnImport())
    _functions[name] = function
