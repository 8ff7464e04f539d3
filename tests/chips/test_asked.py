# SPDX-License-Identifier: Apache-2.0
"""What PyTorch asks a chip, and what becomes of its "no": picky/ has most kinds of operators and refuses by shape. In
eager mode, compiled, ahead of time, through TorchScript, in a captured graph; also where only plan() refuses, and where
there is no supports(). Each case is a process of its own: a process has one kind of chip."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", "build/check"))
COMMON = """
import json, sys, torch, torch_presil, torch.nn.functional as F
from torch import nn
torch.manual_seed(0)

def rows(e):
    return [(r["op"].split("::")[1], r["where"], r["reason"] or "") for r in e.operators() if r["where"] != "metadata"]

def tell(**what):
    print("RESULT " + json.dumps(what))

def close(a, b):
    torch.testing.assert_close(a.detach().cpu().float(), b.detach().float(), rtol=1e-4, atol=1e-4)
"""


def run(code: str, chip: str = "picky", **more) -> dict:
    environment = {**os.environ, "PRESIL_CHIP": chip, "PRESIL_MODE": "model", "PRESIL_MEMORY": str(1 << 30), **more}
    done = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(code)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(line[7:])


EAGER = """
def once(f, *xs):
    torch.presil.reset_host_operators()
    with torch.inference_mode(), torch.presil.explain() as e:
        y = f(*[x.to("presil") for x in xs])
    close(y, f(*xs))
    assert y.stride() == f(*xs).stride()
    moves = ("pack_weights", "_copy_from")
    by = [(op, where, why) for op, where, why in rows(e) if where in ("chip", "host") and op not in moves]
    # An rms_norm that the chip refuses is PyTorch's own sequence on the host; all of it bears the one reason.
    assert len(by) == 1 or {(where, why.split(":")[0]) for _, where, why in by} == {("host", "rms_norm")}, by
    counted = torch.presil.host_operators()
    assert bool(counted) == (by[0][1] == "host"), counted
    assert all(row["reason"] == by[0][2] for row in counted.values()), counted
    return by[0][1:]
