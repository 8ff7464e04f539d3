# SPDX-License-Identifier: Apache-2.0
"""The C twin through ctypes (libpresil_twin_shared.so), as oracle.machine is called: a DRAM image and a list of
descriptors."""

import ctypes as C
import os

from oracle import layout

from . import built


class Config(C.Structure):
    _fields_ = [("name", C.c_char_p)] + [
        (n, C.c_uint32)
        for n in ("lanes", "cells", "word_bytes", "banks", "bank_words", "acc_rows", "clock_mhz", "hash")
    ]


class Memory(C.Structure):
    _fields_ = [("base", C.c_uint64), ("bytes", C.c_uint64), ("host", C.c_void_p)]


class Error(C.Structure):
    _fields_ = [
        ("code", C.c_int),
        ("index", C.c_uint32),
        ("address", C.c_uint64),
        ("deadlock", C.c_int),
        ("wait_mask", C.c_uint32),
        ("text", C.c_char * 160),
    ]


WRITE = C.CFUNCTYPE(None, C.c_void_p, C.c_uint64, C.c_uint64, C.c_uint32)


def library():
    """The shared twin of the tests' build, or PRESIL_TWIN_LIBRARY."""
    lib = C.CDLL(os.environ.get("PRESIL_TWIN_LIBRARY") or str(built.library("libpresil_twin_shared.so")))
    lib.presil_twin_create.restype = C.c_void_p
    for name in ("create", "destroy", "threads", "simd", "scramble", "execute"):
        getattr(lib, f"presil_twin_{name}").argtypes = None
    return lib


class Twin:
    def __init__(self, config, simd=None, threads=1):
        self.lib = library()
        values = layout.generated().CONFIGS[config]
        self.config = Config(config.encode(), *(values[n] for n, _ in Config._fields_[1:]))
        self.handle = C.c_void_p(self.lib.presil_twin_create(C.byref(self.config)))
        assert self.handle, "presil_twin_create failed"
        self.has_simd = self.lib.presil_twin_simd(self.handle, simd and simd.encode()) == 0
        self.lib.presil_twin_threads(self.handle, C.c_uint(threads))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.presil_twin_destroy(self.handle)

    def set_windows(self, windows):
        """DMA windows: four (WINDOWn_FIRST, WINDOWn_LAST)."""
        values = [w[0] for w in windows] + [w[1] for w in windows]
        self.lib.presil_twin_set_windows(self.handle, (C.c_uint32 * 8)(*values))

    def launch(self, program, dram, base=0, scramble=1):
        """Executes lists of 32 words on dram (bytearray, changed in place); returns the Error structure."""
        host = (C.c_uint8 * len(dram)).from_buffer(dram)
        raw = b"".join(map(layout.to_bytes, program))
        return self.execute(raw, C.addressof(host), base, len(dram), scramble)

    def execute(self, raw, host, base, size, scramble=1, written=None):
        """Executes descriptors of 128 bytes each on `size` bytes of DRAM at host address `host`, device address
        `base`. Appends (address, bytes) of every write to `written`."""
        self.lib.presil_twin_scramble(self.handle, C.c_uint64(scramble))
        memory, error = Memory(base, size, host), Error()
        log = None if written is None else WRITE(lambda _, address, count, __: written.append((address, count)))
        status = self.lib.presil_twin_execute(
            self.handle, raw, C.c_size_t(len(raw) // 128), C.byref(memory), log, None, C.byref(error)
        )
        assert (status != 0) == bool(error.code or error.deadlock)
        return error
