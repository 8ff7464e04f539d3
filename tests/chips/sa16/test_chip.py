# SPDX-License-Identifier: Apache-2.0
"""libpresil_chip_sa16.so through the driver alone, RTL against twin and both against integers: every tiling of a layer,
strided tensors, pooling, copies, what is refused, a bus error."""

import ctypes as C
import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("PRESIL_BUILD_DIR", str(Path(__file__).resolve().parents[3] / "build" / "check"))

from bench import driver  # noqa: E402
from operation import Layer  # noqa: E402
from rtl_bench import POOL_AVERAGE, POOL_MAX  # noqa: E402

OP_POOL_MAX, OP_POOL_AVERAGE, EUNSUPPORTED, EBUS = 7, 8, -4, -6


class Operand(C.Structure):
    _fields_ = [("name", C.c_char_p), ("data", C.c_uint64), ("dtype", C.c_uint32), ("ndim", C.c_uint32)]
    _fields_ += [("shape", C.c_int64 * 8), ("stride", C.c_int64 * 8), ("layout", C.c_void_p), ("r", C.c_uint64 * 2)]


class Attribute(C.Structure):
    _fields_ = [("name", C.c_char_p), ("count", C.c_uint32), ("r", C.c_uint32), ("integers", C.POINTER(C.c_int64))]
    _fields_ += [("reals", C.c_void_p), ("text", C.c_char_p)]


class Op(C.Structure):
    _fields_ = [("size", C.c_uint32), ("kind", C.c_uint32), ("label", C.c_char_p), ("compute", C.c_uint32)]
    _fields_ += [("tiling", C.c_uint32), ("inputs", C.c_void_p), ("outputs", C.c_void_p), ("n_in", C.c_uint32)]
    _fields_ += [("n_out", C.c_uint32), ("attributes", C.c_void_p), ("n_attributes", C.c_uint32)]
    _fields_ += [("n_steps", C.c_uint32), ("steps", C.c_void_p)]


@pytest.fixture
def device():
    with driver.Device("sa16", "verify") as d:
        yield d


def done(device):
    reports = device.synchronize()
    assert reports and all(r.verified == 1 and r.cycles > 0 for r in reports), [r.verified for r in reports]
    for r in reports:
        assert all(sum(r.stalls[unit]) == r.cycles for unit in range(3))
    return reports


def tensor(address, shape, stride=None):
    stride = stride or [int(np.prod(shape[d + 1 :])) for d in range(4)]
    return driver.Tensor(address, 0, 4, (C.c_int64 * 4)(*shape), (C.c_int64 * 4)(*stride))