x, w, k = torch.randn(2, 8, 9, 9), torch.randn(9), torch.randn
tell(
    relu=once(torch.relu, x),
    sigmoid=once(torch.sigmoid, x),
    tanh=once(torch.tanh, x),
    exp=once(torch.exp, x),
    neg=once(torch.neg, x),
    silu=once(F.silu, x),
    gelu=once(F.gelu, x),
    gelu_tanh=once(lambda a: F.gelu(a, approximate="tanh"), x),
    hardswish=once(F.hardswish, x),
    hardsigmoid=once(F.hardsigmoid, x),
    relu6=once(F.relu6, x * 4),
    hardtanh=once(lambda a: F.hardtanh(a, -0.3, 0.7), x),
    clamp=once(lambda a: a.clamp(-0.1, 0.2), x.contiguous(memory_format=torch.channels_last)),
    clamp_min=once(lambda a: a.clamp(min=0.1), x.transpose(1, 2)),
    clamp_max=once(lambda a: torch.clamp_max(a, 0.1), x),
    add=once(torch.add, x, k(8, 1, 1)),
    large_add=once(torch.add, k(80, 80), k(80, 80)),
    mul=once(torch.mul, x, x),
    softmax=once(lambda a: a.softmax(-1), x),
    log_softmax=once(lambda a: a.log_softmax(-1), x),
    softmax_of_pixels=once(lambda a: a.softmax(-1), x.contiguous(memory_format=torch.channels_last)),
    softmax_of_channels=once(lambda a: a.softmax(1), x),
    max_pool=once(lambda a: F.max_pool2d(a, 2), x),
    large_max_pool=once(lambda a: F.max_pool2d(a, 4), x),
    average_pool=once(lambda a: F.avg_pool2d(a, 3, 2, 1), x),
    average_without_padding=once(
        lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), x.contiguous(memory_format=torch.channels_last)
    ),
    ceil_mode=once(lambda a: F.avg_pool2d(a, 2, 2, ceil_mode=True), x),
    layer_norm=once(lambda a, w, b: F.layer_norm(a, [9], w, b), x, w, w),
    plane_norm=once(lambda a, w: F.layer_norm(a, [9, 9], w), x, k(9, 9)),
    batch_norm=once(lambda a, m, v: F.batch_norm(a, m, v), x, k(8), k(8).abs()),
    batch_norm_of_pixels=once(
        lambda a, m, v, w, b: F.batch_norm(a, m, v, w, b, eps=0.1),
        x.contiguous(memory_format=torch.channels_last), k(8), k(8).abs(), k(8), k(8)
    ),
    batch_norm_of_columns=once(lambda a, m, v, w: F.batch_norm(a, m, v, w), k(3, 7), k(7), k(7).abs(), k(7)),
    batch_norm_of_a_view=once(lambda a, m, v: F.batch_norm(a, m, v), x.transpose(1, 3), k(9), k(9).abs()),
    wide_batch_norm=once(lambda a, m, v: F.batch_norm(a, m, v), k(2, 17, 3), k(17), k(17).abs()),
    own_batch_norm=once(lambda a: F.batch_norm(a, None, None, training=True), x),
    group_norm=once(lambda a, w, b: F.group_norm(a, 2, w, b), x, k(8), k(8)),
    group_norm_of_pixels=once(lambda a: F.group_norm(a, 4), x.contiguous(memory_format=torch.channels_last)),
    group_norm_of_lines=once(lambda a, w: F.group_norm(a, 1, w, eps=0.2), k(2, 6, 5), k(6)),
    group_norm_of_columns=once(lambda a: F.group_norm(a, 3), k(4, 6)),
    wide_group_norm=once(lambda a: F.group_norm(a, 2), k(2, 18, 4)),
    rms_norm=once(lambda a, w: F.rms_norm(a, [9], w), x, w),
    rms_norm_of_a_view=once(lambda a: F.rms_norm(a, [8], eps=0.1), x.transpose(1, 3)),
    rms_norm_of_pixels=once(lambda a: F.rms_norm(a, [9]), x.contiguous(memory_format=torch.channels_last)),
    conv=once(lambda a, k: F.conv2d(a, k), x, k(4, 8, 3, 3)),
    large_conv=once(lambda a, k: F.conv2d(a, k), x, k(4, 8, 5, 5)),
    grouped_conv=once(lambda a, k: F.conv2d(a, k, groups=2), x, k(4, 4, 3, 3)),
    mm=once(torch.mm, k(5, 6), k(6, 7)),
    long_mm=once(torch.mm, k(5, 100), k(100, 7)),
    bmm=once(torch.bmm, k(3, 5, 100), k(3, 100, 7)),
    addmm=once(torch.addmm, k(7), k(5, 100), k(100, 7)),
    conv_transpose=once(lambda a, k: F.conv_transpose2d(a, k, None, 2, 1, 1), x, k(8, 4, 3, 3)),
    grouped_transpose=once(
        lambda a, w, b: F.conv_transpose2d(a, w, b, 3, 0, 0, 2, (1, 2)),
        x.contiguous(memory_format=torch.channels_last), k(8, 3, 5, 2), k(6)
    ),
    line_transpose=once(lambda a, k: F.conv_transpose1d(a, k, stride=2), k(2, 5, 7), k(5, 3, 4)),
    wide_transpose=once(lambda a, k: F.conv_transpose2d(a, k, stride=2), k(1, 17, 4, 4), k(17, 2, 3, 3)),
    sum=once(lambda a: a.sum((0, -2)), x),
    sum_of_all=once(torch.sum, x),
    sum_kept=once(lambda a: a.sum(1, keepdim=True), x.transpose(1, 3)),
    sum_of_halves=once(lambda a: a.half().sum(-1), x),
    mean=once(lambda a: a.mean((-1, -2), keepdim=True), x.contiguous(memory_format=torch.channels_last)),
    global_pool=once(lambda a: F.adaptive_avg_pool2d(a, 1), x),
    amax=once(lambda a: a.amax(0), x),
    amin=once(lambda a: a.amin(()), x),
    maximum=once(torch.max, x),
    minimum=once(torch.min, x[:, ::2, 3:]),
    prod=once(lambda a: a.prod(-1), x),
    embedding=once(F.embedding, torch.randint(0, 20, (3, 5)), k(20, 6)),
    large_embedding=once(F.embedding, torch.randint(0, 20, (3, 5)), k(80, 6)),
    index_select=once(lambda a, i: a.index_select(-1, i), x, torch.tensor([8, 0, 3, 3], dtype=torch.int32)),
    index_of_columns=once(lambda a, i: a.index_select(1, i), x.transpose(1, 2), torch.tensor(4)),
    gather=once(lambda a, i: a.gather(2, i), x, torch.randint(0, 9, (2, 7, 4, 9))),
)
"""
CHIP = ["chip", ""]
CURVES = "sigmoid", "tanh", "exp", "neg", "silu", "hardswish", "hardsigmoid"
WANTED = {
    "relu": CHIP,
    **{name: ["host", f"{name}: picky has relu, gelu, clamp and add"] for name in CURVES},
    **dict.fromkeys(["gelu", "gelu_tanh", "relu6", "hardtanh", "clamp", "clamp_min", "clamp_max"], CHIP),
    "add": CHIP,
    "large_add": ["host", "add: picky adds up to 4096 elements"],
    "mul": ["host", "mul: picky has relu, gelu, clamp and add"],
    "softmax": CHIP,
    "log_softmax": CHIP,
    "softmax_of_pixels": CHIP,
    "softmax_of_channels": ["host", "softmax: picky has softmax of the last dimension"],
    "max_pool": CHIP,
    "large_max_pool": ["host", "max_pool2d: picky has windows up to 3 x 3"],
    "average_pool": CHIP,
    "average_without_padding": CHIP,
    "ceil_mode": ["host", "a window beyond the padding"],
    "layer_norm": CHIP,
    "plane_norm": ["host", "layer_norm: picky normalises the last dimension"],
    **{f"batch_norm{of}": CHIP for of in ("", "_of_pixels", "_of_columns", "_of_a_view")},
    "wide_batch_norm": ["host", "batch_norm: picky normalises up to 16 channels"],
    "own_batch_norm": ["host", "over the statistics of its own input"],
    **{f"group_norm{of}": CHIP for of in ("", "_of_pixels", "_of_lines", "_of_columns")},
    "wide_group_norm": ["host", "group_norm: picky normalises up to 16 channels"],
    **dict.fromkeys(["rms_norm", "rms_norm_of_a_view", "rms_norm_of_pixels"], CHIP),
    "conv": CHIP,
    "large_conv": ["host", "conv2d: picky has kernels up to 3 x 3"],
    "grouped_conv": ["host", "weights: picky has neither groups nor transposed convolutions"],
    "mm": CHIP,
    "long_mm": ["host", "mm: picky adds up to 64 products"],
    "bmm": ["host", "bmm: picky adds up to 64 products"],
    "addmm": ["host", "addmm: picky adds up to 64 products"],
    **dict.fromkeys(["conv_transpose", "grouped_transpose", "line_transpose"], CHIP),
    "wide_transpose": ["host", "conv_transpose2d: picky transposes up to 16 channels"],
    **dict.fromkeys(["sum", "sum_of_all", "sum_kept", "mean", "global_pool", "amax", "amin"], CHIP),
    "maximum": CHIP,
    "minimum": CHIP,
    "sum_of_halves": ["host", "sum: picky computes in float32"],
    "prod": ["host", "prod: picky multiplies nothing up"],
    "embedding": CHIP,
    "large_embedding": ["host", "index_select: picky has tables up to 64 rows"],
    "index_select": CHIP,
    "index_of_columns": CHIP,
    "gather": CHIP,
}


def test_eager_asks_for_each_operator():
    assert run(EAGER) == WANTED


def test_without_supports_the_answers_are_the_same():
    assert run(EAGER, PRESIL_PICKY="mute") == WANTED


def test_a_plan_that_refuses_after_supports_said_yes():
    found = run(EAGER, PRESIL_PICKY="late")
    assert set(found) == set(WANTED)
    for name, (where, why) in found.items():
        assert where == "host", name
        if WANTED[name] == CHIP:
            assert why.endswith("picky thought better of it"), name


def test_results_that_pytorch_refuses_or_types_otherwise_are_not_the_chips():
    found = run("""
    import torch.autograd.forward_ad as forward
    x = torch.randn(2, 4, 6, 6)

    def whole(f):
        try:
            return f().cpu().flatten()[0].item()
        except Exception as error:
            return str(error)

    def both(f):
        return [whole(lambda: f(lambda t: t)), whole(lambda: f(lambda t: t.to("presil")))]

    def shifted(to):
        line = to(torch.arange(9.0))
        return torch.add(line[:8], line[:8], out=line[1:])

    def tangent(f):
        def of(to):
            with forward.dual_level():
                y = f(forward.make_dual(to(x), to(torch.ones_like(x))))
                tangent = forward.unpack_dual(y).tangent
                return tangent if tangent is None else tangent.sum()
        return of

    with torch.no_grad():
        y = x.to("presil")
        errors = dict(
            shifted=both(shifted),
            expanded=both(lambda to: torch.add(to(x[0, 0, 0]), to(x[0, 0, 1]), out=to(torch.ones(1)).expand(6))),
            weight=both(lambda to: F.layer_norm(to(x), [6, 6], to(torch.ones(6)))),
            divisor=both(lambda to: F.avg_pool2d(to(x), 2, divisor_override=0)),
            dtype=both(lambda to: torch.softmax(to(x), -1, out=to(torch.ones(2, 4, 6, 6).int()))),
        )
        elsewhere = whole(lambda: torch.add(y, y, out=torch.ones(2, 4, 6, 6)))
        pool, norm = lambda t: F.max_pool2d(t, 2), lambda t: F.layer_norm(t, [6])
        tangents = dict(pool=both(tangent(pool)), norm=both(tangent(norm)))
        whole_numbers = torch.ones(4, dtype=torch.int32).to("presil")
        torch.presil.reset_host_operators()
        dtypes = [str(t.dtype) for t in (whole_numbers.exp(), whole_numbers / whole_numbers)]
    reasons = {row["reason"] for row in torch.presil.host_operators().values()}
    tell(errors=errors, elsewhere=elsewhere, tangents=tangents, dtypes=dtypes, reasons=sorted(reasons))
    """)
    for name, (cpu, ours) in found["errors"].items():
        assert isinstance(cpu, str) and ours == cpu, name
    assert "same device" in found["elsewhere"]
    for name, (cpu, ours) in found["tangents"].items():
        assert ours == pytest.approx(cpu, abs=1e-4), name
    assert found["dtypes"] == ["torch.float32"] * 2
    assert found["reasons"] == ["of integers, whose result is a float"]


def test_reductions_and_gathers_at_their_edges():
    """Values, types, strides and errors are the CPU's, whoever computed."""
    found = run("""
    x, table = torch.randn(2, 3, 4, 5), torch.randn(6, 4)
    nan = x.clone()
    nan[1, 2, 0] = float("nan")
    i = lambda *v, **k: torch.tensor(v, **k)
    grid = torch.randint(0, 3, (2, 3, 2, 5))

    def into(to, f, out):
        out = to(out)
        f(out)
        return out

    def own(to):
        line = to(torch.arange(12.0))
        return torch.sum(line.view(3, 4), 0, out=line[2:6]), line

    def own_gather(to):
        line = to(torch.arange(12.0))
        return torch.index_select(line.view(3, 4), 0, to(i(2, 0)), out=line[:8].view(2, 4)), line

    def expanded(to):
        return torch.amax(to(x), -1, out=to(torch.ones(4)).expand(2, 3, 4))

    cases = dict(
        empty=lambda to: to(x)[:0].sum(1), none=lambda to: to(x)[:, :0].sum(1), none_of_all=lambda to: to(x)[:0].sum(),
        largest_of_none=lambda to: to(x)[:, :0].amax(1), largest=lambda to: to(x)[:0].amax(1),
        number=lambda to: to(torch.tensor(3.0)).sum(), twice=lambda to: to(x).sum((1, -3)),
        beyond=lambda to: to(x).sum(4),
        mean_of_integers=lambda to: to(i(1, 2)).mean(), integers=lambda to: to(i(1, 2, dtype=torch.int8)).sum(0),
        rounded=lambda to: to(x).sum(0, dtype=torch.bfloat16), cut=lambda to: to(x * 9).sum(0, dtype=torch.int32),
        wrong_out=lambda to: into(to, lambda o: torch.sum(to(x), 0, out=o), torch.ones(4, dtype=torch.int32)),
        wrong_type=lambda to: torch.sum(to(x), 0, dtype=torch.float64, out=to(torch.ones(3, 4, 5))),
        resized=lambda to: into(to, lambda o: torch.mean(to(x), (0, 2), out=o), torch.ones(0)),
        out=lambda to: into(to, lambda o: torch.amin(to(x), (-1, 0), True, out=o.t()), torch.ones(1, 1)),
        strided_out=lambda to: into(to, lambda o: torch.sum(to(x), (0, 1), out=o[::2].t()), torch.zeros(10, 4)),
        own=own, own_gather=own_gather, expanded=expanded, nan=lambda to: to(nan).amax((1, 2)),
        nan_below=lambda to: to(nan).amin((1, 2)), turned=lambda to: to(x).flip(1).permute(3, 0, 2, 1).sum((0, 2)),
        spread=lambda to: to(x[:, :1]).expand(2, 7, 4, 5).mean(1),
        last=lambda to: to(x).contiguous(memory_format=torch.channels_last).sum(1, keepdim=True),
        beyond_table=lambda to: F.embedding(to(i(1, 6)), to(table)),
        before=lambda to: F.embedding(to(i(-1)), to(table)),
        no_rows=lambda to: to(table).index_select(0, to(i(dtype=torch.int64))),
        no_table=lambda to: to(table)[:0].index_select(0, to(i(0))),
        no_columns=lambda to: to(table)[:, :0].index_select(0, to(i(1, 2))),
        rows=lambda to: to(table).t().index_select(-1, to(torch.arange(12).view(2, 6)[:, 1::2])[0, :2]),
        square=lambda to: to(table).index_select(0, to(torch.zeros(2, 2, dtype=torch.int64))),
        floats=lambda to: to(table).index_select(0, to(torch.ones(2))),
        scalar=lambda to: to(torch.tensor(4.0)).index_select(0, to(i(0))),
        small=lambda to: to(x).gather(-2, to(grid)), wide=lambda to: to(x).gather(0, to(grid.repeat(1, 2, 1, 1))),
        flat=lambda to: to(x).gather(1, to(i(0))), gather_beyond=lambda to: to(x).gather(1, to(grid + 1)),
        gather_turned=lambda to: to(x).transpose(0, 3).gather(2, to(grid).transpose(0, 3)),
        padding=lambda to: F.embedding(to(i(1, 0)), to(table), padding_idx=0),
        rotated=lambda to: F.conv_transpose2d(to(x).transpose(2, 3), to(x).permute(1, 0, 3, 2)[:, :, :3]),
        no_channels=lambda to: F.conv_transpose2d(to(x)[:0], to(x).transpose(0, 1)),
    )

    def whole(f, to):
        try:
            y = f(to)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return [(str(t.dtype), list(t.shape), t.stride(), t.cpu()) for t in (y if isinstance(y, tuple) else (y,))]

    wrong = []
    for name, f in cases.items():
        want, got = whole(f, lambda t: t), whole(f, lambda t: t.to("presil"))
        same = type(want) is type(got) and (want == got if isinstance(want, str) else all(
            a[:3] == b[:3] and torch.allclose(a[3], b[3], 1e-4, 1e-5, equal_nan=True) for a, b in zip(want, got)))
        if not same:
            wrong.append((name, str(want), str(got)))
    tell(wrong=wrong)
    """)
    assert found["wrong"] == []


