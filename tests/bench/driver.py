# SPDX-License-Identifier: Apache-2.0
"""libpresil from Python through ctypes: the driver alone, without torch. Arrays are numpy; a Device owns what it
allocates."""

import ctypes as C
import os
from pathlib import Path

import numpy as np

from . import built

MODES = {"rtl": 0, "model": 1, "verify": 2}
DTYPES = {"int8": 0, "bf16": 1, "fp32": 2, "int32": 3}
BYTES = {"int8": 1, "bf16": 2, "fp32": 4, "int32": 4}
COMPUTE = {"int8": 0, "bf16": 1, "fp32": 2}
ENGINES, CAUSES = 5, 16


class Options(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("mode", C.c_uint32),
        ("config", C.c_char_p),
        ("build", C.c_char_p),
        ("library", C.c_char_p),
        ("memory_bytes", C.c_uint64),
        ("memory_model", C.c_char_p),
        ("seed", C.c_uint64),
        ("hang_cycles", C.c_uint64),
        ("twin_threads", C.c_uint32),
        ("no_map", C.c_uint32),
        ("affinity", C.c_char_p),
        ("transport", C.c_char_p),
        ("transport_index", C.c_uint32),
    ]


class Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_uint64),
        ("dtype", C.c_uint32),
        ("ndim", C.c_uint32),
        ("shape", C.c_int64 * 4),
        ("stride", C.c_int64 * 4),
    ]


class Epilogue(C.Structure):
    _fields_ = [
        ("clamp", C.c_uint32),
        ("clamp_lo", C.c_float),
        ("clamp_hi", C.c_float),
        ("out_zero_point", C.c_int32),
        ("int_lo", C.c_int32),
        ("int_hi", C.c_int32),
        ("residual_zero_point", C.c_int32),
        ("residual_scale", C.c_float),
        ("residual", C.POINTER(Tensor)),
    ]


class WeightsDesc(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("compute", C.c_uint32),
        ("weight", C.c_void_p),
        ("weight_dtype", C.c_uint32),
        ("groups", C.c_uint32),
        ("shape", C.c_int64 * 4),
        ("stride", C.c_int64 * 4),
        ("bias", C.c_void_p),
        ("scale", C.c_void_p),
        ("dilation", C.c_int64 * 2),
        ("input_dilation", C.c_int64 * 2),
    ]


class Conv2dDesc(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("pad_value", C.c_uint32),
        ("label", C.c_char_p),
        ("input", Tensor),
        ("output", Tensor),
        ("weights", C.c_void_p),
        ("stride", C.c_int64 * 2),
        ("padding", C.c_int64 * 2),
        ("dilation", C.c_int64 * 2),
        ("input_dilation", C.c_int64 * 2),
        ("epilogue", Epilogue),
        ("tiling", C.c_uint32),
        ("reserved0", C.c_uint32),
    ]


class MatmulDesc(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("compute", C.c_uint32),
        ("label", C.c_char_p),
        ("a", Tensor),
        ("b", Tensor),
        ("out", Tensor),
        ("epilogue", Epilogue),
        ("tiling", C.c_uint32),
        ("reserved0", C.c_uint32),
    ]


class Report(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("mode", C.c_uint32),
        ("label", C.c_char * 64),
        ("launch", C.c_uint64),
        ("macs", C.c_uint64),
        ("passes", C.c_uint64),
        ("peak_macs_per_cycle", C.c_uint64),
        ("cycles", C.c_uint64),
        ("stalls", (C.c_uint64 * CAUSES) * ENGINES),
        ("read_bytes", C.c_uint64),
        ("write_bytes", C.c_uint64),
        ("read_beats", C.c_uint64),
        ("write_beats", C.c_uint64),
        ("descriptors", C.c_uint64),
        ("verified", C.c_int32),
        ("status", C.c_uint32),
        ("sim_ns", C.c_uint64),
        ("twin_ns", C.c_uint64),
        ("host_ns", C.c_uint64),
        ("fill", C.c_uint64),
        ("drain", C.c_uint64),
        ("difference", C.c_char * 256),
    ]


REPORT_FN = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(Report))


class PresilError(RuntimeError):
    def __init__(self, status: int, text: str):
        super().__init__(f"status {status}: {text}")
        self.status = status


def library_directory() -> Path:
    return Path(os.environ.get("PRESIL_LIBRARY_PATH") or Path(os.environ["PRESIL_BUILD_DIR"]) / "lib")


def _load():
    lib = C.CDLL(str(built.library("libpresil.so")))
    lib.presil_error_text.restype = C.c_char_p
    lib.presil_host_pointer.restype = C.c_void_p
    lib.presil_host_pointer.argtypes = [C.c_void_p, C.c_uint64, C.c_uint64]
    lib.presil_copy_to_device.argtypes = [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p, C.c_uint64, C.c_int]
    lib.presil_copy_to_host.argtypes = [C.c_void_p, C.c_void_p, C.c_void_p, C.c_uint64, C.c_uint64, C.c_int]
    lib.presil_device_start.argtypes = [C.c_void_p]
    lib.presil_free.argtypes = [C.c_void_p, C.c_uint64]
    lib.presil_alloc.argtypes = [C.c_void_p, C.c_void_p, C.c_void_p, C.c_uint64, C.POINTER(C.c_uint64)]
    for name in ("presil_device_close", "presil_weights_destroy"):
        getattr(lib, name).argtypes = [C.c_void_p]
        getattr(lib, name).restype = None
    return lib


