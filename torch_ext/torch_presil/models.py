# SPDX-License-Identifier: Apache-2.0
"""Loading of a model by name, and making random weights behave: seeded initialisation, calibrated batch-norm
statistics, seeded inputs."""

import fnmatch
import importlib
import importlib.util
import sys
from pathlib import Path

import torch
from torch import nn

__all__ = [
    "ModelError",
    "load_model",
    "calibrate_batch_norm",
    "seeded_inputs",
    "parse_shape",
    "parse_batches",
    "select",
]


class ModelError(ValueError):
    """The model can't be loaded; the text says what was expected and found."""


def _import(name: str):
    source, separator, attribute = name.partition(":")
    if not separator or not attribute:
        raise ModelError(
            f"model {name!r}: expected 'package.module:callable' or 'path/to/file.py:callable', e.g. "
            f"torchvision.models:resnet50"
        )
    if source.endswith(".py"):
        path = Path(source)
        if not path.is_file():
            raise ModelError(f"model {name!r}: there is no file {path.resolve()}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(source)
        except ImportError as error:
            raise ModelError(f"model {name!r}: can't import {source}: {error}") from error
    target = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise ModelError(f"model {name!r}: {source} has no {part!r}")
        target = getattr(target, part)
    if not callable(target):
        raise ModelError(
            f"model {name!r}: {attribute} is a {type(target).__name__}, expected a callable that returns a "
            f"torch.nn.Module"
        )
    return target


def load_model(name: str, weights: str | None = None, seed: int = 0) -> nn.Module:
    """The module that `name` returns, in eval mode, with seeded initialisation; weights: a state dict file (loaded
    with weights_only=True)."""
    factory = _import(name)
    torch.manual_seed(seed)
    model = factory()
    if not isinstance(model, nn.Module):
        raise ModelError(f"model {name!r} returned a {type(model).__name__}, expected a torch.nn.Module")
    if weights is not None:
        if not Path(weights).is_file():
            raise ModelError(f"--weights {weights}: there is no such file")
        state = torch.load(weights, map_location="cpu", weights_only=True)
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise ModelError(f"--weights {weights} does not fit {name}: {error}") from error
    return model.eval()


def parse_shape(text: str) -> tuple:
    """'1,3,224,224' → (1, 3, 224, 224)."""
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ModelError(f"--input {text!r}: expected integers separated by commas, e.g. 1,3,224,224") from None
    if not shape or any(s < 1 for s in shape):
        raise ModelError(f"--input {text!r}: every size must be at least 1")
    return shape


def seeded_inputs(shape: tuple, count: int, seed: int) -> list:
    """Standard normal inputs on the CPU, the same for the same seed on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for _ in range(count)]


def calibrate_batch_norm(model: nn.Module, inputs: list) -> int:
    """Sets running statistics to those of the inputs (one batch), so that random weights neither explode nor vanish.
    Number of layers set."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        return 0
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
        m.train()
    with torch.inference_mode():
        model(torch.cat(inputs))
    for m, momentum in zip(norms, momenta):
        m.momentum = momentum
        m.eval()
    return len(norms)


def parse_batches(text: str | None) -> tuple:
    """'1,2,4' to (1, 2, 4); None to ()."""
    parts = text.split(",") if text else []
    if not all(p.strip().isdigit() and int(p) > 0 for p in parts):
        raise ModelError(f"--batches {text!r}: expected positive numbers separated by commas, such as 1,2,4,8,16,32")
    return tuple(int(p) for p in parts)


def select(names, pattern: str | None) -> list:
    """Names that match a shell pattern ('layer2.*'); all without one. Raises if none does."""
    names = list(names)
    if pattern is None:
        return names
    chosen = [n for n in names if fnmatch.fnmatchcase(n, pattern)]
    if not chosen:
        raise ModelError(
            f"--layers {pattern!r} matches none of the {len(names)} layers: "
            f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
        )
    return chosen
