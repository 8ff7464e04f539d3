# SPDX-License-Identifier: Apache-2.0
"""Mode VERIFY of a chip without an executor: each launch is compared with the plain-C reference. The chip is
tests/chip_stub/any_chip.c on the stub's RTL."""

import ctypes
import os
import subprocess
from pathlib import Path

import numpy
import pytest
from conform import driver_api as d
from conftest import ROOT

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
RTL, MODEL, VERIFY = range(3)
EMISMATCH = -11


class Verified(ctypes.Structure):
    """presil_verified."""

    _fields_ = [("size", ctypes.c_uint32), ("reserved0", ctypes.c_uint32)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("compared", "differed", "not_compared")]


@pytest.fixture(scope="session")
def chip(tmp_path_factory):
    out = tmp_path_factory.mktemp("any") / "libpresil_chip_stub.so"
    command = ["cc", "-std=c11", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(out)]
    command += [f"-I{ROOT}/driver/include", f"-I{ROOT}/tests/c", str(ROOT / "tests/chip_stub/any_chip.c")]
    command += [f"-L{BUILD}/lib", "-lpresil", f"-Wl,-rpath,{BUILD}/lib"]
    subprocess.run(command, check=True)
    return out


@pytest.fixture
def opened(chip, monkeypatch):
    """opened(mode, PRESIL_ANY) -> a device on the chip."""
    devices = []

    def make(mode=VERIFY, faults="", **options):
        monkeypatch.setenv("PRESIL_ANY", faults)
        monkeypatch.setenv("PRESIL_CHIP_LIBRARY", str(chip))
        devices.append(d.Device(BUILD / "lib" / "libpresil_sim_stub_fast.so", mode=mode, **options))
        return devices[-1]

    yield make
    for device in devices:
        device.__exit__()


def counted(device):
    found = Verified(size=ctypes.sizeof(Verified))
    device.call("presil_device_get_verified", ctypes.byref(found))
    return found.compared, found.differed, found.not_compared


def placed(device, name, array, dtype):
    address = device.alloc(max(array.nbytes, 1))
    device.poke(address, array.tobytes())
    return d.operand(name, dtype, array.shape, None, address)


def product(device, dtype):
    draw = numpy.random.default_rng(1)
    if dtype == d.FP32:
        a, b = (draw.standard_normal(s).astype(numpy.float32) for s in ((1, 5, 7), (1, 7, 3)))
        out, steps, compute = numpy.float32, [], 2
    else:
        a, b = (draw.integers(-128, 128, s).astype(numpy.int8) for s in ((1, 5, 7), (1, 7, 3)))
        out, compute = numpy.int8, 0
        steps = [d.Step(d.SCALE, d.NO_OPERAND, 0.002), d.Step(d.QUANTIZE, d.NO_OPERAND, 0, 0, 0, 3, -128, 127)]
    output = placed(device, "output", numpy.zeros((1, 5, 3), out), dtype)
    return d.Op(d.MATMUL, [placed(device, "a", a, dtype), placed(device, "b", b, dtype)], [output], {}, steps, compute)


@pytest.mark.parametrize("dtype", [d.INT8, d.FP32])
@pytest.mark.parametrize("no_map", [0, 1])
def test_a_right_launch_is_verified(opened, dtype, no_map):
    device = opened(no_map=no_map)
    assert device.run(product(device, dtype)).verified == 1
    assert counted(device) == (1, 0, 0)


@pytest.mark.parametrize(
    "dtype, tolerance", [(d.INT8, ""), (d.FP32, ""), (d.FP32, "rough=1e-3"), (d.INT8, "rough=0.1")]
)
def test_a_wrong_bit_is_found(opened, dtype, tolerance):
    """Integers are exact whatever tolerance a chip declares."""
    device = opened(faults=f"{tolerance} wrong=matmul")
    op = product(device, dtype)
    with pytest.raises(
        d.DeviceError, match=r"matmul: chip and reference differ: output \[0, 0, 0\] is .* expected"
    ) as e:
        device.run(op)
    assert e.value.code == EMISMATCH and "1 of 15 elements differ (at 0x" in str(e.value)
    assert device.reports[-1].verified == 0 and counted(device) == (1, 1, 0)
    os.environ["PRESIL_ANY"] = tolerance
    assert device.run(op).verified == 1 and counted(device) == (2, 1, 0)


