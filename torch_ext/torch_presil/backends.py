# SPDX-License-Identifier: Apache-2.0
"""torch.backends.presil: the settings."""

import contextlib
import types

from torch_presil import _C


class _Settings(types.ModuleType):
    """mode, chip, build, memory_model, fp32_precision, strict. An unknown name raises, so that a typing error can't pass."""

    _NAMES = ("mode", "chip", "build", "memory_model", "fp32_precision", "strict")

    @property
    def mode(self) -> str:
        """"rtl" (default), "model" (the C twin: same bits, no clock) or "verify" (both, compared byte for byte). Can change whenever the device is idle."""
        return _C.get_mode()

    @mode.setter
    def mode(self, value: str) -> None:
        _C.set_mode(value)

    @property
    def chip(self) -> str:
        """Configuration of the chip ("base", "tiny", ...; rtl/configs.json). Before the first use of a device."""
        return _C.get_chip()

    @chip.setter
    def chip(self, value: str) -> None:
        _C.set_chip(value)

    @property
    def build(self) -> str:
        """Build of the simulator library: "fast", "check" or "trace". Before the first use of a device."""
        return _C.get_build()

    @build.setter
    def build(self, value: str) -> None:
        _C.set_build(value)

    @property
    def memory_model(self) -> str:
        """"" (default: 100 cycles, one bus word a cycle), "ideal", or parameters as in docs/simulation.md."""
        return _C.get_memory_model()

    @memory_model.setter
    def memory_model(self, value: str) -> None:
        _C.set_memory_model(value, 0)

    @property
    def fp32_precision(self) -> str:
        """"ieee": float32 tensors compute at fp32 accuracy (three bf16 terms, six passes); "bf16": one term."""
        return "bf16" if _C.get_fp32_as_bf16() else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("ieee", "bf16"):
            raise ValueError(f"fp32_precision must be 'ieee' or 'bf16', got {value!r}")
        _C.set_fp32_as_bf16(value == "bf16")

    @property
    def strict(self) -> bool:
        """True: an operator that would run on the host raises instead."""
        return _C.get_strict()

    @strict.setter
    def strict(self, value: bool) -> None:
        _C.set_strict(bool(value))

    def __setattr__(self, name, value):
        if not name.startswith("_") and name not in self._NAMES:
            raise AttributeError(f"torch.backends.presil has no setting {name!r}; it has {', '.join(self._NAMES)}")
        super().__setattr__(name, value)

    @contextlib.contextmanager
    def flags(self, **values):
        """Settings inside a `with`, restored afterwards."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)


settings = _Settings("torch.backends.presil", __doc__)