def test_transposed_convolutions_reductions_and_tables_in_a_compiled_graph():
    found = run("""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.up = nn.Embedding(10, 16), nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)

        def forward(self, i):
            x = self.table(i).view(-1, 4, 2, 2)
            return self.up(x).relu().mean((2, 3)).amax(1)

    net, i = Net().eval(), torch.randint(0, 10, (3,))
    want = net(i)
    compiled = torch.compile(net.to("presil"), backend="presil")
    with torch.no_grad():
        for _ in range(2):
            close(compiled(i.to("presil")), want)
        torch.presil.reset_host_operators()
        with torch.presil.explain() as e:
            close(compiled(i.to("presil")), want)
        host = torch.presil.host_operators()
        net.up.weight.mul_(2)
        close(compiled(i.to("presil")), Net.forward(net.cpu(), i))
    from torch_presil.compiler import backend
    tell(rows=rows(e), host=host, left_out=backend.graphs[0].left_out)
    """)
    assert found["host"] == {} and found["left_out"] == {}
    on_chip = {op.split(".")[0] for op, where, _ in found["rows"] if where == "chip"}
    assert on_chip == {"index_select", "inference", "mean", "amax"}


def test_a_table_in_a_captured_graph_is_looked_at_in_every_replay():
    found = run("""
    table, i = torch.randn(6, 4).to("presil"), torch.tensor([1, 2]).to("presil")
    graph = torch.presil.PresilGraph()
    with torch.no_grad(), torch.presil.explain() as e:
        with torch.presil.graph(graph):
            y = F.embedding(i, table).sum(0)
    i.copy_(torch.tensor([5, 0]))
    graph.replay()
    close(y, F.embedding(i.cpu(), table.cpu()).sum(0))
    i.copy_(torch.tensor([5, 6]))
    try:
        graph.replay()
        torch.presil.synchronize()
    except Exception as error:
        tell(text=str(error), rows=rows(e))
    """)
    assert "index out of range" in found["text"]
    assert ["index_select", "host", "the host looks at the index in every replay"] in found["rows"]
    assert any(op.startswith("sum") and where == "chip" for op, where, _ in found["rows"])


