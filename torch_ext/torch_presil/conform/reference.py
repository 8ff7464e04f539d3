# SPDX-License-Identifier: Apache-2.0
"""What operators come to: driver/include/presil_reference.h through ctypes; and tensors as memory has them."""

import ctypes as c

import numpy

from . import driver_api as d

NUMPY = {d.INT8: numpy.int8, d.BF16: numpy.uint16, d.FP32: numpy.float32, d.INT32: numpy.int32, d.UINT8: numpy.uint8}
NUMPY |= {d.INT16: numpy.int16, d.FP16: numpy.float16, d.INT64: numpy.int64}
NUMPY |= {d.FP8_E4M3: numpy.uint8, d.FP8_E5M2: numpy.uint8}
NAMES = {d.INT8: "int8", d.BF16: "bf16", d.FP32: "fp32", d.INT32: "int32", d.UINT8: "uint8", d.INT16: "int16"}
NAMES |= {d.FP16: "fp16", d.INT64: "int64", d.FP8_E4M3: "fp8 e4m3", d.FP8_E5M2: "fp8 e5m2"}


class _Call(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("reserved", c.c_uint32),
        ("op", c.c_void_p),
        ("inputs", c.c_void_p * 8),
        ("bias", c.c_void_p),
        ("scale", c.c_void_p),
    ]


class Difference(c.Structure):
    """presil_reference_difference."""

    _fields_ = [
        ("size", c.c_uint32),
        ("reserved", c.c_uint32),
        ("compared", c.c_uint64),
        ("differing", c.c_uint64),
        ("at", c.c_int64 * 8),
        ("offset", c.c_int64),
        ("expected_bits", c.c_uint64),
        ("found_bits", c.c_uint64),
        ("expected", c.c_char * 64),
        ("found", c.c_char * 32),
    ]


class Reference:
    """The results of an operator, computed from `arrays`: one for each input, its element [0, 0, ...] first, laid out
    as the input's strides say. bias, scale: of packed weights. DeviceError where the reference can't."""

    def __init__(self, op: d.Op, arrays: list, bias=None, scale=None):
        self.driver, self.op, self.number = c.CDLL(str(d.library_path())), op, 0
        self.driver.presil_reference_output.restype = c.c_void_p
        made = op.c()
        call = _Call(size=c.sizeof(_Call), op=c.addressof(made))
        for i, array in enumerate(arrays):
            call.inputs[i] = array.ctypes.data
        call.bias = bias.ctypes.data if bias is not None else None
        call.scale = scale.ctypes.data if scale is not None else None
        self.handle, text = c.c_void_p(), c.create_string_buffer(256)
        status = self.driver.presil_reference_compute(c.byref(call), c.byref(self.handle), text, c.c_size_t(256))
        if status:
            raise d.DeviceError(status, text.value.decode())

    def of_output(self, number: int) -> "Reference":
        """The results of another output of the operator."""
        made = Reference.__new__(Reference)
        made.driver, made.op, made.number, made.whole = self.driver, self.op, number, self
        made.handle = c.c_void_p(self.driver.presil_reference_output(self.handle, number))
        return made

    def __del__(self):
        if getattr(self, "handle", None) and not hasattr(self, "whole"):
            self.driver.presil_reference_free(self.handle)

    def store(self, to: numpy.ndarray) -> numpy.ndarray:
        """Writes the results to an array that is laid out as the output; returns it."""
        self.driver.presil_reference_store(self.handle, c.c_void_p(to.ctypes.data))
        return to

    def compare(self, found: numpy.ndarray, tolerance: float | None = None) -> Difference:
        """tolerance: relative to the largest magnitude; None: as fp32 may round, in any order."""
        difference = Difference(size=c.sizeof(Difference))
        bound = c.c_double(-1 if tolerance is None else tolerance)
        address = c.c_void_p(found.ctypes.data)
        self.driver.presil_reference_compare(self.handle, address, bound, c.byref(difference))
        return difference

    def differs(self, found: numpy.ndarray, tolerance: float | None = None) -> str | None:
        """None, or the first element that is wrong."""
        difference = self.compare(found, tolerance)
        if not difference.differing:
            return None
        at = list(difference.at[: self.op.outputs[self.number].ndim])
        told = f"element {at} is {difference.found.decode()}, {difference.expected.decode()} expected"
        return f"{told} ({difference.differing} of {difference.compared} are wrong)"


def random_bits(shape, dtype: int, seed: int) -> numpy.ndarray:
    """Elements as memory has them; integers of 8 bits over their whole range, floats that bf16 holds."""
    draw = numpy.random.default_rng(seed)
    if dtype in (d.INT8, d.UINT8, d.INT16, d.INT32, d.INT64):
        kind = NUMPY[dtype]
        most = min(int(numpy.iinfo(kind).max) + 1, 2**20)
        return draw.integers(max(int(numpy.iinfo(kind).min), -most), most, shape).astype(kind)
    values = draw.standard_normal(shape).astype(numpy.float32)
    bits = values.view(numpy.uint32) & 0xFFFF0000
    if dtype == d.BF16:
        return (bits >> 16).astype(numpy.uint16)
    if dtype in (d.FP8_E4M3, d.FP8_E5M2):  # sign, any fraction, exponents about 1
        e5 = dtype == d.FP8_E5M2
        fraction, one = (2, 15) if e5 else (3, 7)
        made = draw.integers(0, 2, shape) << 7 | draw.integers(one - 2, one + 2, shape) << fraction
        return (made | draw.integers(0, 1 << fraction, shape)).astype(numpy.uint8)
    return bits.view(numpy.float32).astype(NUMPY[dtype])