@pytest.mark.parametrize("name", ["mean", "rstd"])
def test_each_of_several_outputs_is_compared(opened, name):
    device = opened()
    x = placed(device, "input", numpy.random.default_rng(3).standard_normal((3, 8)).astype(numpy.float32), d.FP32)
    out = placed(device, "output", numpy.zeros((3, 8), numpy.float32), d.FP32)
    others = [placed(device, n, numpy.zeros((3, 1), numpy.float32), d.FP32) for n in ("mean", "rstd")]
    op = d.Op(d.NORM, [x], [out, *others], {"function": "layer"})
    assert device.run(op).verified == 1
    os.environ["PRESIL_ANY"] = f"spoilt={name}"
    with pytest.raises(d.DeviceError, match=rf"norm: chip and reference differ: {name} \[0, 0\] is .* expected"):
        device.run(op)


def test_an_operator_that_writes_over_its_input_is_compared_with_the_input_as_it_was(opened):
    device = opened()
    x = placed(device, "input", numpy.arange(-8, 8, dtype=numpy.int8), d.INT8)
    op = d.Op(d.ELEMENTWISE, [x], [d.operand("output", d.INT8, (16,), None, x.data)], {"function": "neg"})
    assert [device.run(op).verified for _ in range(3)] == [1, 1, 1]
    assert list(numpy.frombuffer(device.peek(x.data, 16), numpy.int8)) == list(range(8, -8, -1))


def test_an_operator_over_its_input_that_is_computed_twice_is_found(opened):
    device = opened(faults="twice")
    x = placed(device, "input", numpy.arange(-8, 8, dtype=numpy.int8), d.INT8)
    op = d.Op(d.ELEMENTWISE, [x], [d.operand("output", d.INT8, (16,), None, x.data)], {"function": "neg"})
    with pytest.raises(d.DeviceError, match="elementwise: chip and reference differ"):
        device.run(op)


def test_a_chip_that_does_not_say_in_place_is_not_asked_for_it(opened):
    device = opened(faults="apart")
    x = placed(device, "input", numpy.arange(-8, 8, dtype=numpy.int8), d.INT8)
    inside, beside = (d.operand("output", d.INT8, (16,), None, at) for at in (x.data, device.alloc(4096)))
    with pytest.raises(d.DeviceError, match='elementwise: an operand is the output, and the chip "stub" doesn') as e:
        device.run(d.Op(d.ELEMENTWISE, [x], [inside], {"function": "neg"}))
    assert e.value.code == d.EUNSUPPORTED and counted(device) == (0, 0, 0)
    assert device.run(d.Op(d.ELEMENTWISE, [x], [beside], {"function": "neg"})).verified == 1


def test_a_stray_write_is_found(opened):
    device = opened(faults="stray")
    with pytest.raises(d.DeviceError, match="stray write: the chip wrote 4096 bytes that its plan doesn't name"):
        device.run(product(device, d.INT8))


def described(w, bias, scale):
    """presil_weights_desc of w [O, KH, KW, C]."""
    o, kh, kw, c = w.shape
    made = d.Weights(size=ctypes.sizeof(d.Weights), compute=0, weight=w.ctypes.data, weight_dtype=d.INT8, groups=1)
    made.kept = w, bias, scale
    made.bias, made.scale = bias.ctypes.data, scale.ctypes.data
    made.shape[:], made.stride[:] = (o, c, kh, kw), (kh * kw * c, 1, kw * c, c)
    made.dilation[:], made.input_dilation[:] = (1, 1), (1, 1)
    return made