SEVERAL = """
x = torch.randn(2, 3, 9, 8)
nan = x.round()
nan[0, 1, 2:4, 3] = float("nan")
line = lambda to: to(torch.zeros(2 * 3 * 4 * 4))

def pooled_out(to):
    y, i = line(to).view(2, 3, 4, 4), line(to).long().view(2, 3, 4, 4)
    torch._C._nn.max_pool2d_with_indices(to(x), 2, out=(y, i))
    return y, i

pool = lambda to, t, *a, **k: F.max_pool2d(to(t), *a, return_indices=True, **k)
norm = lambda to, t, shape, *a: torch.native_layer_norm(to(t), shape, *[to(w) if w is not None else w for w in a], 1e-3)
last = torch.channels_last
cases = dict(
    pool=lambda to: pool(to, x, 2),
    padded=lambda to: pool(to, nan, 3, 2, 1), dilated=lambda to: pool(to, nan, 2, 1, 1, 2),
    last=lambda to: pool(to, x.contiguous(memory_format=last), 3, 2), plane=lambda to: pool(to, x[0], 2),
    turned=lambda to: pool(to, x.transpose(2, 3), 2), out=pooled_out, ceil=lambda to: pool(to, x, 2, ceil_mode=True),
    empty=lambda to: pool(to, x[:0], 2), no_planes=lambda to: pool(to, x[:, :0], 2), large=lambda to: pool(to, x, 4),
    norm=lambda to: norm(to, x, [8], torch.randn(8).abs(), torch.ones(8)), bare=lambda to: norm(to, x, [8], None, None),
    planes=lambda to: norm(to, x, [9, 8], None, None), no_rows=lambda to: norm(to, x[:0], [8], None, None),
    columns=lambda to: norm(to, x.transpose(1, 3), [3], None, torch.ones(3)),
    wrong=lambda to: norm(to, x, [7], None, None),
    bfloat16=lambda to: norm(to, x.bfloat16(), [8], None, None),
    mixed=lambda to: norm(to, x.bfloat16(), [8], torch.ones(8), None),
)
where, wrong = {}, []
for name, f in cases.items():
    def whole(to):
        torch.manual_seed(1)
        try:
            return [(t.dtype, t.shape, t.stride(), t.cpu()) for t in f(to)]
        except RuntimeError as error:
            return str(error)
    want = whole(lambda t: t)
    with torch.presil.explain() as e:
        got = whole(lambda t: t.to("presil"))
    near = lambda a, b: torch.allclose(a.float(), b.float(), 1e-4, 1e-4, equal_nan=True)
    same = want == got if isinstance(want, str) else all(a[:3] == b[:3] and near(a[3], b[3]) for a, b in zip(want, got))
    if not same:
        wrong.append((name, str(want), str(got)))
    mine = ("max_pool2d", "native_layer_norm")
    ran = [(w, why) for op, w, why in rows(e) if op.startswith(mine) and w in ("chip", "host")]
    where[name] = ran[-1] if ran else ("raised", "")
tell(where=where, wrong=wrong)
"""


