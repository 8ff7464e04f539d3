# SPDX-License-Identifier: Apache-2.0
"""The RTL of sa16 against integers of Python: every kind of layer, at and around its boundaries, with a memory that
holds back."""

import numpy as np
import pytest
from operation import NHWC, PLANAR, random_layer
from rtl_bench import (
    BUILD,
    COUNTERS,
    ENABLE,
    EVENTS,
    POOL_AVERAGE,
    POOL_MAX,
    STATUS,
    Bench,
    Refused,
    build,
    sources,
)

STALLS = (0.0, 0.4)


@pytest.fixture(scope="session")
def library():
    return build(sources(), BUILD / "bench")


def run(library, layer, stall=0.0, seed=1, odd=0):
    bench = Bench(library, seed=seed, stall=stall)
    try:
        layer.lay_out(bench.memory, 4096, odd)
        bench.run([layer.operation()])
        found, wanted = layer.result(bench.memory), layer.expected()
    finally:
        bench.close()
    wrong = np.argwhere(found != wanted)
    at = tuple(wrong[0]) if len(wrong) else None
    assert at is None, f"{len(wrong)} of {wanted.size} differ, first {at}: {found[at]}, expected {wanted[at]}"


CONVOLUTIONS = {
    "1x1": dict(),
    "one pixel": dict(hw=(1, 1)),
    "16 pixels": dict(hw=(4, 4), c=16, o=16),
    "15 channels": dict(c=15, o=15),
    "17 channels": dict(c=17, o=17),
    "33 to 47": dict(c=33, o=47, k=(3, 3), padding=(1, 1)),
    "one channel": dict(c=1, o=1, k=(3, 3), padding=(1, 1)),
    "three channels, 7x7 with stride 2": dict(c=3, o=20, hw=(19, 17), k=(7, 7), stride=(2, 2), padding=(3, 3)),
    "3x3": dict(c=16, o=32, hw=(8, 8), k=(3, 3), padding=(1, 1)),
    "3x3 with stride 2": dict(c=20, o=16, hw=(9, 10), k=(3, 3), stride=(2, 2), padding=(1, 1)),
    "15x15": dict(c=4, o=5, hw=(16, 17), k=(15, 15), padding=(7, 7)),
    "1x9": dict(c=16, o=16, hw=(3, 12), k=(1, 9)),
    "10x4, of speech": dict(c=1, o=64, hw=(49, 10), k=(10, 4), stride=(2, 2), padding=(4, 1)),
    "dilated": dict(c=16, o=16, hw=(12, 12), k=(3, 3), dilation=(2, 3), padding=(2, 3)),
    "fully connected": dict(hw=(1, 1), c=500, o=100),
    "a batch": dict(hw=(1, 31), c=64, o=10),
    "clamped": dict(c=16, o=16, zero_point=-5, low=-5, high=60),
    "residual": dict(c=16, o=24, hw=(6, 6), residual_multiplier=50_000, residual_zero=-7),
    "negative residual": dict(c=16, o=24, hw=(6, 6), residual_multiplier=-3_000_000, residual_zero=127),
    "many blocks": dict(c=16, o=1024, hw=(1, 1)),
    "one channel of many pixels": dict(c=1, o=4, hw=(60, 60), stride=(4, 4)),
    "output buffer full": dict(c=3, o=32, hw=(16, 32)),
    "input buffer full": dict(c=64, o=3, hw=(32, 32), k=(1, 1), stride=(4, 4)),
    "weight buffer full": dict(c=128, o=16, hw=(8, 8), k=(8, 8)),
    "depthwise": dict(c=40, hw=(9, 9), k=(3, 3), padding=(1, 1), depthwise=True),
    "depthwise with stride 2": dict(c=8, hw=(9, 9), k=(3, 3), stride=(2, 2), padding=(1, 1), depthwise=True),
    "maximum": dict(kind=POOL_MAX, c=24, hw=(9, 9), k=(3, 3), stride=(2, 2), padding=(1, 1)),
    "maximum of one": dict(kind=POOL_MAX, c=16, hw=(4, 4)),
    "average": dict(kind=POOL_AVERAGE, c=33, hw=(7, 7), k=(7, 7)),
    "one scale": dict(kind=POOL_AVERAGE, c=33, hw=(6, 6), k=(3, 3), uniform=True),
    "one scale of a convolution": dict(c=20, o=20, k=(3, 3), uniform=True),
    "negative scales": dict(c=16, o=16, multiplier=-np.arange(1, 17) * 10_000_000, shift=np.full(16, 24)),
    "average 25x5": dict(kind=POOL_AVERAGE, c=16, hw=(25, 5), k=(25, 5)),
    "average 2x2": dict(kind=POOL_AVERAGE, c=17, hw=(6, 8), k=(2, 2), stride=(2, 2)),
}


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_layer(library, name, stall):
    seed = list(CONVOLUTIONS).index(name)
    run(library, random_layer(np.random.default_rng(seed), **CONVOLUTIONS[name]), stall, seed)


@pytest.mark.parametrize("source", (NHWC, PLANAR))
@pytest.mark.parametrize("target", (NHWC, PLANAR))
def test_layouts(library, source, target):
    for seed, odd in enumerate((0, 1, 15)):
        kw = dict(c=19, o=37, hw=(6, 5), k=(3, 3), padding=(1, 1), residual_multiplier=60_000)
        layer = random_layer(np.random.default_rng(seed), **kw, layouts=(source, target))
        run(library, layer, STALLS[seed % 2], seed, odd)


