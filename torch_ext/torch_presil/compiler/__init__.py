# SPDX-License-Identifier: Apache-2.0
"""torch.compile for the device: the backend "presil" (backend.py), made known to torch._dynamo when that is first
imported, because importing it costs seconds."""

import importlib.abc
import sys

__all__ = ["install"]


def _register_backend(registry) -> None:
    def presil(gm, example_inputs, **kwargs):
        from torch_presil.compiler.backend import presil as compile_for_chip

        return compile_for_chip(gm, example_inputs, **kwargs)

    if registry._COMPILER_FNS.get("presil") is None:
        registry.register_backend(presil, name="presil")


def _register_interface(device_interface) -> None:
    from torch_presil.compiler.device_interface import make_interface

    interface = make_interface(device_interface.DeviceInterface)
    import torch

    device_interface.register_interface_for_device("presil", interface)
    for i in range(torch.presil.device_count()):
        device_interface.register_interface_for_device(f"presil:{i}", interface)


def _register_inductor(common) -> None:
    """Inductor has no code generator for this device; it asks for one and gets the way out."""

    def refuse(*args, **kwargs):
        raise NotImplementedError(
            "torch.compile's default backend, inductor, has no code generator for the device presil: use "
            'torch.compile(model, backend="presil")'
        )

    class NoCodeGenerator:
        supports_caching = False

        def __init__(self, *args, **kwargs):
            refuse()

        @staticmethod
        def create(*args, **kwargs):
            refuse()

    class NoOverrides:
        def __getattr__(self, name):
            refuse()

    common.register_backend_for_device("presil", NoCodeGenerator, NoCodeGenerator)
    common.register_device_op_overrides("presil", NoOverrides())


_ON_IMPORT = {
    "torch._dynamo.backends.registry": _register_backend,
    "torch._dynamo.device_interface": _register_interface,
    "torch._inductor.codegen.common": _register_inductor,
}


class _OnImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Calls our function after a module of torch was loaded by its own loader."""

    def find_spec(self, name, path, target=None):
        if name not in _ON_IMPORT:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Then(spec.loader, _ON_IMPORT[name])
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


def install() -> None:
    """Called once, when torch_presil is imported."""
    for name, function in _ON_IMPORT.items():
        if name in sys.modules:
            function(sys.modules[name])
    sys.meta_path.insert(0, _OnImport())
