# SPDX-License-Identifier: Apache-2.0
"""driver/include/presil.h and presil_op.h through ctypes, as far as the checks of level chip need them."""

import ctypes as c
import os
from dataclasses import dataclass, field
from pathlib import Path

OK, EINVAL, ENOMEM, EHOSTMEM, EUNSUPPORTED, ENODEV, EBUS, EDESC, EHUNG, ECANCELLED = 0, *range(-1, -10, -1)
INT8, BF16, FP32, INT32, UINT8, INT16, FP16, INT4, FP8_E4M3, FP8_E5M2, INT64 = range(11)  # presil_dtype
NOP, COPY, CONV, CONV_TRANSPOSE, DEPTHWISE, MATMUL, WEIGHT_GRADIENT, POOL_MAX, POOL_AVERAGE, ELEMENTWISE = range(10)
REDUCTION, SOFTMAX, NORM, GATHER = range(10, 14)
KINDS = 14  # presil_op_kind
SCALE, ADD, CLAMP, QUANTIZE = range(4)  # presil_step_kind
NO_OPERAND, ENGINES, CAUSES, COUNTERS = 0xFFFFFFFF, 5, 16, 16
DMA = 1
RTL, MODEL, VERIFY = range(3)  # presil_mode


class _Options(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("mode", c.c_uint32),
        ("config", c.c_char_p),
        ("build", c.c_char_p),
        ("library", c.c_char_p),
        ("memory_bytes", c.c_uint64),
        ("memory_model", c.c_char_p),
        ("seed", c.c_uint64),
        ("hang_cycles", c.c_uint64),
        ("twin_threads", c.c_uint32),
        ("no_map", c.c_uint32),
        ("affinity", c.c_char_p),
        ("transport", c.c_char_p),
        ("transport_index", c.c_uint32),
        ("host_memory", c.c_uint32),
        ("queue_depth", c.c_uint32),
    ]


class Operand(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("data", c.c_uint64),
        ("dtype", c.c_uint32),
        ("ndim", c.c_uint32),
        ("shape", c.c_int64 * 8),
        ("stride", c.c_int64 * 8),
        ("layout", c.c_void_p),
        ("reserved", c.c_uint64 * 2),
    ]


class Attribute(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("count", c.c_uint32),
        ("reserved", c.c_uint32),
        ("integers", c.POINTER(c.c_int64)),
        ("reals", c.POINTER(c.c_double)),
        ("text", c.c_char_p),
    ]


class Step(c.Structure):
    _fields_ = [
        ("kind", c.c_uint32),
        ("input", c.c_uint32),
        ("scale", c.c_float),
        ("low", c.c_float),
        ("high", c.c_float),
        ("zero_point", c.c_int32),
        ("int_low", c.c_int32),
        ("int_high", c.c_int32),
        ("reserved", c.c_uint32 * 4),
    ]


class _Op(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("kind", c.c_uint32),
        ("label", c.c_char_p),
        ("compute", c.c_uint32),
        ("tiling", c.c_uint32),
        ("inputs", c.POINTER(Operand)),
        ("outputs", c.POINTER(Operand)),
        ("input_count", c.c_uint32),
        ("output_count", c.c_uint32),
        ("attributes", c.POINTER(Attribute)),
        ("attribute_count", c.c_uint32),
        ("step_count", c.c_uint32),
        ("steps", c.POINTER(Step)),
    ]


class Report(c.Structure):
    """presil_report up to its wall times."""

    _fields_ = [
        ("size", c.c_uint32),
        ("mode", c.c_uint32),
        ("label", c.c_char * 64),
        ("launch", c.c_uint64),
        ("macs", c.c_uint64),
        ("passes", c.c_uint64),
        ("peak_macs_per_cycle", c.c_uint64),
        ("cycles", c.c_uint64),
        ("stalls", c.c_uint64 * CAUSES * ENGINES),
        ("read_bytes", c.c_uint64),
        ("write_bytes", c.c_uint64),
        ("read_beats", c.c_uint64),
        ("write_beats", c.c_uint64),
        ("descriptors", c.c_uint64),
        ("verified", c.c_int32),
        ("status", c.c_uint32),
    ]