def enqueue_pool(device, kind, x, k, stride, padding, tiling=0, **attributes):
    h, w = ((x.shape[1 + d] + 2 * padding[d] - k[d]) // stride[d] + 1 for d in range(2))
    out_shape, out = (x.shape[0], h, w, x.shape[3]), device.alloc(x.shape[0] * h * w * x.shape[3])
    views = []
    for name, at, shape in ((b"input", device.put(x), x.shape), (b"output", out, out_shape)):
        v = Operand(name, at, 0, 4)
        v.shape[:4], v.stride[:4] = shape, [int(np.prod(shape[d + 1 :])) for d in range(4)]
        views.append(v)
    given = {"kernel": k, "stride": stride, "padding": padding, **attributes}
    values = [(C.c_int64 * len(v))(*v) for v in given.values()]
    names = (Attribute * len(given))(*[Attribute(n.encode(), len(v), 0, v) for n, v in zip(given, values, strict=True)])
    op = Op(C.sizeof(Op), kind, b"pool", 0, tiling, C.addressof(views[0]), C.addressof(views[1]), 1, 1)
    op.attributes, op.n_attributes = C.addressof(names), len(given)
    driver.LIB.presil_op_enqueue.argtypes = [C.c_void_p, C.c_void_p, C.c_void_p]
    device.check(driver.LIB.presil_op_enqueue(device.handle, None, C.addressof(op)))
    done(device)
    return device.view(out, out_shape, np.int8)


@pytest.mark.parametrize("kind", (OP_POOL_MAX, OP_POOL_AVERAGE))
def test_pooling(device, kind):
    rng = np.random.default_rng(kind)
    cases = [((1, 7, 7, 40), (7, 7), (1, 1), (0, 0)), ((2, 112, 20, 17), (3, 3), (2, 2), (1, 1))]
    cases += [((1, 25, 5, 64), (25, 5), (1, 1), (0, 0)), ((3, 9, 70, 100), (2, 2), (2, 2), (0, 0))]
    for shape, k, stride, padding in cases:
        x = rng.integers(-128, 128, shape).astype(np.int8)
        for tiling in (0, 1, 2):
            found = enqueue_pool(device, kind, x, k, stride, padding, tiling)
            for n in range(shape[0]):
                layer = Layer(
                    x[n].astype(int),
                    POOL_MAX if kind == OP_POOL_MAX else POOL_AVERAGE,
                    kernel=k,
                    stride=stride,
                    padding=padding,
                    pad_value=-128 if kind == OP_POOL_MAX else 0,
                    bias=np.zeros(shape[3], int),
                    multiplier=np.full(shape[3], 1 << 16),
                    shift=np.zeros(shape[3], int),
                )
                if kind == OP_POOL_AVERAGE:
                    mantissa, exponent = np.frexp(1.0 / (k[0] * k[1]))
                    layer.multiplier[:], layer.shift[:] = round(mantissa * 2**31), 15 - exponent
                assert (found[n] == layer.expected()).all(), (shape, k, tiling)


def conv(device, x, weight, scale, bias, stride, padding, tiling=0, channels=None):
    """channels: (of the buffer that the output is a slice of, where it begins)."""
    n, h, w, _ = x.shape
    o, kh, kw, i = weight.shape
    out_h, out_w = (h + 2 * padding - kh) // stride + 1, (w + 2 * padding - kw) // stride + 1
    total, first = channels or (o, 0)
    buffer = device.put(np.full((n, out_h, out_w, total), 0x55, np.int8))
    desc = driver.WeightsDesc(C.sizeof(driver.WeightsDesc), driver.COMPUTE["int8"], weight.ctypes.data, 0, 1)
    desc.shape[:], desc.stride[:] = (o, i, kh, kw), (kh * kw * i, 1, kw * i, i)
    desc.bias, desc.scale = bias.ctypes.data, scale.ctypes.data
    desc.dilation[:] = desc.input_dilation[:] = (1, 1)
    weights = C.c_void_p()
    device.check(driver.LIB.presil_weights_create(device.handle, C.byref(desc), C.byref(weights)))
    try:
        c = driver.Conv2dDesc(C.sizeof(driver.Conv2dDesc), 3, b"conv")
        strides = [out_h * out_w * total, out_w * total, total, 1]
        c.input, c.output = tensor(device.put(x), x.shape), tensor(buffer + first, (n, out_h, out_w, o), strides)
        c.weights, c.tiling = weights, tiling
        c.stride[:], c.padding[:] = (stride, stride), (padding, padding)
        c.dilation[:] = c.input_dilation[:] = (1, 1)
        c.epilogue.out_zero_point = 2
        device.check(driver.LIB.presil_conv2d(device.handle, None, C.byref(c)))
        reports = done(device)
    finally:
        driver.LIB.presil_weights_destroy(weights)
    found = device.view(buffer, (n, out_h, out_w, total), np.int8)
    beside = np.delete(found, np.s_[first : first + o], axis=3)
    assert (beside == 0x55).all(), "bytes beside the output were written"
    return found[:, :, :, first : first + o], reports


SHAPES = {  # x, weight, stride, padding
    "tiles of rows": ((1, 40, 56, 64), (40, 3, 3, 64), 1, 1),
    "tiles of blocks": ((1, 7, 7, 300), (70, 3, 3, 300), 1, 1),
    "tiles of columns": ((1, 3, 900, 40), (20, 3, 3, 40), 1, 1),
    "images": ((3, 9, 9, 20), (33, 3, 3, 20), 2, 1),
    "joined pixels": ((5, 3, 3, 24), (30, 1, 1, 24), 1, 0),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_tiling_gives_the_same(device, name):
    shape, kernel, stride, padding = SHAPES[name]
    rng = np.random.default_rng(len(name))
    x, weight = (rng.integers(-128, 128, s).astype(np.int8) for s in (shape, kernel))
    scale = (rng.uniform(0.3, 1, kernel[0]) / (100 * np.sqrt(np.prod(kernel[1:])))).astype(np.float32)
    bias = rng.integers(-9999, 9999, kernel[0]).astype(np.int32)
    mantissa, exponent = np.frexp(scale.astype(np.float64))
    wanted = [
        Layer(
            x[n].astype(int), weight=weight.astype(int), stride=(stride,) * 2, padding=(padding,) * 2, pad_value=3,
            bias=bias, multiplier=(mantissa * 2**31).astype(np.int64), shift=15 - exponent, zero_point=2,
        ).expected()
        for n in range(shape[0])
    ]  # fmt: skip
    operations = set()
    for tiling in (0, 1, 2, 3, 1000):
        try:
            channels = (kernel[0] + 9, 4) if tiling == 2 else None
            found, reports = conv(device, x, weight, scale, bias, stride, padding, tiling, channels)
        except driver.PresilError as error:
            assert error.status == EUNSUPPORTED and tiling > 1 and "tiling" in str(error), error
            continue
        assert (found == np.stack(wanted)).all(), tiling
        operations.add(reports[0].descriptors)
        device.release()
    assert len(operations) > 1 or name in ("images", "joined pixels"), operations


def packs(device):
    stats = (C.c_uint64 * 19)(C.sizeof(C.c_uint64) * 19)  # presil_memory_stats
    driver.LIB.presil_memory_get_stats.argtypes = [C.c_void_p, C.c_void_p]
    device.check(driver.LIB.presil_memory_get_stats(device.handle, stats))
    return stats[13]


@pytest.mark.parametrize(("rows", "expected"), ((1, 0), (2, 1)))
def test_a_row_of_pixels_stays_as_it_lies(device, rows, expected):
    """A linear layer's batch is a row of pixels: planes of it are more runs for the same bytes."""
    x, weight = np.ones((1, rows, 4, 64), np.int8), np.ones((16, 1, 1, 64), np.int8)
    conv(device, x, weight, np.full(16, 2.0**-8, np.float32), np.zeros(16, np.int32), 1, 0)
    assert packs(device) == expected


def test_copies(device):
    data = np.random.default_rng(3).integers(0, 256, 100_000).astype(np.uint8)
    source, target = device.put(data), device.alloc(data.size)
    size = data.size // 16 * 16
    copy = driver.LIB.presil_copy_on_device
    copy.argtypes = [C.c_void_p, C.c_void_p, C.c_uint64, C.c_uint64, C.c_uint64, C.c_int]
    device.check(copy(device.handle, None, target, source, size, 1))
    done(device)
    assert (device.view(target, (size,), np.uint8) == data[:size]).all()


def test_a_sum_that_is_too_long_is_refused(device):
    x, weight = np.zeros((1, 1, 1, 8193), np.int8), np.zeros((1, 1, 1, 8193), np.int8)
    with pytest.raises(driver.PresilError, match="8192 products") as caught:
        conv(device, x, weight, np.ones(1, np.float32), np.zeros(1, np.int32), 1, 0)
    assert caught.value.status == EUNSUPPORTED
    x, weight = np.ones((1, 1, 1, 8192), np.int8), np.ones((1, 1, 1, 8192), np.int8)
    found, _ = conv(device, x, weight, np.full(1, 2.0**-8, np.float32), np.zeros(1, np.int32), 1, 0)
    assert found.item() == 34


def test_a_bus_error_is_told_and_the_device_goes_on():
    with driver.Device("sa16", "rtl") as device:
        x = np.ones((1, 4, 4, 4), np.int8)  # of so few channels, the chip takes the tensor as it lies
        at = device.put(x)
        device.release()
        device.check(driver.LIB.presil_inject(device.handle, f"slverr@{at:#x}".encode()))
        with pytest.raises(driver.PresilError, match="bus error of a write") as caught:
            enqueue_pool(device, OP_POOL_MAX, x, (1, 1), (1, 1), (0, 0))
        assert caught.value.status == EBUS
        device.check(driver.LIB.presil_inject(device.handle, None))
        device.synchronize()
        out = device.alloc(16)
        device.check(driver.LIB.presil_copy_on_device(device.handle, None, out, device.put(x), 16, 1))
        assert [r.status for r in device.synchronize()] == [0]
