# SPDX-License-Identifier: Apache-2.0
"""What one operation of sa16 is, as Python: its register set, the memory it wants, and what it should give.

The oracle computes with integers from the layer's arrays (NHWC); it knows neither tiles nor buffers nor the array."""

from dataclasses import dataclass, field

import numpy as np
from rtl_bench import AFTER, CONV, DEPTHWISE, POOL_AVERAGE, POOL_MAX, RESIDUAL, UNIFORM

NHWC, PLANAR = "nhwc", "nc/16hw16"


def blocks(channels: int) -> int:
    return -(-channels // 16)


def to_memory(x: np.ndarray, layout: str) -> np.ndarray:
    """[h, w, c] as bytes in DRAM."""
    if layout == NHWC:
        return x.astype(np.int8).view(np.uint8).reshape(-1)
    h, w, ch = x.shape
    padded = np.zeros((h, w, 16 * blocks(ch)), np.int8)
    padded[:, :, :ch] = x
    return padded.reshape(h, w, -1, 16).transpose(2, 0, 1, 3).reshape(-1).view(np.uint8)


def from_memory(raw: np.ndarray, shape, layout: str) -> np.ndarray:
    h, w, ch = shape
    if layout == NHWC:
        return raw[: h * w * ch].view(np.int8).reshape(shape)
    return (
        raw[: h * w * 16 * blocks(ch)]
        .view(np.int8)
        .reshape(-1, h, w, 16)
        .transpose(1, 2, 0, 3)
        .reshape(h, w, -1)[:, :, :ch]
    )


@dataclass
class Layer:
    """kind CONV: weight [o, kh, kw, i] (depthwise: i = 1 and o = channels); pooling: kernel (kh, kw)."""

    x: np.ndarray  # int [h, w, c]
    kind: int = CONV
    weight: np.ndarray | None = None
    kernel: tuple = (1, 1)
    stride: tuple = (1, 1)
    padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    depthwise: bool = False
    uniform: bool = False  # one multiplier and shift for all channels, no bias
    bias: np.ndarray | None = None
    multiplier: np.ndarray | None = None
    shift: np.ndarray | None = None
    pad_value: int = 0
    zero_point: int = 0
    low: int = -128
    high: int = 127
    residual: np.ndarray | None = None
    residual_zero: int = 0
    residual_multiplier: int = 0
    layouts: tuple = (NHWC, NHWC)
    place: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.weight is not None:
            self.kernel = self.weight.shape[1:3]
        self.channels = self.x.shape[2] if self.weight is None else self.weight.shape[0]
        self.out_size = tuple(
            (self.x.shape[d] + 2 * self.padding[d] - self.dilation[d] * (self.kernel[d] - 1) - 1) // self.stride[d] + 1
            for d in range(2)
        )

    # ---- what should come out
    def expected(self) -> np.ndarray:
        (ph, pw), (oh, ow), (kh, kw) = self.padding, self.out_size, self.kernel
        x = np.pad(self.x.astype(np.int64), ((ph, ph), (pw, pw), (0, 0)), constant_values=self.pad_value)
        windows = []
        for ky in range(kh):
            for kx in range(kw):
                y0, x0 = ky * self.dilation[0], kx * self.dilation[1]
                windows.append(
                    x[y0 : y0 + self.stride[0] * (oh - 1) + 1 : self.stride[0]][
                        :, x0 : x0 + self.stride[1] * (ow - 1) + 1 : self.stride[1]
                    ]
                )
        taps = np.stack(windows)  # [kernel, oh, ow, c]
        if self.kind == POOL_MAX:
            sums = taps.max(0)
        elif self.kind == POOL_AVERAGE:
            sums = taps.sum(0)
        elif self.depthwise:
            sums = np.einsum("khwc,ck->hwc", taps, self.weight.reshape(self.channels, -1).astype(np.int64))
        else:
            w = self.weight.astype(np.int64).reshape(self.channels, kh * kw, -1)
            sums = np.einsum("khwi,oki->hwo", taps, w)
        return self.requantised(sums)

    def requantised(self, sums: np.ndarray) -> np.ndarray:
        out = np.zeros(sums.shape, np.int64)
        for at in np.ndindex(*sums.shape):
            ch = at[-1]
            total = int(sums[at]) + int(self.bias[ch])
            total = (total + (1 << 31)) % (1 << 32) - (1 << 31)
            q = (total * int(self.multiplier[ch])) >> int(self.shift[ch])
            if self.residual is not None:
                q += (int(self.residual[at]) - self.residual_zero) * self.residual_multiplier
            step, rest = q >> 16, q & 0xFFFF
            step += rest > 0x8000 or (rest == 0x8000 and step & 1)
            out[at] = min(max(step + self.zero_point, self.low), self.high)
        return out

    # ---- what lies in memory
    def packed_weights(self) -> np.ndarray:
        """[block, channel block, ky, kx, input channel, output channel], 16 x 16 at the end."""
        (kh, kw), bo = self.kernel, blocks(self.channels)
        bi = 1 if self.depthwise else blocks(self.x.shape[2])
        out = np.zeros((bo, bi, kh, kw, 16, 16), np.int8)
        for o in range(self.channels):
            for i in range(self.weight.shape[3]):
                row = o % 16 if self.depthwise else i % 16
                out[o // 16, i // 16, :, :, row, o % 16] = self.weight[o, :, :, i]
        return out.reshape(-1).view(np.uint8)

    def packed_parameters(self) -> np.ndarray:
        raw = []
        for b in range(blocks(self.channels)):
            part = [np.zeros(16, np.int64) for _ in range(3)]
            for source, target in zip((self.bias, self.multiplier, self.shift), part, strict=True):
                values = source[16 * b : 16 * b + 16]
                target[: len(values)] = values
            raw += [part[0].astype(np.int32).tobytes(), part[1].astype(np.int32).tobytes()]
            raw += [part[2].astype(np.uint8).tobytes()]
        return np.frombuffer(b"".join(raw), np.uint8)

    # ---- the register set of the whole layer as one operation
    def operation(self, after=False) -> list[int]:
        (h, w, ch), (oh, ow) = self.x.shape, self.out_size
        mode = (
            self.kind
            | DEPTHWISE * self.depthwise
            | RESIDUAL * (self.residual is not None)
            | AFTER * after
            | UNIFORM * self.uniform
        )
        p, bi, bo = self.place, blocks(ch), blocks(self.channels)
        source = transfer(p["x"], h, w, ch, self.layouts[0])
        target = transfer(p["out"], oh, ow, self.channels, self.layouts[1])
        res = p.get("residual", 0)
        words = 0 if self.weight is None else len(self.packed_weights()) // 16
        quant = pack8(self.zero_point, self.low, self.high, self.pad_value)
        return [0, mode, *source, *target, *wide(res), *wide(p.get("weight", 0)), words, *wide(p["params"])] + [
            h << 16 | w,
            oh * ow << 16 | h * w,
            pack8(self.kernel[1], self.kernel[0], self.stride[1], self.stride[0]),
            pack8(self.dilation[1], self.dilation[0]),
            (-self.padding[0] & 0xFFFF) << 16 | (-self.padding[1] & 0xFFFF),
            oh << 16 | ow,
            bo << 16 | (1 if self.depthwise else bi),
            quant,
            self.residual_zero & 0xFF,
            self.residual_multiplier & 0xFFFFFFFF,
            int(self.multiplier[0]) & 0xFFFFFFFF,
            int(self.shift[0]),
        ]

    def lay_out(self, memory: np.ndarray, at: int, odd: int = 0) -> int:
        """Writes everything to memory behind `at` (tensors `odd` bytes off alignment); the first byte behind."""
        parts = {"x": to_memory(self.x, self.layouts[0]), "params": self.packed_parameters()}
        if self.weight is not None:
            parts["weight"] = self.packed_weights()
        if self.residual is not None:
            parts["residual"] = to_memory(self.residual, self.layouts[1])
        size = (
            np.prod(self.out_size) * self.channels
            if self.layouts[1] == NHWC
            else np.prod(self.out_size) * 16 * blocks(self.channels)
        )
        parts["out"] = np.full(int(size), 0xA5, np.uint8)
        for name, raw in parts.items():
            start = at + (odd if name in ("x", "out", "residual") else 0)
            memory[at : at + len(raw) + 192] = 0xA5
            memory[start : start + len(raw)] = raw
            self.place[name] = start
            at = (start + len(raw) + 63) // 64 * 64 + 64
        self.out_bytes = int(size)
        return at

    def result(self, memory: np.ndarray) -> np.ndarray:
        start, size = self.place["out"], self.out_bytes
        around = np.concatenate([memory[start - 16 : start], memory[start + size : start + size + 16]])
        assert (around == 0xA5).all(), "bytes beside the output were written"
        return from_memory(memory[start : start + size].copy(), (*self.out_size, self.channels), self.layouts[1])


def wide(address: int) -> list[int]:
    return [address & 0xFFFFFFFF, address >> 32]


def pack8(*values: int) -> int:
    return sum((v & 0xFF) << 8 * i for i, v in enumerate(values))


def transfer(base: int, h: int, w: int, ch: int, layout: str) -> list[int]:
    """Nine registers: a tensor [h, w, ch] as a whole."""
    b = blocks(ch)
    if layout == PLANAR:
        outer, inner, run, tail = b, h, (w, 1), 16
        strides, local = (h * w * 16, w * 16), (h * w, w, 1, 0)
    else:
        outer, inner, run, tail = 1, h, (w, b), ch - 16 * (b - 1)
        strides, local = (0, w * ch), (0, w, 1, h * w)
    lo, li, lp, lb = local
    return [*wide(base), inner << 16 | outer, *strides, run[1] << 16 | run[0], tail, li << 16 | lo, lb << 16 | lp]


def random_layer(rng: np.random.Generator, **kw) -> Layer:
    """Fills in what is not given: data, parameters such that results spread over int8."""
    ch = kw.pop("c", 16)
    o, k = kw.pop("o", 16), kw.pop("k", (1, 1))
    h, w = kw.pop("hw", (5, 7))
    kind = kw.get("kind", CONV)
    x = rng.integers(-128, 128, (h, w, ch))
    depthwise = kw.get("depthwise", False)
    if kind == CONV:
        kw["weight"] = rng.integers(-128, 128, (ch if depthwise else o, *k, 1 if depthwise else ch))
    else:
        kw["kernel"] = k
    channels = ch if kind != CONV or depthwise else o
    terms = np.prod(k) * (ch if kind == CONV and not depthwise else 1)
    size = 40.0 / ((74 * 74 if kind == CONV else 74) * np.sqrt(terms)) if kind != POOL_MAX else 1.0
    shift = rng.integers(20, 31, channels)
    kw.setdefault(
        "multiplier", np.clip(size * rng.uniform(0.5, 2, channels) * 2.0 ** (shift + 16), 1, 2**31 - 1).astype(np.int64)
    )
    kw.setdefault("shift", shift)
    kw.setdefault("bias", rng.integers(-1000, 1000, channels))
    kw.setdefault("zero_point", int(rng.integers(-20, 20)))
    kw.setdefault("pad_value", -128 if kind == POOL_MAX else int(rng.integers(-128, 128)))
    if kw.get("uniform"):
        kw["bias"] = np.zeros(channels, int)
        kw["shift"], kw["multiplier"] = np.full(channels, shift[0]), np.full(channels, kw["multiplier"][0])
    layer = Layer(x=x, **kw)
    if kw.get("residual_multiplier"):
        layer.residual = rng.integers(-128, 128, (*layer.out_size, channels))
    return layer
