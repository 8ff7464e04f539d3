# SPDX-License-Identifier: Apache-2.0
"""Launches as bundles: torch.presil.capture and torch.presil.capture_failures (docs/replay.md)."""

import os
import platform
import sys
import time
from pathlib import Path

from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from torch_presil import _C
from torch_presil.device._index import index_of

__all__ = ["capture", "capture_failures"]


class _Modules:
    """Tells the launches of this thread which module's forward they run in, by its path from the outermost one."""

    def __init__(self):
        self._paths, self._stack, self._hooks = {}, [], []

    def __enter__(self):
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exc):
        for hook in self._hooks:
            hook.remove()
        _C.set_module_path("")
        return False

    def _enter(self, module, _inputs) -> None:
        if not self._stack:
            self._paths = {id(inner): name for name, inner in module.named_modules()}
        named = getattr(module, "name", None)  # a layer that cosim runs alone
        outermost = named if isinstance(named, str) else type(module).__name__
        self._stack.append(self._paths.get(id(module)) or outermost)
        _C.set_module_path(self._stack[-1])

    def _leave(self, _module, _inputs, _output) -> None:
        if self._stack:
            self._stack.pop()
        _C.set_module_path(self._stack[-1] if self._stack else "")


class capture:
    """Context that writes the launches inside to a bundle, a file that `presil-replay` runs again without PyTorch:

        with torch.presil.capture("x.presil"):
            model(x)

    launches: a slice of them, counted from the context's begin, such as slice(3, 5); labels: a regular expression,
    searched for in a launch's label, module path and source line; last=N: the last N that are chosen (they stay in host
    memory until the end). A file that is there is replaced. `kept` is the number of launches, afterwards.
    """

    def __init__(
        self, path, launches: slice | None = None, labels: str | None = None, last: int | None = None, device=None
    ):
        self.path, self.kept = os.fspath(path), None
        first, end = _window(launches)
        if last is not None and last < 1:
            raise ValueError(f"last={last}: 1 or more expected")
        self._choice = (first, end, last or 0, labels or "")
        self._device = index_of(device)
        self._modules = _Modules()

    def __enter__(self):
        _C.synchronize(self._device)
        first, end, last, labels = self._choice
        _C.begin_capture(self._device, self.path, first, end, last, labels, True, _file_labels())
        self._modules.__enter__()
        return self

    def __exit__(self, kind, error, trace):
        self._modules.__exit__()
        try:
            _C.synchronize(self._device)
        finally:
            if kind is None:
                self.kept = _C.end_capture(self._device)
            else:
                self._end_after_an_error(error)
        return False

    def _end_after_an_error(self, error) -> None:
        try:
            self.kept = _C.end_capture(self._device)
        except (OSError, RuntimeError) as failed:
            error.add_note(f"and the capture ended with: {failed}")


def capture_failures(directory) -> str:
    """From now on each launch that fails (or differs from the model, in mode "verify") leaves a bundle in `directory`,
    and the exception names it. Costs next to nothing until then. None: no more. Returns the directory before ("":
    none); PRESIL_CAPTURE_FAILURES is the first."""
    before = _C.capture_failures()
    _C.set_capture_failures(str(Path(directory).absolute()) if directory else "")
    return before


def _window(launches) -> tuple:
    """(first, how many; 0: all behind it)."""
    if launches is None:
        return 0, 0
    if not isinstance(launches, slice) or launches.step not in (None, 1):
        raise TypeError(f"launches must be a slice without a step, such as slice(3, 5), not {launches!r}")
    first, end = launches.start or 0, launches.stop
    if first < 0 or (end is not None and end <= first):
        raise ValueError(f"launches={launches!r}: a window from 0 on expected, with at least one launch")
    return first, 0 if end is None else end - first


def _file_labels() -> list:
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return [("command", " ".join(sys.argv)), ("host", platform.node()), ("date", now)]