def test_several_outputs():
    found = run(SEVERAL)
    assert found["wrong"] == []
    on_chip = {name for name, (where, _) in found["where"].items() if where == "chip"}
    assert on_chip == {"pool", "padded", "dilated", "last", "plane", "turned", "out", "norm", "bare", "columns"}
    assert found["where"]["large"] == ["host", "max_pool2d_with_indices: picky has windows up to 3 x 3"]
    assert found["where"]["planes"][1].startswith("several dimensions without a weight")


def test_a_chip_with_one_output_leaves_the_others_to_the_host():
    found = run(SEVERAL, PRESIL_PICKY="short")
    assert found["wrong"] == []
    whys = {name: (where, why) for name, (where, why) in found["where"].items()}
    assert whys["pool"] == ("host", "max_pool2d_with_indices: picky counts no places")
    assert whys["norm"] == ("host", "native_layer_norm: picky keeps no statistics")


def test_gradients_of_what_the_chip_computes():
    found = run("""
    layers = [nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, 5)]
    net = nn.Sequential(*layers)
    x = torch.randn(2, 3, 8, 8)
    grads = []
    for device in ("cpu", "presil"):
        net.to(device).zero_grad()
        with torch.presil.explain() as e:
            net(x.to(device)).softmax(-1).square().sum().backward()
        grads.append([p.grad.cpu().clone() for p in net.parameters()])
    for a, b in zip(*grads):
        close(b, a)
    tell(rows=rows(e))
    """)
    on_chip = {op.split(".")[0] for op, where, _ in found["rows"] if where == "chip"}
    assert {"relu", "_softmax", "convolution_overrideable", "max_pool2d_with_indices", "native_layer_norm"} <= on_chip