LIB = None


class Device:
    """One device; use as a context. launch reports of the last synchronize() are in `reports`."""

    def __init__(
        self,
        config: str,
        mode: str = "verify",
        build: str | None = "fast",
        memory_model: str = "",
        seed: int = 0,
        memory_bytes: int = 1 << 30,
        no_map: bool = False,
        transport: str = "inproc",
        library: str | None = None,
    ):
        global LIB
        LIB = LIB or _load()
        os.environ.setdefault("PRESIL_LIBRARY_PATH", str(library_directory()))
        self.handle, self.reports, self.buffers = C.c_void_p(), [], []
        options = Options(
            C.sizeof(Options),
            MODES[mode],
            config.encode(),
            build and build.encode(),
            library and library.encode(),
            memory_bytes,
            memory_model.encode() or None,
            seed,
            0,
            0,
            int(no_map),
            None,
            transport.encode(),
            0,
        )
        self.check(LIB.presil_device_open(C.byref(options), C.byref(self.handle)))
        self.check(
            LIB.presil_device_start(self.handle) if transport != "inproc" else 0
        )  # it may not map: known once it is open
        self._callback = REPORT_FN(lambda _, r: self.reports.append(Report.from_buffer_copy(r.contents)))
        LIB.presil_set_report(self.handle, self._callback, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self) -> None:
        if self.handle:
            LIB.presil_device_close(self.handle)
            self.handle = None

    @staticmethod
    def check(status: int) -> None:
        if status:
            raise PresilError(status, LIB.presil_error_text().decode())

    def alloc(self, size: int) -> int:
        out = C.c_uint64()
        self.check(LIB.presil_alloc(self.handle, None, None, max(size, 1), C.byref(out)))
        self.buffers.append(out.value)
        return out.value

    def set_timeout(self, cycles: int) -> None:
        """The most that each launch may take."""
        self.check(LIB.presil_device_set_timeout(self.handle, C.c_uint64(cycles)))

    def release(self) -> None:
        """Frees everything allocated since the last release."""
        for address in self.buffers:
            self.check(LIB.presil_free(self.handle, address))
        self.buffers.clear()

    def put(self, array: np.ndarray) -> int:
        array = np.ascontiguousarray(array)
        address = self.alloc(array.nbytes)
        host = LIB.presil_host_pointer(self.handle, address, array.nbytes)
        if host:
            C.memmove(host, array.ctypes.data, array.nbytes)
        elif array.nbytes:
            self.check(LIB.presil_copy_to_device(self.handle, None, address, array.ctypes.data, array.nbytes, 0))
            self.check(LIB.presil_device_synchronize(self.handle))
        return address

    def view(self, address: int, shape, dtype) -> np.ndarray:
        """A copy of device memory."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        buffer, host = (C.c_char * size)(), LIB.presil_host_pointer(self.handle, address, size)
        if host:
            C.memmove(buffer, host, size)
        elif size:
            self.check(LIB.presil_copy_to_host(self.handle, None, buffer, address, size, 0))
            self.check(LIB.presil_device_synchronize(self.handle))
        return np.frombuffer(bytes(buffer), dtype=dtype).reshape(shape)

    def synchronize(self) -> list:
        """Waits; the reports since the last call."""
        try:
            self.check(LIB.presil_device_synchronize(self.handle))
        finally:
            taken, self.reports[:] = list(self.reports), []
        return taken

    def weights(
        self,
        compute: str,
        weight: np.ndarray,
        weight_dtype: str,
        groups=1,
        bias=None,
        scale=None,
        dilation=(1, 1),
        input_dilation=(1, 1),
    ) -> C.c_void_p:
        """weight: (O, I/groups, KH, KW) of bit patterns, any strides; bias and scale: arrays of 4-byte patterns or
        None."""
        bias, scale = (None if v is None else np.ascontiguousarray(v) for v in (bias, scale))
        strides = [s // weight.itemsize for s in weight.strides]
        desc = WeightsDesc(
            C.sizeof(WeightsDesc),
            COMPUTE[compute],
            weight.ctypes.data,
            DTYPES[weight_dtype],
            groups,
            (C.c_int64 * 4)(*weight.shape),
            (C.c_int64 * 4)(*strides),
            None if bias is None else bias.ctypes.data,
            None if scale is None else scale.ctypes.data,
            (C.c_int64 * 2)(*dilation),
            (C.c_int64 * 2)(*input_dilation),
        )
        out = C.c_void_p()
        self.check(LIB.presil_weights_create(self.handle, C.byref(desc), C.byref(out)))
        return out

    def weights_free(self, weights) -> None:
        LIB.presil_weights_destroy(weights)

    def conv2d(self, desc: Conv2dDesc) -> None:
        desc.size = C.sizeof(Conv2dDesc)
        self.check(LIB.presil_conv2d(self.handle, None, C.byref(desc)))

    def matmul(self, desc: MatmulDesc) -> None:
        desc.size = C.sizeof(MatmulDesc)
        self.check(LIB.presil_matmul(self.handle, None, C.byref(desc)))


def tensor(address: int, dtype: str, shape, stride=None) -> Tensor:
    """stride in elements; None: dense."""
    if stride is None:
        stride = [int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))]
    pad = [0] * (4 - len(shape))
    return Tensor(address, DTYPES[dtype], len(shape), (C.c_int64 * 4)(*shape, *pad), (C.c_int64 * 4)(*stride, *pad))
