# SPDX-License-Identifier: Apache-2.0
"""Runs generated cases through the driver: lays the operands out in device memory, enqueues, and compares every
output bit that the oracle gives."""

import ctypes as C
import struct
from dataclasses import dataclass

import numpy as np

from bench import driver
from .reference import expected, sample

OUT = {"INT8": "int8", "BF16": "bf16", "FP32": "fp32", "RAW32": "int32"}
NUMPY = {"int8": np.uint8, "bf16": np.uint16, "fp32": np.uint32, "int32": np.uint32}
COMPUTE = {"int8": "int8", "bf16": "bf16", "fp32": "fp32", "fp32_bf16": "bf16"}
OPERAND = {"int8": "int8", "bf16": "bf16", "fp32": "fp32", "fp32_bf16": "fp32"}
UNSUPPORTED = -4


@dataclass
class Counts:
    """Of a sweep: cases run, output elements that RTL and twin agreed on, elements that the oracle confirmed, layouts
    that the chip can't load."""

    cases: int = 0
    elements: int = 0
    confirmed: int = 0
    relaid: int = 0


class OracleDiffers(AssertionError):
    """RTL and twin agree on other bits than the oracle's. right: the whole output as it should be."""

    def __init__(self, text: str, right: np.ndarray):
        super().__init__(text)
        self.right = right


def to_float(pattern: int) -> float:
    return struct.unpack("<f", struct.pack("<I", pattern))[0]


class Run:
    """One case on one device. Keeps what ctypes only points to alive."""

    def __init__(self, device: driver.Device, case, label: str = "sweep"):
        self.device, self.case, self.data, self.label = device, case, case.data(), label.encode()
        self.out_type = OUT[case.epilogue.out]
        self.keep, self.address = [], 0  # address: of the output

    def in_memory(self, output: np.ndarray) -> bytes:
        """An output, as run() gives it, as the chip writes it."""
        return np.ascontiguousarray(output.transpose(0, 2, 3, 1) if self.case.kind != "matmul" else output).tobytes()

    def epilogue(self, residual_shape_nhwc, order) -> driver.Epilogue:
        e = self.case.epilogue
        out = driver.Epilogue()
        if e.clamp:
            out.clamp, out.clamp_lo, out.clamp_hi = 1, to_float(e.clamp[0]), to_float(e.clamp[1])
        out.out_zero_point, out.int_lo, out.int_hi = e.out_zp, e.int_lo, e.int_hi
        out.residual_zero_point, out.residual_scale = e.res_zp, to_float(e.res_scale)
        if e.residual:
            residual = np.ascontiguousarray(self.data["residual"].transpose(order))
            tensor = driver.tensor(self.device.put(residual), e.residual.lower(), residual.shape)
            self.keep.append(tensor)
            out.residual = C.pointer(tensor)
        return out

    def conv2d(self, tiling: int, channels_last: bool) -> np.ndarray:
        c, device, data = self.case, self.device, self.data
        x = data["x"]
        n, channels, h, w = x.shape
        if channels_last:
            x_tensor = driver.tensor(device.put(x.transpose(0, 2, 3, 1)), OPERAND[c.dtype], (n, h, w, channels))
        else:
            x_tensor = driver.tensor(
                device.put(x), OPERAND[c.dtype], (n, h, w, channels), (channels * h * w, w, 1, h * w)
            )
        batch, o, oh, ow = c.output_shape
        shape = (batch, oh, ow, o)
        address = self.address = device.alloc(int(np.prod(shape)) * driver.BYTES[self.out_type])
        weights = device.weights(
            COMPUTE[c.dtype],
            data["w"],
            OPERAND[c.dtype],
            c.groups,
            data["bias"],
            data["scale"],
            c.dilation,
            c.input_dilation,
        )
        try:
            desc = driver.Conv2dDesc(
                pad_value=c.pad,
                label=self.label,
                input=x_tensor,
                output=driver.tensor(address, self.out_type, shape),
                weights=weights,
                stride=c.stride,
                padding=c.padding,
                dilation=c.dilation,
                input_dilation=c.input_dilation,
                epilogue=self.epilogue(shape, (0, 2, 3, 1)),
                tiling=tiling,
            )
            device.conv2d(desc)
            self.reports = device.synchronize()
        finally:
            device.weights_free(weights)
        return device.view(address, shape, NUMPY[self.out_type]).transpose(0, 3, 1, 2)

    def matmul(self, tiling: int) -> np.ndarray:
        c, device, data = self.case, self.device, self.data
        a, b = data["a"], data["b"]
        a_strides = (c.m * c.k, 1, c.m) if c.transpose_a else (c.m * c.k, c.k, 1)
        b_strides = (0 if c.shared_b else c.n * c.k, *((1, c.k) if c.transpose_b else (c.n, 1)))
        shape = c.output_shape
        address = self.address = device.alloc(int(np.prod(shape)) * driver.BYTES[self.out_type])
        desc = driver.MatmulDesc(
            compute=driver.COMPUTE[COMPUTE[c.dtype]],
            label=self.label,
            a=driver.tensor(device.put(a), OPERAND[c.dtype], (c.batch, c.m, c.k), a_strides),
            b=driver.tensor(device.put(b), OPERAND[c.dtype], (c.batch, c.k, c.n), b_strides),
            out=driver.tensor(address, self.out_type, shape),
            epilogue=self.epilogue(shape, (0, 1, 2)),
            tiling=tiling,
        )
        device.matmul(desc)
        self.reports = device.synchronize()
        return device.view(address, shape, NUMPY[self.out_type])

    def run(self, counts: Counts, tiling: int = 0) -> np.ndarray:
        try:
            if self.case.kind == "matmul":
                return self.matmul(tiling)
            try:
                return self.conv2d(tiling, self.case.channels_last)
            except driver.PresilError as error:
                if error.status != UNSUPPORTED or self.case.channels_last:
                    raise
                counts.relaid += 1
                return self.conv2d(tiling, True)
        finally:
            self.device.release()


def check(
    device: driver.Device,
    case,
    counts: Counts,
    verify: bool,
    oracle: bool = True,
    tilings: tuple = (),
    label: str = "sweep",
) -> None:
    """label: of its launches. Raises AssertionError with the case's description on the first difference."""
    run = Run(device, case, label)
    got = run.run(counts)
    if verify:
        assert run.reports and all(r.verified == 1 for r in run.reports), f"{case.describe()}: not compared"
    counts.cases += 1
    counts.elements += got.size
    if oracle:
        elements = sample(case)
        wanted = expected(case, run.data, elements)
        mask = (1 << 8 * got.itemsize) - 1
        found = got.reshape(-1).tolist() if elements is None else [int(got[e]) for e in elements]
        wrong = [i for i, (f, w) in enumerate(zip(found, wanted, strict=True)) if f != w & mask]
        if wrong:
            where = wrong[0] if elements is None else elements[wrong[0]]
            right = np.array(got)
            for i in wrong:
                right[np.unravel_index(i, got.shape) if elements is None else elements[i]] = wanted[i] & mask
            raise OracleDiffers(
                f"{case.describe()}: {len(wrong)} of {len(found)} differ, first at {where}: chip "
                f"0x{found[wrong[0]]:x}, oracle 0x{wanted[wrong[0]] & mask:x}",
                right,
            )
        counts.confirmed += len(found)
    for tiling in tilings:
        again = run.run(counts, tiling)
        assert np.array_equal(again, got), f"{case.describe()}: tiling {tiling} gives other bits"
