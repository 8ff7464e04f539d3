# SPDX-License-Identifier: Apache-2.0
"""The runner finds what it is there to find: wrong bits, layouts, aliases, products outside their bound, crashes and
hangs."""

import pytest
import torch
from parity import compare, expected, pool, products, worker
from parity.transfer import Transfer

import torch_presil  # noqa: F401


@pytest.mark.parametrize(
    "got, reference",
    [([1.0, 2.0], [1.0, 2.0000002]), ([0.0], [-0.0]), ([float("nan")], [1.0]), ([float("inf")], [float("-inf")])],
)
def test_any_bit_counts(got, reference):
    assert compare.values(torch.tensor(got), torch.tensor(reference))
    assert compare.values(torch.tensor(got).to("presil"), torch.tensor(got)) is None


def test_layout_and_aliases_count():
    a = torch.zeros(3, 4)
    assert "strides" in compare.tensors(a.t().contiguous().t(), a, "cpu")
    assert "dtype" in compare.tensors(a.double(), a, "cpu")
    assert compare.aliases([a[1:], a.clone()], [a]) == [((0,), 4), ((), 0)]


@pytest.mark.parametrize("shift", [0, 3])
def test_arguments_keep_strides_offsets_and_aliases(shift):
    whole = torch.arange(24.0).view(4, 6)
    arguments = (whole[1:, ::2], [whole.t()], {"k": torch.randn(3, requires_grad=True)})
    moved = Transfer("presil", shift)(arguments)
    assert (
        moved[0].stride() == (6, 2)
        and moved[0].storage_offset() == 6 + shift
        and torch.equal(moved[0].cpu(), arguments[0])
    )
    assert moved[1][0].untyped_storage().data_ptr() == moved[0].untyped_storage().data_ptr()
    assert moved[2]["k"].requires_grad and moved[2]["k"].device.type == "presil"


def test_bound_counts_what_is_flushed_and_no_more():
    """Operands of 1e-35 beside others: products below 2^-126 are gone, and so is what is left of an operand behind its
    first term; a result that is not there at all is not."""
    a, b = torch.full((2, 3), 1e-35), torch.full((3, 2), 3e-3)
    exceeded = lambda b, got: products.bound_exceeded(torch.ops.aten.mm, (a, b), {}, [got])
    assert exceeded(b, torch.zeros(2, 2)) is None
    assert exceeded(b, torch.full((2, 2), 1e-36))
    assert exceeded(b * 1e3, torch.zeros(2, 2))
    assert exceeded(b * 1e3, (a.to("presil") @ (b * 1e3).to("presil")).cpu()) is None


def test_bound_of_integers_is_their_value():
    a, b = torch.full((17, 64), 127, dtype=torch.int8), torch.full((64, 8), 127, dtype=torch.int8)
    # Not the CPU's _int_mm: where oneDNN has no VNNI it adds two products in 16 bits, saturated (here 8160).
    good = torch.mm(a.long(), b.long()).int()
    assert products.bound_exceeded(torch.ops.aten._int_mm, (a, b), {}, [good]) is None
    assert products.bound_exceeded(torch.ops.aten._int_mm, (a, b), {}, [good + 1])


