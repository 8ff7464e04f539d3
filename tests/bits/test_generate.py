# SPDX-License-Identifier: Apache-2.0
"""The sweeps' cases cover what they claim: every value of the stated ranges, every dtype, epilogue and value family;
replayable."""

import numpy as np
import pytest

from bits import generate as g
from bits.reference import expected, sample
from bits.values import CONTAINER, FLOAT_FAMILIES, Stream, family_values
from oracle import operators

SEED = 20261121
CHIPS = ("tiny", "odd")


@pytest.fixture(scope="module", params=CHIPS)
def swept(request):
    return request.param, g.cases(request.param, SEED, 1500)


def test_enough_shapes():
    all_cases = [c for chip in CHIPS for c in g.cases(chip, SEED, 1500)]
    assert g.shapes(all_cases) >= 2_000
    assert sum(int(np.prod(c.output_shape)) for c in all_cases) >= 1_000_000 // 2


def convolutions(cases):
    return [c for c in cases if c.kind == "conv2d"]


def test_every_value_of_the_ranges(swept):
    _, cases = swept
    conv = convolutions(cases)
    for axis in (0, 1):
        for name in ("kernel", "stride", "dilation", "padding", "size", "input_dilation"):
            seen = {getattr(c, name)[axis] for c in conv}
            assert set(g.RANGES[name]) <= seen, (name, axis, set(g.RANGES[name]) - seen)
    assert set(g.RANGES["channels"]) <= {c.channels for c in conv if c.groups == 1}
    assert {c.out_channels for c in conv} >= set(range(1, 9))
    kinds = {1 if c.groups == 1 else "C" if c.groups == c.channels else c.groups for c in conv}
    assert {1, 2, "C"} <= kinds
    assert any(c.groups == c.channels and c.out_channels == 2 * c.channels > 2 for c in conv)


@pytest.mark.parametrize("dtype", g.DTYPES)
def test_kernels_strides_groups_in_every_dtype(swept, dtype):
    _, cases = swept
    conv = [c for c in convolutions(cases) if c.dtype == dtype]
    for name in ("kernel", "stride", "dilation", "padding", "input_dilation"):
        assert set(g.RANGES[name]) <= {v for c in conv for v in getattr(c, name)}, name
    assert {1, 2} <= {c.groups for c in conv} and any(c.groups == c.channels > 2 for c in conv)
    assert any(not c.channels_last for c in conv) and max(c.batch for c in conv) > 1


@pytest.mark.parametrize("dtype", g.DTYPES)
def test_matmuls_around_the_limits(swept, dtype):
    chip, cases = swept
    mm = [c for c in cases if c.kind == "matmul" and c.dtype == dtype]
    for axis, values in g.limits(chip, dtype).items():
        for v in (1, *values):
            for d in (-1, 0, 1):
                assert v + d < 1 or any(getattr(c, axis) == v + d for c in mm), (axis, v + d)
    assert {(c.transpose_a, c.transpose_b) for c in mm} == {(a, b) for a in (False, True) for b in (False, True)}
    assert {c.shared_b for c in mm if c.batch > 1} == {False, True}


@pytest.mark.parametrize("dtype", g.DTYPES)
def test_every_epilogue_and_family(swept, dtype):
    _, cases = swept
    for kind, variants in (("conv2d", g.EPILOGUES), ("matmul", g.MATMUL_EPILOGUES)):
        some = [c for c in cases if c.kind == kind and c.dtype == dtype]
        assert {c.epilogue for c in some} == set(variants[dtype])
        assert {c.values for c in some} == set(g.FAMILIES[dtype])
    assert any(c.pad for c in cases if c.kind == "conv2d" and c.dtype == "int8")


def test_epilogue_variants_reach_every_field():
    for variants in g.EPILOGUES.values():
        assert {"INT8", "BF16", "FP32"} <= {e.out for e in variants}
        assert {None, "INT8", "BF16", "FP32"} == {e.residual for e in variants}
        for flag in ("bias", "scale"):
            assert {getattr(e, flag) for e in variants} == {False, True}
        assert any(e.clamp for e in variants) and any(e.int_lo == e.out_zp != 0 for e in variants)
    assert "RAW32" in {e.out for e in g.EPILOGUES["int8"]}


