# SPDX-License-Identifier: Apache-2.0
"""torch.compile for the device: the backend "presil" (backend.py), made known to torch._dynamo when that is first
imported, because importing it costs seconds. torch.compile without a backend, which is inductor, comes to it too where
a graph has tensors of the device."""

import functools

from torch_presil.on_import import after_import

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


def _on_presil(gm, example_inputs) -> bool:
    import torch

    values = [*example_inputs, *(n.meta.get(k) for n in gm.graph.nodes for k in ("example_value", "val"))]
    values += [*gm.parameters(), *gm.buffers()]
    return any(isinstance(v, torch.Tensor) and v.device.type == "presil" for v in values)


def _take_from_inductor(compile_fx_module) -> None:
    """What torch.compile calls without a backend: graphs with tensors of the device are ours, all others inductor's.
    Its modes and options are about code that is not generated for them."""
    inductor = compile_fx_module.compile_fx

    @functools.wraps(inductor)
    def compile_fx(model_, example_inputs_, *args, **kwargs):
        from torch._inductor.virtualized import V

        # With a compiler of its own, or ahead of time: somebody who wants inductor's code (_register_inductor).
        theirs = args or "inner_compile" in kwargs or V.aot_compilation
        if theirs or not hasattr(model_, "graph") or not _on_presil(model_, example_inputs_):
            return inductor(model_, example_inputs_, *args, **kwargs)
        from torch_presil.compiler.backend import presil

        return presil(model_, example_inputs_)

    compile_fx_module.compile_fx = compile_fx


def _register_inductor(common) -> None:
    """Inductor has no code generator for this device; who asks for its code gets the way out."""

    def refuse(*args, **kwargs):
        raise NotImplementedError(
            "inductor generates no code for the device presil: use torch.compile(model), or for a program compiled "
            "ahead of time torch.presil.aot_save (docs/aot.md)"
        )

    no_code_generator = type("NoCodeGenerator", (), {"supports_caching": False, "__init__": refuse, "create": refuse})
    common.register_backend_for_device("presil", *[no_code_generator] * 3)
    common.register_device_op_overrides("presil", type("NoOverrides", (), {"__getattr__": refuse})())


def install() -> None:
    """Called once, when torch_presil is imported."""
    after_import("torch._dynamo.backends.registry", _register_backend)
    after_import("torch._dynamo.device_interface", _register_interface)
    after_import("torch._inductor.codegen.common", _register_inductor)
    after_import("torch._inductor.compile_fx", _take_from_inductor)