class _Name(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("unit", c.c_char_p),
        ("meaning", c.c_char_p),
        ("bound", c.c_char_p),
        ("flags", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class _Names(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("engine_count", c.c_uint32),
        ("cause_count", c.c_uint32),
        ("counter_count", c.c_uint32),
        ("engines", c.POINTER(_Name)),
        ("causes", c.POINTER(_Name)),
        ("counters", c.POINTER(_Name)),
    ]


class Weights(c.Structure):
    """presil_weights_desc."""

    _fields_ = [
        ("size", c.c_uint32),
        ("compute", c.c_uint32),
        ("weight", c.c_void_p),
        ("weight_dtype", c.c_uint32),
        ("groups", c.c_uint32),
        ("shape", c.c_int64 * 4),
        ("stride", c.c_int64 * 4),
        ("bias", c.c_void_p),
        ("scale", c.c_void_p),
        ("dilation", c.c_int64 * 2),
        ("input_dilation", c.c_int64 * 2),
    ]


@dataclass
class Op:
    """A presil_op, with what it points to kept alive."""

    kind: int
    inputs: list = field(default_factory=list)  # Operand
    outputs: list = field(default_factory=list)
    attributes: dict = field(default_factory=dict)  # name -> list of ints, a float, or a text
    steps: list = field(default_factory=list)
    compute: int = 0

    def c(self) -> _Op:
        inputs, outputs = (Operand * 8)(*self.inputs), (Operand * 4)(*self.outputs)
        attributes = (Attribute * max(len(self.attributes), 1))()
        for to, (name, value) in zip(attributes, self.attributes.items(), strict=False):
            to.name = name.encode()
            if isinstance(value, str):
                to.text = value.encode()
            elif isinstance(value, float):
                to.count, to.reals = 1, (c.c_double * 1)(value)
            else:
                to.count, to.integers = len(value), (c.c_int64 * len(value))(*value)
        steps = (Step * max(len(self.steps), 1))(*self.steps)
        made = _Op(c.sizeof(_Op), self.kind, None, self.compute, 0, inputs, outputs)
        made.input_count, made.output_count = len(self.inputs), len(self.outputs)
        made.attributes, made.attribute_count = attributes, len(self.attributes)
        made.steps, made.step_count = steps, len(self.steps)
        return made


def operand(name: str, dtype: int, shape, stride=None, data: int = 0) -> Operand:
    """stride: elements; None: without gaps."""
    made = Operand(name=name.encode(), data=data, dtype=dtype, ndim=len(shape))
    step = 1
    for i in reversed(range(len(shape))):
        made.shape[i] = shape[i]
        made.stride[i] = stride[i] if stride is not None else step
        step *= shape[i]
    return made


class DeviceError(RuntimeError):
    """A negative presil_status: `code`."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


def library_path() -> Path:
    """libpresil.so of this build, or of the installed package."""
    build, package = os.environ.get("PRESIL_BUILD_DIR"), Path(__file__).resolve().parents[1]
    places = [Path(build) / "lib"] if build else []
    for place in (*places, package, package / "lib", package.parents[1] / "build/fast/lib"):
        for name in ("libpresil.so", "libpresil.so.0"):
            if (place / name).exists():
                return place / name
    raise DeviceError(ENODEV, f"libpresil.so is not in {package}, nor in PRESIL_BUILD_DIR/lib: run './presil build'")


REPORT = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Report))


class Device:
    """A device of the driver on a simulator library. Errors are DeviceError, with the driver's text."""

    def __init__(self, library: Path, **options):
        self.driver = c.CDLL(str(library_path()))
        self.driver.presil_error_text.restype = c.c_char_p
        o = _Options(size=c.sizeof(_Options), library=str(library).encode(), memory_bytes=256 << 20)
        for name, value in options.items():
            setattr(o, name, value)
        self.handle = c.c_void_p()
        self._check(self.driver.presil_device_open(c.byref(o), c.byref(self.handle)))
        self.reports: list = []
        self._keep = REPORT(lambda _, report: self.reports.append(Report.from_buffer_copy(report.contents)))
        self.driver.presil_set_report(self.handle, self._keep, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.presil_device_close(self.handle)

    def _check(self, code: int) -> int:
        if code < 0:
            raise DeviceError(code, self.driver.presil_error_text().decode(errors="replace"))
        return code

    def call(self, name: str, *arguments) -> int:
        return self._check(getattr(self.driver, name)(self.handle, *arguments))

    def alloc(self, count: int) -> int:
        address = c.c_uint64()
        self.call("presil_alloc", None, None, c.c_uint64(count), c.byref(address))
        return address.value

    def free(self, address: int) -> None:
        self.call("presil_free", c.c_uint64(address))

    def poke(self, address: int, data: bytes, path: int = 0) -> None:
        buffer = c.create_string_buffer(data, len(data))
        self.call("presil_copy_to_device", None, c.c_uint64(address), buffer, c.c_uint64(len(data)), path)
        self.synchronize()

    def peek(self, address: int, count: int, path: int = 0) -> bytes:
        buffer = c.create_string_buffer(count)
        self.call("presil_copy_to_host", None, buffer, c.c_uint64(address), c.c_uint64(count), path)
        self.synchronize()
        return buffer.raw

    def move(self, to: int, source: int, count: int) -> None:
        """Through the chip's own copy."""
        self.call("presil_copy_on_device", None, c.c_uint64(to), c.c_uint64(source), c.c_uint64(count), DMA)
        self.synchronize()

    def synchronize(self) -> None:
        self.call("presil_device_synchronize")

    def reset(self) -> None:
        self.call("presil_device_reset")

    def supported(self, op: Op) -> str | None:
        """None: the chip would take it; else its reason. DeviceError for every answer but EUNSUPPORTED."""
        try:
            self.call("presil_op_supported", c.byref(op.c()))
        except DeviceError as error:
            if error.code != EUNSUPPORTED:
                raise
            return str(error) or "(no reason)"
        return None

    def enqueue(self, op: Op) -> None:
        self.call("presil_op_enqueue", None, c.byref(op.c()))

    def run(self, op: Op) -> Report | None:
        """Enqueues, waits, and returns the launch's report."""
        self.reports.clear()
        self.enqueue(op)
        self.synchronize()
        return self.reports[-1] if self.reports else None

    def place_scratch(self, address: int, count: int) -> None:
        """Where launches have their scratch memory; count 0: where the driver puts it."""
        self.call("presil_device_place_scratch", c.c_uint64(address), c.c_uint64(count))

    def scratch(self) -> int:
        """Bytes of the driver's block of scratch memory."""
        stats = (c.c_uint64 * 20)(c.sizeof(c.c_uint64) * 20)  # presil_memory_stats: size, ..., scratch
        self.call("presil_memory_get_stats", stats)
        return stats[19]

    def set_memory_model(self, model: str, seed: int = 0) -> None:
        self.call("presil_device_set_memory_model", model.encode(), c.c_uint64(seed))

    def set_watchdog(self, cycles: int) -> None:
        self.call("presil_device_set_watchdog", c.c_uint64(cycles))

    def inject(self, fault: str | None) -> None:
        self.call("presil_inject", fault.encode() if fault else None)

    def names(self) -> tuple:
        """Names of engines and of causes, as its reports number them."""
        names = _Names(size=c.sizeof(_Names))
        self.call("presil_device_get_names", c.byref(names))
        engines = [(names.engines[i].name or b"").decode() for i in range(names.engine_count)]
        return engines, [(names.causes[i].name or b"").decode() for i in range(names.cause_count)]

    def weights(self, described: Weights) -> c.c_void_p:
        made = c.c_void_p()
        self.call("presil_weights_create", c.byref(described), c.byref(made))
        return made

    def weights_operand(self, weights: c.c_void_p) -> Operand:
        made = Operand()
        self._check(self.driver.presil_weights_operand(weights, c.byref(made)))
        return made
