# SPDX-License-Identifier: Apache-2.0
"""What a model is called with: drawn from shapes, or given by the model's factory; any nesting of tensors."""

from dataclasses import dataclass, field, replace

import torch
from torch.utils import _pytree as pytree

__all__ = ["Inputs", "InputSpec", "Drawn", "Given", "ModelError", "leaves", "named_leaves", "parse_input"]


class ModelError(ValueError):
    """The model or its inputs can't be had; the text says what was expected and found."""


DTYPES = {
    name: getattr(torch, name)
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
GRAMMAR = "[NAME=]SIZES[:DTYPE[:BELOW]], e.g. 1,3,224,224 or input_ids=1,16:int64:30522"


def leaves(value) -> list:
    """The tensors of a nested value, in order."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def named_leaves(value) -> dict:
    """Name ("logits", "[0]") -> tensor, in order; a tensor by itself is called ""."""
    found, _ = pytree.tree_flatten_with_path(value)
    return {pytree.keystr(path).replace("['", ".").replace("']", "").lstrip("."): leaf
            for path, leaf in found if isinstance(leaf, torch.Tensor)}  # fmt: skip


@dataclass(frozen=True)
class Inputs:
    """Positional and named arguments, of tensors in any nesting (tuples, lists, dictionaries)."""

    args: tuple = ()
    kwargs: dict = field(default_factory=dict)

    def map(self, function) -> "Inputs":
        """The same with function(tensor) for each tensor."""
        on_tensors = lambda v: function(v) if isinstance(v, torch.Tensor) else v  # noqa: E731
        return Inputs(pytree.tree_map(on_tensors, self.args), pytree.tree_map(on_tensors, self.kwargs))

    def tensors(self) -> list:
        return leaves((self.args, self.kwargs))

    def call(self, model):
        return model(*self.args, **self.kwargs)

    def shapes(self):
        """For reports: the sizes of the only tensor, else name or position -> sizes."""
        if len(self.args) == 1 and not self.kwargs and isinstance(self.args[0], torch.Tensor):
            return list(self.args[0].shape)
        return {name: list(t.shape) for name, t in {**named_leaves(self.args), **named_leaves(self.kwargs)}.items()}

    @property
    def batch(self) -> int:
        """First dimension of the first tensor that has one."""
        return next((t.shape[0] for t in self.tensors() if t.dim()), 1)


@dataclass(frozen=True)
class InputSpec:
    """One argument: shape; dtype; below: exclusive upper bound of integers, which start at 0; name: None:
    positional."""

    shape: tuple
    dtype: torch.dtype = torch.float32
    below: int | None = None
    name: str | None = None
    given_dtype: bool = False

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        if self.dtype.is_floating_point:
            return torch.randn(self.shape, generator=generator).to(self.dtype)
        return torch.randint(0, self.below, self.shape, generator=generator).to(self.dtype)


def parse_input(text: str) -> InputSpec:
    """'1,3,224,224', 'input_ids=1,16:int64:30522', 'mask=1,16:bool'."""
    name, equals, rest = text.rpartition("=")
    sizes, *more = rest.split(":")
    try:
        shape = tuple(int(part) for part in sizes.split(","))
    except ValueError:
        raise ModelError(f"--input {text!r}: expected integers separated by commas, {GRAMMAR}") from None
    if any(s < 1 for s in shape):
        raise ModelError(f"--input {text!r}: every size must be at least 1")
    if len(more) > 2 or (more and more[0] not in DTYPES) or (equals and not name.isidentifier()):
        raise ModelError(f"--input {text!r}: expected {GRAMMAR}; DTYPE is one of {', '.join(DTYPES)}")
    dtype = DTYPES[more[0]] if more else torch.float32
    below = 2 if dtype == torch.bool else None
    if not dtype.is_floating_point and dtype != torch.bool:
        if len(more) < 2 or not more[1].isdigit() or int(more[1]) < 1:
            raise ModelError(f"--input {text!r}: integers need an upper bound, e.g. {sizes}:{more[0]}:100 for 0 to 99")
        below = int(more[1])
    return InputSpec(shape, dtype, below, name or None, bool(more))


class Drawn:
    """Inputs with random values: floating point standard normal, integers even below their bound."""

    def __init__(self, specs):
        self.specs = list(specs)

    def overridden(self, specs) -> "Drawn":
        """With shapes of the user's: one without a name and type takes those of the argument in its place."""
        out = []
        for i, spec in enumerate(specs):
            if i < len(self.specs) and spec.name is None and not spec.given_dtype:
                spec = replace(self.specs[i], shape=spec.shape)
            elif known := next((s for s in self.specs if s.name == spec.name), None):
                spec = spec if spec.given_dtype else replace(known, shape=spec.shape)
            out.append(spec)
        taken = {spec.name for spec in out}
        return Drawn(out + [s for s in self.specs[len(specs) :] if s.name not in taken])

    def draw(self, count: int, seed: int, batch: int | None = None) -> list:
        """The same for the same seed on every machine; batch: instead of the first dimension."""
        generator = torch.Generator().manual_seed(seed)
        specs = self.specs if batch is None else [replace(s, shape=(batch, *s.shape[1:])) for s in self.specs]
        return [self._one(specs, generator) for _ in range(count)]

    @staticmethod
    def _one(specs, generator) -> Inputs:
        values = [(spec.name, spec.draw(generator)) for spec in specs]
        return Inputs(tuple(v for n, v in values if n is None), {n: v for n, v in values if n is not None})


class Given:
    """Inputs that the factory returned beside the model: taken as they are, whatever the seed."""

    def __init__(self, value):
        self.inputs = (
            Inputs(kwargs=dict(value))
            if isinstance(value, dict)
            else Inputs(tuple(value) if isinstance(value, (tuple, list)) else (value,))
        )
        if not self.inputs.tensors():
            raise ModelError(f"the factory's inputs hold no tensor: {type(value).__name__}")

    def draw(self, count: int, seed: int, batch: int | None = None) -> list:
        """batch: rows are repeated in turn."""
        rows = self.inputs.batch

        def repeated(t):
            return t[torch.arange(batch) % rows] if t.dim() and t.shape[0] == rows else t

        return [self.inputs if batch is None else self.inputs.map(repeated)] * count