COMPILED = """
from torch_presil.compiler import backend
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU(),
                    nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 6)).eval()
x = torch.randn(2, 3, 8, 8)
want = net(x)
compiled = torch.compile(net.to("presil"), backend="presil")
X = x.to("presil")
with torch.no_grad():
    for _ in range(2):
        close(compiled(X), want)
    torch.presil.reset_host_operators()
    with torch.presil.explain() as e:
        close(compiled(X), want)
(graph,) = backend.graphs
tell(partitions=graph.partitions, operators=graph.chip_operators, left_out=graph.left_out, refused=graph.refused,
     rows=rows(e), host=torch.presil.host_operators())
"""


@pytest.mark.parametrize("how", ["", "mute"])
def test_a_compiled_graph_leaves_out_what_the_chip_refuses(how):
    found = run(COMPILED, PRESIL_PICKY=how)
    # A linear layer is a convolution of one position there: the limit of 64 products is not its.
    (left,) = found["left_out"].items()
    assert left[0] == "convolution_1" and left[1].endswith("picky has kernels up to 3 x 3")
    assert (found["partitions"], found["operators"], found["refused"]) == (3, 3, [])
    names = {op: (where, reason) for op, where, reason in found["rows"]}
    assert [names[f"inference.{i}"][0] for i in range(3)] == ["chip"] * 3
    assert names["inference.convolution_1"][0] == "composite"
    assert "picky has kernels up to 3 x 3" in names["inference.convolution_1"][1]
    assert "picky has kernels up to 3 x 3" in names["convolution_overrideable"][1]
    assert found["host"]["aten::convolution_overrideable"]["calls"] == 1