@pytest.mark.parametrize("part", range(4))
def test_random_layers(library, part):
    for seed in range(25 * part, 25 * part + 25):
        rng = np.random.default_rng(seed)
        k = tuple(int(v) for v in rng.integers(1, 6, 2))
        kind = int(rng.choice([0, 0, 0, POOL_MAX, POOL_AVERAGE]))
        kw = dict(
            kind=kind,
            k=k,
            hw=tuple(int(rng.integers(v, v + 9)) for v in k),
            c=int(rng.integers(1, 50)),
            o=int(rng.integers(1, 50)),
            stride=tuple(int(v) for v in rng.integers(1, 4, 2)),
            padding=tuple(int(rng.integers(0, v)) for v in k),
            depthwise=bool(kind == 0 and rng.random() < 0.3),
            layouts=tuple(rng.choice([NHWC, PLANAR], 2)),
        )
        if rng.random() < 0.4:
            kw.update(
                residual_multiplier=int(rng.integers(-(2**20), 2**20)), residual_zero=int(rng.integers(-128, 128))
            )
        run(library, random_layer(rng, **kw), STALLS[seed % 2], seed, int(rng.integers(0, 16)))


def test_extreme_parameters(library):
    """Largest multipliers, all shifts, sums at the ends: nothing saturates but the result."""
    rng = np.random.default_rng(5)
    for first in (0, 16, 32, 48):
        n = 64
        layer = random_layer(
            rng,
            c=16,
            o=n,
            hw=(2, 3),
            shift=np.minimum(np.arange(n) % 16 + first, 63),
            multiplier=np.full(n, 2**31 - 1),
            bias=rng.integers(-(2**31), 2**31, n),
            residual_multiplier=2**31 - 1,
        )
        run(library, layer)


def test_ties_go_to_even(library):
    n = 16
    layer = random_layer(
        np.random.default_rng(0), c=16, o=n, hw=(3, 5), multiplier=np.full(n, 1 << 15), shift=np.zeros(n, int),
        bias=np.zeros(n, int), zero_point=0,
    )  # fmt: skip
    layer.weight[:] = np.eye(n)[:, None, None, :]
    codes = layer.expected().reshape(-1)
    assert (codes == np.round(layer.x.reshape(-1) / 2)).all()
    run(library, layer)


@pytest.mark.parametrize("stall, polled", [(0.0, False), (0.4, False), (0.4, True)])
def test_operations_in_turn(library, stall, polled):
    """Ten operations, the next one written while one runs; every third reads what the one before wrote. polled:
    without interrupts."""
    rng = np.random.default_rng(9)
    bench = Bench(library, seed=3, stall=stall, latency=40)
    layers, at = [], 4096
    for i in range(10):
        layer = random_layer(rng, c=24, o=24, hw=(6, 6), k=(3, 3), padding=(1, 1))
        if i % 3 == 2:
            layer.x = layers[-1].expected()
        at = layer.lay_out(bench.memory, at)
        if i % 3 == 2:
            layer.place["x"] = layers[-1].place["out"]
        layers.append(layer)
    bench.run([layer.operation(after=i % 3 == 2) for i, layer in enumerate(layers)], polled)
    for layer in layers:
        assert (layer.result(bench.memory) == layer.expected()).all()
    counters = [bench.read(COUNTERS + 4 * i) for i in range(16)]
    assert counters[3] == 10 and counters[0] > 0
    for unit in range(3):
        assert sum(counters[4 + 4 * unit : 8 + 4 * unit]) == counters[0], (unit, counters)
    bench.close()


def test_a_busy_set_refuses_writes(library):
    bench = Bench(library, latency=200)
    layer = random_layer(np.random.default_rng(1))
    layer.lay_out(bench.memory, 4096)
    which = bench.load(layer.operation())
    with pytest.raises(Refused):
        bench.write(0x1000 + 4 * 33, 0)
    bench.write(0x2000 + 4 * 33, 7)
    assert bench.read(0x2000 + 4 * 33) == 7
    bench.wait(which)
    bench.close()


def test_registers(library):
    bench = Bench(library)
    assert bench.read(0) == 0x53413136 and bench.read(STATUS) == 0
    for offset in (0x20, 0x3FC, 0x1000 + 4 * 39, 0x3000, 0xFFFC, 0x2):
        with pytest.raises(Refused):
            bench.read(offset)
        with pytest.raises(Refused):
            bench.write(offset, 0)
    with pytest.raises(Refused):
        bench.write(0, 1)
    bench.close()


@pytest.mark.parametrize("register", [4, 7, 8, 13, 16, 17, 27, 29, 32, 33])
def test_an_operation_without_end_is_refused(library, register):
    bench = Bench(library)
    layer = random_layer(np.random.default_rng(1))
    layer.lay_out(bench.memory, 4096)
    operation = layer.operation()
    operation[register] = 0
    bench.load(operation)
    assert bench.read(STATUS) == 0 and bench.read(EVENTS) == 8
    bench.write(ENABLE, 8)
    bench.run([])
    bench.write(EVENTS, 8)
    bench.turn = 0
    bench.run([layer.operation()])
    assert (layer.result(bench.memory) == layer.expected()).all()
    bench.close()


@pytest.mark.parametrize("what", ("x", "weight", "params", "out"))
def test_a_bus_error_is_told_and_over(library, what):
    bench = Bench(library)
    layer = random_layer(np.random.default_rng(1))
    layer.lay_out(bench.memory, 4096)
    bench.lib.bench_bad(
        bench.handle, layer.place[what] if what != "out" else (layer.place[what] + 255) // 256 * 256 + 240
    )
    bench.load(layer.operation())
    bench.write(ENABLE, 1)
    assert bench.lib.bench_wait(bench.handle, 100_000)
    assert bench.read(EVENTS) == 5 and bench.read(0x1C) == (2 if what == "out" else 1)
    bench.close()