def test_shapes_are_valid_and_within_the_limit(swept):
    chip, cases = swept
    for c in cases:
        assert min(c.output_shape) > 0 and c.cost > 0
        if c.kind == "conv2d":
            assert c.channels % c.groups == 0 and c.out_channels % c.groups == 0
        assert c.index < g.directed_count(chip) or c.cost <= g.LIMIT or min(c.output_shape[-2:]) == 1, c.describe()


def test_replay_and_seeds(swept):
    chip, cases = swept
    assert len({c.describe() for c in cases}) == len(cases)
    for index in (0, 100, g.directed_count(chip), 1400):
        again = g.case(chip, SEED, index)
        assert again == cases[index] and again.describe() == cases[index].describe()
        first, second = again.data(), cases[index].data()
        assert all((first[k] is None and second[k] is None) or np.array_equal(first[k], second[k]) for k in first)
    other = g.cases(chip, SEED + 1, 1500)
    assert sum(a.shape_key != b.shape_key for a, b in zip(cases, other)) > 500


def test_smaller_sweep_is_spread_over_the_directed_cases():
    small = g.cases("base", SEED, 150)
    assert (
        len(small) == 150
        and {c.kind for c in small} == {"matmul", "conv2d"}
        and small[-1].index > 0.9 * g.directed_count("base")
    )


def floats(data, dtype):
    return np.concatenate([data[k].ravel() for k in ("a", "b", "x", "w") if k in data]).astype(np.uint64) << np.uint64(
        16 if dtype == "bf16" else 0
    )


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_float_families_reach_the_corners(swept, dtype):
    _, cases = swept
    by_family = {}
    for c in cases:
        if c.dtype == dtype:
            by_family.setdefault(c.values, []).append(floats(c.data(), dtype))
    values = {k: np.concatenate(v) for k, v in by_family.items()}
    exponent = {k: v >> np.uint64(23) & np.uint64(255) for k, v in values.items()}
    fraction = {k: v & np.uint64(0x7FFFFF) for k, v in values.items()}
    assert ((exponent["infinity"] == 255) & (fraction["infinity"] == 0)).any()
    assert ((exponent["nan"] == 255) & (fraction["nan"] != 0)).any()
    assert ((exponent["subnormal"] == 0) & (fraction["subnormal"] != 0)).mean() > 0.1
    assert {0, 0x80000000} <= set(values["subnormal"].tolist()) and set(values["zero"].tolist()) == {0, 0x80000000}
    assert exponent["largest"].max() == 254 and exponent["smallest"].min() == 1 and exponent["smallest"].max() <= 70
    assert exponent["full"].min() == 1 and exponent["full"].max() == 254
    assert not any(
        (exponent[k] == 255).any()
        for k in ("normal", "wide", "full", "largest", "smallest", "cancel", "integers", "zero", "subnormal")
    )
    full_fraction = 0x7F0000 if dtype == "bf16" else 0x7FFFFF
    assert (fraction["wide"] == full_fraction).any() and (fraction["wide"] == 0).any()


def test_fp16_families_reach_the_corners():
    """Each family's values are what it says, as numpy's float16 reads them."""
    values = {
        family: family_values(Stream(SEED, family), "fp16", family, (64, 64)).view(np.float16)
        for family in FLOAT_FAMILIES
    }
    least = np.float16(2.0**-14)
    subnormal = {k: (v != 0) & (np.abs(v) < least) for k, v in values.items()}
    for name in ("normal", "wide", "full", "largest", "smallest", "cancel", "integers", "zero", "subnormal"):
        assert np.isfinite(values[name]).all(), name
    assert np.isinf(values["infinity"]).any() and np.isnan(values["nan"]).any() and np.isnan(values["mixed"]).any()
    assert subnormal["subnormal"].mean() > 0.1 and subnormal["mixed"].any() and not subnormal["full"].any()
    assert np.abs(values["largest"]).max() == 65504 and np.abs(values["smallest"]).min() == least
    assert set(values["zero"].view(np.uint16).ravel().tolist()) == {0, 0x8000}
    assert set(np.abs(values["integers"]).ravel().tolist()) == set(range(9))
    assert (values["cancel"].sum(axis=1, dtype=np.float64) == 0).all()


