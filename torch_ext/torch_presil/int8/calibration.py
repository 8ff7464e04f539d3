# SPDX-License-Identifier: Apache-2.0
"""Calibration data of the user's: from a file, or from a callable, as Inputs of one form."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import torch

from torch_presil.inputs import Inputs, ModelError
from torch_presil.int8.observing import CalibrationError, check_finite
from torch_presil.models import import_callable

__all__ = ["MOST", "Data", "load"]

MOST = 512  # inputs that are taken, unless the user says otherwise
FORMS = (
    "a tensor or a dictionary of tensors whose rows are samples, or a list, tuple, DataLoader or generator of inputs, "
    "each a tensor, a tuple (what the model doesn't take, such as labels, is left out) or a dictionary"
)


@dataclass(frozen=True)
class Data:
    """inputs: Inputs, all of one form but for the first dimension; samples: their first dimensions, added up; source:
    as the user named it."""

    inputs: list
    samples: int
    source: str

    def said(self) -> dict:
        return {"source": self.source, "inputs": len(self.inputs), "samples": self.samples}


def load(source: str, form: Inputs | None = None, most: int = MOST, tell=lambda *_: None, option="--calibrate") -> Data:
    """source: a file of torch.save, or package.module:callable, file.py:callable, which returns FORMS. form: what each
    has to look like, and in batches of which size rows are taken; None: as the first input, one row at a time. most: so
    many inputs at most. CalibrationError: nothing, or something else; the text says which input."""
    tell(f"loading {option} {source}")
    value = _file(source, option) if _is_file(source) else _called(source, option)
    batches = _batches(value, form.batch if form else 1, f"{option} {source}")
    inputs = []
    for index, batch in enumerate(itertools.islice(batches, most)):
        where = f"{option} {source}, input {index}"
        one = _as_inputs(batch, form, where)
        form = form or one
        inputs.append(_checked(one, form, where))
        tell(f"loading {option} {source}", index + 1, 0)
    if not inputs:
        raise CalibrationError(f"{option} {source}: expected at least one input, found none")
    samples = sum(x.batch for x in inputs)
    tell(f"{option} {source}: {samples} samples in {len(inputs)} inputs")
    return Data(inputs, samples, source)


def _is_file(source: str) -> bool:
    return ":" not in source or Path(source).is_file()


def _file(source: str, option: str):
    if not Path(source).is_file():
        raise CalibrationError(f"{option} {source}: there is no such file; or name a callable, package.module:callable")
    try:
        return torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling fails in many ways
        raise CalibrationError(
            f"{option} {source}: expected a file by torch.save of tensors in lists, tuples and dictionaries; for "
            f"anything else name a callable that returns it: {str(error).strip().splitlines()[0]}"
        ) from error


def _called(source: str, option: str):
    try:
        return import_callable(source, f"{option} {source}", "returns calibration data")()
    except ModelError as error:
        raise CalibrationError(str(error)) from error


def _batches(value, size: int, where: str):
    """What each becomes one input, in order."""
    if isinstance(value, torch.Tensor):
        if not value.dim():
            raise CalibrationError(f"{where}: expected rows that are samples, found a tensor without dimensions")
        return iter(value.split(size))
    if isinstance(value, dict):
        return _rows(value, size, where)
    try:
        return iter(value)
    except TypeError:
        raise CalibrationError(f"{where}: expected {FORMS}; found a {type(value).__name__}") from None


def _rows(value: dict, size: int, where: str):
    counts = {name: t.shape[0] if isinstance(t, torch.Tensor) and t.dim() else None for name, t in value.items()}
    if len(set(counts.values())) != 1 or None in counts.values():
        raise CalibrationError(f"{where}: expected tensors with as many rows each, found {counts}")
    rows = next(iter(counts.values()))
    return ({name: t[at : at + size] for name, t in value.items()} for at in range(0, rows, size))


def _as_inputs(batch, form: Inputs | None, where: str) -> Inputs:
    if isinstance(batch, Inputs):
        return batch
    if isinstance(batch, torch.Tensor):
        return Inputs((batch,))
    if isinstance(batch, dict):
        names = form.kwargs if form and form.kwargs else batch
        if missing := [n for n in names if n not in batch]:
            raise CalibrationError(f"{where}: expected {', '.join(names)}, found no {', '.join(missing)}")
        return Inputs(kwargs={n: batch[n] for n in names})
    if isinstance(batch, (tuple, list)) and batch:
        return Inputs(tuple(batch[: len(form.args) if form and form.args else 1]))
    raise CalibrationError(f"{where}: expected a tensor, a tuple or a dictionary, found {_found(batch)}")


def _found(value) -> str:
    return f"an empty {type(value).__name__}" if isinstance(value, (tuple, list)) else f"a {type(value).__name__}"


def _checked(inputs: Inputs, form: Inputs, where: str) -> Inputs:
    """With floating point in the form's types. CalibrationError: other sizes, types, NaN, no rows."""
    found, wanted = inputs.tensors(), form.tensors()
    if not found or len(found) != len(wanted) or len(inputs.args) != len(form.args):
        raise CalibrationError(f"{where}: expected tensors of sizes {form.shapes()}, found {inputs.shapes()}")
    for got, like in zip(found, wanted):
        _check_tensor(got, like, where)
    types = iter([t.dtype for t in wanted])
    return inputs.map(lambda t: t.detach().cpu().to(next(types)))


def _check_tensor(got: torch.Tensor, like: torch.Tensor, where: str) -> None:
    if got.dim() != like.dim() or got.shape[1:] != like.shape[1:]:
        sizes = "×".join(["N", *map(str, like.shape[1:])])
        raise CalibrationError(
            f"{where}: expected a tensor of {sizes}, found {'×'.join(map(str, got.shape))} (--input states other sizes)"
        )
    if not got.numel():
        raise CalibrationError(f"{where}: expected values, found a tensor of {'×'.join(map(str, got.shape))}")
    if got.is_floating_point() != like.is_floating_point():
        raise CalibrationError(
            f"{where}: expected {like.dtype}, found {got.dtype}: convert it as the model's user does"
        )
    if got.is_floating_point():
        check_finite(got, where)
