# SPDX-License-Identifier: Apache-2.0
"""Inputs with another sequence length, for `presil perf --sweep seq=...`."""

from dataclasses import replace

from torch_presil.inputs import Drawn

__all__ = ["inputs_of"]

DIMENSION = 1  # behind the batch
RANKS = (2, 3)  # tokens, or vectors of tokens; four sizes are a picture


def _text(spec) -> str:
    """As --input has it."""
    dtype = str(spec.dtype).removeprefix("torch.")
    bound = f":{spec.below}" if spec.below is not None and dtype != "bool" else ""
    return f"{f'{spec.name}=' if spec.name else ''}{','.join(map(str, spec.shape))}:{dtype}{bound}"


def inputs_of(inputs, length: str) -> list[str]:
    """All inputs as --input has them, those along the sequence with `length`: of two or three sizes, the second of them
    that of the first such input. ValueError: there is none."""
    if not length.isdigit() or int(length) < 1:
        raise ValueError(f"--sweep seq={length}: a length of 1 or more was expected")
    if not isinstance(inputs, Drawn):
        raise ValueError("--sweep seq: the model's factory gives its inputs as they are; name their sizes by --input")
    along = [spec.shape[DIMENSION] for spec in inputs.specs if len(spec.shape) in RANKS]
    if not along:
        sizes = "; ".join(map(_text, inputs.specs))
        raise ValueError(f"--sweep seq: no input has batch and sequence, two or three sizes: {sizes}")
    return [_text(_longer(spec, along[0], int(length))) for spec in inputs.specs]


def _longer(spec, before: int, length: int):
    if len(spec.shape) not in RANKS or spec.shape[DIMENSION] != before:
        return spec
    return replace(spec, shape=(spec.shape[0], length, *spec.shape[DIMENSION + 1 :]))
