# SPDX-License-Identifier: Apache-2.0
"""The C twin through ctypes (libpresil_twin_shared.so), as oracle.machine is called: a DRAM image and a list of
descriptors."""

import ctypes as C
import os
from pathlib import Path

from oracle import layout


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


def library():
    """The shared twin of the tests' build (PRESIL_BUILD_DIR, PRESIL_LIBRARY_PATH or PRESIL_TWIN_LIBRARY)."""
    path = os.environ.get("PRESIL_TWIN_LIBRARY")
    if not path:
        directory = os.environ.get("PRESIL_LIBRARY_PATH") or Path(os.environ["PRESIL_BUILD_DIR"]) / "lib"
        path = Path(directory) / "libpresil_twin_shared.so"
    lib = C.CDLL(str(path))
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

    def launch(self, program, dram, base=0, scramble=1):
        """Executes lists of 32 words on dram (bytearray, changed in place); returns the Error structure."""
        self.lib.presil_twin_scramble(self.handle, C.c_uint64(scramble))
        flat = (C.c_uint32 * (32 * len(program)))(*(w for d in program for w in d))
        host = (C.c_uint8 * len(dram)).from_buffer(dram)
        memory, error = Memory(base, len(dram), C.addressof(host)), Error()
        status = self.lib.presil_twin_execute(
            self.handle, flat, C.c_size_t(len(program)), C.byref(memory), None, None, C.byref(error)
        )
        assert (status != 0) == bool(error.code or error.deadlock)
        return error