def test_a_compiled_graph_asks_for_maxima_and_norms_without_the_results_that_only_gradients_read():
    found = run("""
    net = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.LayerNorm(27), nn.Linear(27, 4)).eval()
    x = torch.randn(2, 3, 6, 6)
    want = net(x)
    compiled = torch.compile(net.to("presil"), backend="presil")
    with torch.no_grad():
        close(compiled(x.to("presil")), want)
        with torch.presil.explain() as e:
            close(compiled(x.to("presil")), want)
    tell(rows=rows(e))
    """)
    assert not [row for row in found["rows"] if row[1] == "host" and row[0] != "_copy_from"]
    on_chip = {op.split(".")[0] for op, where, _ in found["rows"] if where == "chip"}
    assert on_chip == {"max_pool2d", "layer_norm", "inference"}


def test_a_compiled_graph_whose_plans_refuse_after_all():
    found = run(COMPILED, PRESIL_PICKY="late")
    assert found["partitions"] == 3 and len(found["refused"]) == 3
    assert not [row for row in found["rows"] if row[1] == "chip"]
    notes = [why for op, where, why in found["rows"] if op.startswith("inference.") and where == "composite"]
    assert sum("picky thought better of it" in why for why in notes) == 3, notes


def test_a_program_ahead_of_time_names_what_the_chip_refuses():
    found = run("""
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 5)).eval()
    try:
        torch.presil.aot_save(torch.export.export(net, (torch.randn(1, 3, 12, 12),)), "/dev/null/x")
    except ValueError as error:
        tell(text=str(error))
    """)
    assert "conv (presil: " in found["text"] and "picky has kernels up to 3 x 3" in found["text"]