def test_what_has_other_bits_is_held_to_the_spread_of_nudged_runs():
    """A float64 sum that cancels: nothing wider to measure it by, and the CPU's own run is as far off as it happens to
    be. Another order passes, an error above rounding does not."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, dtype=torch.float64, generator=generator)
    x = torch.cat([x, -x]) + 1e-17
    runs = [[x.cumsum(0)[-1:]]] + [[products.nudged(x, generator).cumsum(0)[-1:]] for _ in range(4)]
    other = x.flip(0).cumsum(0)[-1:]
    held = lambda got, runs: products.no_worse(runs, runs[0], [got.to("presil")], "presil", "other bits")
    assert not torch.equal(other, runs[0][0]) and held(other, runs) is None
    assert held(other, runs[:1]), "one run says nothing of its spread"
    assert "other bits" in held(other + 1e-12, runs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bound_takes_the_chips_product_and_refuses_a_worse_one(dtype):
    a, b = torch.randn(20, 70).to(dtype), torch.randn(70, 9).to(dtype)
    good = (a.to("presil") @ b.to("presil")).cpu()
    assert products.bound_exceeded(torch.ops.aten.mm, (a, b), {}, [good]) is None
    bad = good.clone()
    bad[3, 4] += (a.float().abs() @ b.float().abs())[3, 4] * (2.0**-17 if dtype == torch.float32 else 2.0**-6)
    assert "(3, 4)" in products.bound_exceeded(torch.ops.aten.mm, (a, b), {}, [bad])


def test_substitution_is_exact_around_products():
    x, w = torch.randn(5, 33), torch.randn(33, 8)
    with products.Launches() as launches:
        got = (x.to("presil") @ w.to("presil")).tanh()
        assert launches.count() == 1

        def again(context):
            with context:
                return (x @ w).tanh()

        assert products.explain(again, launches, got, "presil") is None
        assert "around 1 product" in products.explain(again, launches, got + 2.0**-20, "presil")


def test_crash_and_hang_are_named_and_the_rest_goes_on():
    tasks = [{"entry": name, "dtype": "float32", "first": 0, "every": 1} for name in ("fine", "crash", "hang", "fine")]
    answers = pool.run(tasks, module="faulty_worker", workers=1, cpu_limit=1, wall_limit=60)
    texts = {a["entry"]: a.get("crash", "") for a in answers}
    assert len(answers) == 4 and not texts["fine"]
    assert "status -6" in texts["crash"] and "sample 7, forward" in texts["crash"]
    assert "no end after" in texts["hang"]


def test_expectations_want_what_they_name_and_no_more():
    case = expected.Case(["a*"], ["float32"], ["forward"], "why", samples=[1])
    answer = {
        "entry": "add",
        "dtype": "float32",
        "first": 0,
        "every": 1,
        "ran": {"forward": 3},
        "failed": {"forward": {"1": "x"}},
    }
    assert expected.judge([answer], [case]) == []
    assert "sample 2: y" in expected.judge([answer | {"failed": {"forward": {"1": "x", "2": "y"}}}], [case])[0]
    assert "passes" in expected.judge([answer | {"failed": {}}], [case])[0]
    for gone in ({"entries": ["b*"]}, {"entries": ["add", "ad"]}, {"checks": ["forward", "forwards"]}):
        named = {"entries": ["add"], "dtypes": ["float32"], "checks": ["forward"], "reason": "why", "samples": [1]}
        assert "nothing of this name ran" in expected.judge([answer], [expected.Case(**(named | gone))])[0], gone
    assert "passes in 2 of 3" in expected.judge([answer], [expected.Case(["add"], ["float32"], ["forward"], "why")])[0]


def rounded_towards_zero(a, b):
    wide = torch.mm(a, b, out_dtype=torch.float32)
    return (wide.view(torch.int32) & -0x10000).view(torch.float32).to(a.dtype)


def sum_elsewhere(a, b, *, alpha=1, out):
    return (a.cpu() + alpha * b.cpu()).to("presil")


def resized_to_the_transposed(a, b, *, out):
    result = torch.mm(a, b).t()
    return out.resize_(result.shape).copy_(result)


def copied(x, size):
    return x.cpu().view(size).to("presil")


def operand_cleared_unheard(a, b):
    result = torch.mm(a.cpu(), b.cpu()).to("presil")
    torch_presil._C.host_view(a).zero_()
    return result


@pytest.mark.parametrize(
    "entry, dtype, operator, fault, found",
    [
        (
            "mm",
            torch.bfloat16,
            "mm",
            rounded_towards_zero,
            {"forward": "outside the bound", "view": "outside the bound"},
        ),
        ("add", torch.int64, "add.out", sum_elsewhere, {"inplace": "values differ", "out": "values differ"}),
        ("mm", torch.int64, "mm.out", resized_to_the_transposed, {"out": "shape"}),
        ("mm", torch.int64, "mm", operand_cleared_unheard, {"forward": "nobody was told"}),
        ("view", torch.int64, "view", copied, {"forward": "results alias inputs"}),
    ],
)
def test_a_fault_planted_in_the_device_is_found(entry, dtype, operator, fault, found):
    """A wrong rounding in an operator of the chip, a result that is not what it should alias, out= of a wrong shape,
    a write that is not announced, a view that is a copy."""
    checks_run = tuple(found)
    run = lambda: worker.run_entry(worker.entries()[entry], dtype, lambda text: None, checks_run)
    assert run()["failed"] == {}
    library = torch.library.Library("aten", "IMPL")  # noqa: TOR901
    try:
        library.impl(operator, fault, "PrivateUse1", allow_override=True)
        failed = run()["failed"]
    finally:
        library._destroy()
    assert {c for c in found if any(found[c] in text for text in failed.get(c, {}).values())} == set(found), failed