def packed(device):
    """A convolution with packed weights, and what to update them with."""
    draw = numpy.random.default_rng(2)
    w = draw.integers(-128, 128, (4, 3, 3, 2)).astype(numpy.int8)
    made = described(
        w, numpy.array([100, -7, 0, 9], numpy.int32), numpy.array([0.01, 0.02, 0.005, 0.01], numpy.float32)
    )
    weights = device.weights(made)
    x = placed(device, "input", draw.integers(-128, 128, (1, 6, 6, 2)).astype(numpy.int8), d.INT8)
    out = placed(device, "output", numpy.zeros((1, 4, 4, 4), numpy.int8), d.INT8)
    steps = [d.Step(d.QUANTIZE, d.NO_OPERAND, 0, 0, 0, 1, -128, 127)]
    return weights, d.Op(d.CONV, [x, device.weights_operand(weights)], [out], {}, steps)


def test_packed_weights_are_known_as_they_were_given(opened):
    device = opened()
    weights, op = packed(device)
    assert device.run(op).verified == 1
    other = described(numpy.ones((4, 3, 3, 2), numpy.int8), numpy.zeros(4, numpy.int32), numpy.ones(4, numpy.float32))
    device._check(device.driver.presil_weights_update(weights, ctypes.byref(other)))
    assert device.run(op).verified == 1
    os.environ["PRESIL_ANY"] = "wrong=conv"
    with pytest.raises(d.DeviceError, match=r"conv: chip and reference differ: output \[0, 0, 0, 0\]"):
        device.run(op)
    device.driver.presil_weights_destroy(weights)


def test_what_is_not_known_is_not_compared_and_counted(opened):
    device = opened(RTL)
    weights, op = packed(device)
    assert device.run(op).verified == -1 and counted(device) == (0, 0, 0)
    device.call("presil_device_set_mode", VERIFY)
    assert device.run(op).verified == -1  # packed in another mode
    assert counted(device) == (0, 0, 1)
    source, target = device.alloc(4096), device.alloc(4096)
    device.move(target, source, 4096)
    assert device.reports[-1].verified == -1 and counted(device) == (0, 0, 2)
    assert device.run(product(device, d.INT8)).verified == 1 and counted(device) == (1, 0, 2)
    device.driver.presil_weights_destroy(weights)


def test_recorded_operators_are_compared(opened):
    device = opened()
    recorded, products = ctypes.c_void_p(), [product(device, dtype) for dtype in (d.INT8, d.FP32)]
    device.call("presil_record_begin", None)
    for op in products:
        device.call("presil_op_enqueue", None, ctypes.byref(op.c()))
    device.call("presil_record_end", None, ctypes.byref(recorded))
    for times in (1, 2):
        device._check(device.driver.presil_list_submit(recorded, None))
        device.synchronize()
        assert counted(device) == (2 * times, 0, 0)
    os.environ["PRESIL_ANY"] = "wrong=matmul"
    device._check(device.driver.presil_list_submit(recorded, None))
    with pytest.raises(d.DeviceError, match="chip and reference differ"):
        device.synchronize()
    device.driver.presil_list_destroy(recorded)


def test_there_is_no_mode_model(opened):
    with pytest.raises(d.DeviceError, match="no model in C: only modes RTL and VERIFY work"):
        opened().call("presil_device_set_mode", MODEL)


def test_a_recorded_operator_is_not_compared_with_weights_that_it_no_longer_has(opened):
    device = opened()
    weights, op = packed(device)
    recorded = ctypes.c_void_p()
    device.call("presil_record_begin", None)
    device.call("presil_op_enqueue", None, ctypes.byref(op.c()))
    device.call("presil_record_end", None, ctypes.byref(recorded))

    def submit():
        device._check(device.driver.presil_list_submit(recorded, None))
        device.synchronize()
        return device.reports[-1].verified

    assert submit() == 1
    other = described(numpy.ones((4, 3, 3, 2), numpy.int8), numpy.zeros(4, numpy.int32), numpy.ones(4, numpy.float32))
    device._check(device.driver.presil_weights_update(weights, ctypes.byref(other)))
    assert submit() == -1 and counted(device) == (1, 0, 1)
    assert device.run(op).verified == 1
    device.driver.presil_list_destroy(recorded)
    device.driver.presil_weights_destroy(weights)