def test_torchscript_and_graph_capture():
    found = run("""
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 5)).eval()
    x = torch.randn(2, 3, 12, 12)
    want = net(x)
    X = x.to("presil")
    with torch.no_grad():
        scripted = torch._C._jit_to_backend("presil", torch.jit.script(net), {"forward": ""})
        with torch.presil.explain() as e:
            close(scripted(X), want)
        net.to("presil")
        graph = torch.presil.PresilGraph()
        with torch.presil.graph(graph):
            y = net(X)
        X.copy_(x * 2)
        graph.replay()
        close(y, net.cpu()(x * 2))
        kernel, groups = torch.randn(4, 1, 3, 3), torch.presil.PresilGraph()
        K = kernel.to("presil")
        with torch.presil.graph(groups):  # no such weights
            y = F.conv2d(X[:, :2], K, groups=2)
        groups.replay()
        close(y, F.conv2d(x[:, :2] * 2, kernel, groups=2))
    tell(rows=rows(e))
    """)
    assert any(where == "host" and "picky has kernels up to 3 x 3" in reason for _, where, reason in found["rows"])
    assert any(where == "chip" for _, where, _ in found["rows"])


def test_strict_mode_raises_the_chips_reason():
    found = run("""
    torch.backends.presil.strict = True
    x = torch.randn(2, 3, 9, 9).to("presil")
    texts = []
    kernel = torch.ones(1, 3, 5, 5).to("presil")
    for f in (lambda: F.max_pool2d(x, 4), lambda: x.softmax(1), lambda: F.conv2d(x, kernel)):
        try:
            with torch.no_grad():
                f()
        except RuntimeError as error:
            texts.append(str(error))
    tell(texts=texts)
    """)
    for text, wanted in zip(
        found["texts"], ["windows up to 3 x 3", "the last dimension", "kernels up to"], strict=True
    ):
        assert wanted in text


def test_maxima_of_int8_reach_the_chip_from_a_quantized_network():
    code = """
    from torch_presil.fuse import fuse
    from torch_presil.quantize import quantize
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(WINDOW), nn.Conv2d(4, 4, 3)]
    net, x = nn.Sequential(*layers).eval(), torch.randn(2, 3, 20, 20)
    q = quantize(fuse(net, x), [x])
    want = q(x)
    with torch.inference_mode(), torch.presil.explain() as e:
        got = q.to("presil")(x.to("presil")).cpu()
    assert torch.equal(got, want)
    tell(rows=rows(e))
    """
    found = run(code.replace("WINDOW", "2"))["rows"]
    assert ["max_pool2d", "chip", ""] in found
    found = run(code.replace("WINDOW", "4"))["rows"]
    whys = {why for op, where, why in found if where == "host" and op.startswith("max_pool2d_with_indices")}
    assert whys == {"max_pool2d: picky has windows up to 3 x 3"}
