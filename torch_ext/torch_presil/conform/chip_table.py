# SPDX-License-Identifier: Apache-2.0
"""The table of a chip's own library (presil_chip_ops), called without the driver."""

import contextlib
import ctypes

from .checks import Failed

# Members of presil_chip_ops in its order, behind size, abi and name, as far as they are called here.
_PLACES = {"create": 2, "destroy": 3, "limits": 4, "activation": 34, "pack_activation": 35, "unpack_activation": 36}
_PLACES |= {"timing": 37, "work": 38, "usage": 39}


class Table:
    """A chip of that library and configuration."""

    def __init__(self, library, config: bytes):
        entry = ctypes.CDLL(str(library)).presil_chip_entry
        entry.restype = ctypes.c_void_p
        at = entry()
        self._words = ctypes.cast(at, ctypes.POINTER(ctypes.c_void_p))
        self._size = ctypes.cast(at, ctypes.POINTER(ctypes.c_uint32))[0]
        self.chip, text = ctypes.c_void_p(), ctypes.create_string_buffer(256)
        error = (ctypes.c_void_p * 2)(ctypes.addressof(text), 256)
        if code := self._of("create")(ctypes.c_char_p(config), ctypes.byref(self.chip), error):
            raise Failed(f"create({config.decode()!r}) gives {code}: {text.value.decode()}")

    def has(self, name: str) -> bool:
        place = _PLACES[name]
        return self._size >= 8 * (place + 1) and bool(self._words[place])

    def _of(self, name: str, result=ctypes.c_int):
        function = ctypes.cast(self._words[_PLACES[name]], ctypes.CFUNCTYPE(result))
        function.argtypes = None
        return function

    def call(self, name: str, *arguments) -> int:
        return self._of(name)(self.chip, *arguments)

    def close(self) -> None:
        self._of("destroy", None)(self.chip)


@contextlib.contextmanager
def table(context, library):
    """The chip's table, for the configuration that the simulator has."""
    with context.open() as device:
        config = device.info().config
    made = Table(library, config)
    try:
        yield made
    finally:
        made.close()