def test_int8_families_reach_the_corners(swept):
    _, cases = swept
    for c in cases:
        if c.dtype == "int8" and c.values == "all_min":
            assert all((c.data()[k] == 0x80).all() for k in ("a", "b", "x", "w") if k in c.data())
    assert {0x80, 0x7F} <= {
        int(v)
        for c in cases
        if c.dtype == "int8" and c.values == "extremes"
        for k in ("a", "x")
        if k in c.data()
        for v in np.unique(c.data()[k])
    }


def test_cancellation_cancels():
    """Matmuls of the family over an even K sum to zero: the products come in pairs of opposite sign."""
    found = 0
    for chip in CHIPS:
        for c in g.cases(chip, SEED, 1500):
            if c.kind == "matmul" and c.values == "cancel" and c.k % 2 == 0 and c.dtype == "int8":
                d = c.data()
                assert set(
                    operators.matmul(
                        d["a"],
                        d["b"],
                        dtype="int8",
                        lanes=16,
                        cells=8,
                        transpose_a=c.transpose_a,
                        transpose_b=c.transpose_b,
                    )
                ) == {0}
                found += 1
    assert found >= 2


def test_containers(swept):
    """Patterns have the width of their type and the shape that the case states."""
    _, cases = swept
    for c in cases[::7]:
        d = c.data()
        kind = CONTAINER[g.ELEMENT[c.dtype]]
        if c.kind == "matmul":
            assert (
                d["a"].shape == (c.batch, *((c.k, c.m) if c.transpose_a else (c.m, c.k)))
                and d["a"].dtype == d["b"].dtype == kind
            )
            assert d["b"].shape == (1 if c.shared_b else c.batch, *((c.n, c.k) if c.transpose_b else (c.k, c.n)))
        else:
            assert d["x"].shape == (c.batch, c.channels, *c.size) and d["w"].shape == (
                c.out_channels,
                c.channels // c.groups,
                *c.kernel,
            )
        e = c.epilogue
        assert (
            (d["bias"] is not None) == e.bias
            and (d["scale"] is not None) == e.scale
            and (d["residual"] is not None) == bool(e.residual)
        )
        if e.residual:
            assert d["residual"].shape == c.output_shape and d["residual"].dtype == CONTAINER[e.residual.lower()]


def test_reference_computes_and_varies(swept):
    """The oracle's expected bits of a spread of cases; quantised outputs are not all saturated."""
    _, cases = swept
    for c in [c for c in cases if c.cost <= 20_000][::10]:
        assert len(expected(c, c.data())) == int(np.prod(c.output_shape))
    for dtype, family in (("int8", "random"), ("bf16", "normal")):
        quantised = [
            c
            for c in cases
            if c.cost <= 20_000
            and c.dtype == dtype
            and c.values == family
            and c.epilogue.out == "INT8"
            and c.epilogue.scale
        ]
        got = [v for c in quantised for v in expected(c, c.data())]
        assert len(set(got)) > 50 and sum(v not in (0x7F, 0x80) for v in got) > len(got) // 5


def test_sample():
    big = [c for c in g.cases("odd", SEED, 1500) if c.cost > 100_000]
    assert len(big) > 20
    for c in big[:40]:
        some = sample(c)
        assert len(some) == len(set(some)) >= min(64, int(np.prod(c.output_shape)))
        assert all(0 <= v < s for at in some for v, s in zip(at, c.output_shape))
        assert tuple(s - 1 for s in c.output_shape) in some and (0,) * len(c.output_shape) in some
    small = next(c for c in g.cases("odd", SEED, 200) if c.cost <= 100_000)
    assert sample(small) is None
    chosen = sample(big[0])[:3]
    everything = expected(big[0], big[0].data())
    strides = np.array(big[0].output_shape)
    assert expected(big[0], big[0].data(), chosen) == [
        everything[int(np.ravel_multi_index(at, strides))] for at in chosen
    ]
