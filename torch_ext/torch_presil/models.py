# SPDX-License-Identifier: Apache-2.0
"""Loading of a model by name, and making random weights behave: seeded initialisation, calibrated batch-norm
statistics, seeded inputs."""

import fnmatch
import importlib
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from torch_presil import huggingface
from torch_presil.inputs import Drawn, Given, Inputs, InputSpec, ModelError, parse_input

__all__ = [
    "ModelError",
    "Loaded",
    "import_callable",
    "build_model",
    "load_model",
    "load_weights",
    "parse_config",
    "calibrate_batch_norm",
    "seeded_inputs",
    "parse_shape",
    "parse_batches",
    "select",
]


def import_callable(name: str, what: str, returns: str):
    """The callable 'package.module:callable' or 'path/to/file.py:callable'. ModelError; what: how it is named there."""
    source, separator, attribute = name.partition(":")
    if not separator or not attribute:
        raise ModelError(
            f"{what}: expected 'package.module:callable' or 'path/to/file.py:callable', e.g. "
            f"torchvision.models:resnet50"
        )
    if source.endswith(".py"):
        path = Path(source)
        if not path.is_file():
            raise ModelError(f"{what}: there is no file {path.resolve()}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(source)
        except ImportError as error:
            raise ModelError(f"{what}: can't import {source}: {error}") from error
    target = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise ModelError(f"{what}: {source} has no {part!r}")
        target = getattr(target, part)
    if not callable(target):
        raise ModelError(f"{what}: {attribute} is a {type(target).__name__}, expected a callable that {returns}")
    return target


DEFAULT_SHAPE = (1, 3, 224, 224)


@dataclass
class Loaded:
    """A model in eval mode, and where its inputs come from: Drawn or Given."""

    model: nn.Module
    inputs: object


def build_model(name: str, seed: int = 0, specs=(), settings: dict | None = None) -> Loaded:
    """What `name` returns: a module, (module, inputs), or a class of transformers made from its configuration with
    `settings`; seeded initialisation. specs: the user's inputs (InputSpec), before those of the factory or class."""
    factory = import_callable(name, f"model {name!r}", "returns a torch.nn.Module")
    torch.manual_seed(seed)
    inputs = Drawn([InputSpec(DEFAULT_SHAPE)])
    if huggingface.is_pretrained_class(factory):
        model, inputs = huggingface.build(factory, settings or {})
        inputs = inputs.overridden(specs)
    else:
        if settings:
            raise ModelError(f"--config is for classes of transformers; {name} is a {type(factory).__name__}")
        model = factory()
        if isinstance(model, tuple) and len(model) == 2 and isinstance(model[0], nn.Module):
            model, inputs = model[0], Given(model[1])
        if specs:
            inputs = Drawn(specs)
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"model {name!r} returned a {type(model).__name__}, expected a torch.nn.Module, or (module, inputs)"
        )
    return Loaded(model.eval(), inputs)


def load_weights(model: nn.Module, weights: str, name: str) -> None:
    """weights: file of a state dict, loaded with weights_only=True."""
    if not Path(weights).is_file():
        raise ModelError(f"--weights {weights}: there is no such file")
    state = torch.load(weights, map_location="cpu", weights_only=True)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ModelError(f"--weights {weights} does not fit {name}: {error}") from error


def load_model(name: str, weights: str | None = None, seed: int = 0) -> nn.Module:
    """The module of `name` in eval mode, with seeded initialisation or the weights of a file."""
    model = build_model(name, seed).model
    if weights is not None:
        load_weights(model, weights, name)
    return model


def parse_shape(text: str) -> tuple:
    """'1,3,224,224' → (1, 3, 224, 224)."""
    return parse_input(text).shape


def parse_config(texts) -> dict:
    """('hidden_size=64', 'num_layers=2') → {"hidden_size": 64, "num_layers": 2}; numbers and true or false are read."""
    out = {}
    for text in texts:
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals or not name.isidentifier():
                raise ModelError(f"--config {text!r}: expected NAME=VALUE, such as num_hidden_layers=2")
            try:
                out[name] = json.loads(value)
            except ValueError:
                out[name] = value
    return out


def seeded_inputs(shape: tuple, count: int, seed: int) -> list:
    """Standard normal inputs on the CPU, the same for the same seed on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for _ in range(count)]


def joined(inputs: list) -> Inputs:
    """Several Inputs of one structure as one batch."""
    flat = [i if isinstance(i, Inputs) else Inputs((i,)) for i in inputs]
    columns = list(zip(*[i.tensors() for i in flat], strict=True))
    values = iter([torch.cat(column) if column[0].dim() else column[0] for column in columns])
    return flat[0].map(lambda _: next(values))


def has_statistics(model: nn.Module) -> bool:
    """Whether some batch-norm's running statistics are others than those it was made with."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    return any(bool((m.running_mean != 0).any()) or bool((m.running_var != 1).any()) for m in norms)


def calibrate_batch_norm(model: nn.Module, inputs: list) -> int:
    """Sets running statistics to those of the inputs (Inputs or tensors, as one batch), so that random weights neither
    explode nor vanish. Number of layers set."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        return 0
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
        m.train()
    with torch.inference_mode():
        joined(inputs).call(model)
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
