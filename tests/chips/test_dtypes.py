# SPDX-License-Identifier: Apache-2.0
"""float16, int16, float8 and int4 from PyTorch to a chip that has them (tests/chip_stub/any_chip.c, which takes every
operator of presil_op.h), against PyTorch on the CPU; and to one that has them not, whose results are the same."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build/check")).resolve()
COMMON = """
import json, torch, torch_presil, torch.nn.functional as F
torch.manual_seed(0)
where, wrong = {}, []

def moved(t):
    return t.to("presil") if isinstance(t, torch.Tensor) else t

def case(name, f, *xs, off=0.0, relative=0.0):
    want = f(*xs)
    torch.presil.reset_host_operators()
    with torch.inference_mode(), torch.presil.explain() as e:
        got = f(*map(moved, xs))
    rows = [r for r in e.operators() if r["where"] in ("chip", "host") and "_copy_from" not in r["op"]]
    where[name] = [(r["where"], r["reason"] or "") for r in rows]
    same = (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    if not same or not torch.allclose(got.cpu().double(), want.double(), rtol=relative, atol=off):
        wrong.append((name, str(want), str(got.cpu())))
"""
CASES = """
half = lambda *s: torch.randn(s).half()
short = lambda *s: torch.randint(-2**15, 2**15, s, dtype=torch.int16)
near = dict(off=2e-3, relative=2e-3)
case("half_mm", torch.mm, half(5, 7), half(9, 7).t(), **near)
case("half_addmm", torch.addmm, half(9), half(5, 7), half(7, 9), **near)
case("half_bmm", torch.bmm, half(2, 5, 7), half(2, 7, 9).transpose(0, 1).contiguous().transpose(0, 1), **near)
case("half_linear", F.linear, half(2, 3, 7), half(4, 7), half(4), **near)
case("half_add", torch.add, half(3, 4), half(4))
case("half_relu", torch.relu, half(3, 4))
case("half_softmax", lambda a: a.softmax(-1), half(3, 8), **near)
case("half_sum", lambda a: a.sum(0), half(3, 8), **near)
case("half_pool", lambda a: F.avg_pool2d(a, 2), half(1, 3, 4, 4), **near)
case("short_mm", torch.mm, short(5, 7), short(7, 3))
case("short_bmm", torch.bmm, short(2, 5, 7)[:, ::2], short(2, 3, 7).transpose(1, 2))
case("short_add", torch.add, short(3, 4), short(3, 4))
case("short_sum", lambda a: a.sum(1), short(3, 4))
case("short_rows", lambda a, i: a.index_select(0, i), short(6, 4), torch.tensor([5, 0]))
for name, type in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
    a, b = torch.randn(6, 32).to(type), torch.randn(16, 32).to(torch.float8_e4m3fn)
    one, columns, bias = torch.tensor(0.37), torch.rand(1, 16) + 0.1, torch.randn(16)
    scaled = lambda *xs, **k: torch._scaled_mm(xs[0], xs[1].t(), *xs[2:], **k)
    case(name, lambda *xs: scaled(*xs, out_dtype=torch.float32), a, b, one, one * 2, off=1e-4, relative=1e-5)
    with_bias = lambda a, b, s, t, bias: scaled(a, b, s, t, bias=bias, out_dtype=torch.float32)
    case(name + "_bias", with_bias, a, b, one, one, bias, off=1e-4, relative=1e-5)
    case(name + "_bfloat16", lambda *xs: scaled(*xs, out_dtype=torch.bfloat16), a, b, one, one, off=1e-2, relative=1e-2)
    case(name + "_rows", lambda *xs: scaled(*xs, out_dtype=torch.bfloat16), a, b, torch.rand(6, 1) + 0.1, columns,
         off=1e-2, relative=1e-2)
codes, weight = torch.randint(-128, 128, (2, 5, 12), dtype=torch.int8), torch.randint(0, 256, (7, 6)).to(torch.uint8)
int4 = torch.ops.presil.linear_int4
case("int4", int4, codes, weight, torch.tensor(0.25), off=1e-4, relative=1e-5)
case("int4_channels", int4, codes, weight, torch.rand(7), torch.randn(7), off=1e-4, relative=1e-5)
case("int4_rows_apart", int4, codes, weight.repeat(1, 2)[:, :6], torch.rand(7), off=1e-4, relative=1e-5)
case("int4_bfloat16", int4, torch.randn(3, 12).bfloat16(), weight, torch.rand(7), off=1e-4, relative=1e-5)
case("int4_nothing", int4, codes[:0], weight, torch.rand(7))
print("RESULT " + json.dumps([where, wrong]))
"""


def run(code: str, **environment) -> list:
    done = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(code)],
        env={**os.environ, "PRESIL_MEMORY": str(1 << 28), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(line[7:])


@pytest.fixture(scope="module")
def chip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    command = ["cc", "-std=c11", "-shared", "-fPIC", "-O1", f"-I{ROOT}/driver/include", f"-I{ROOT}/tests/c"]
    command += [str(ROOT / "tests/chip_stub/any_chip.c"), f"-L{BUILD}/lib", "-lpresil", f"-Wl,-rpath,{BUILD}/lib"]
    subprocess.run([*command, "-o", str(folder / "libpresil_chip_stub.so")], check=True)
    (folder / "libpresil_sim_stub_fast.so").symlink_to(BUILD / "lib/libpresil_sim_stub_fast.so")
    return {"PRESIL_CHIP": "stub", "PRESIL_LIBRARY_PATH": str(folder), "PRESIL_MODE": "verify"}


ON_HOST = {"e4m3_rows", "e5m2_rows", "int4_nothing"}


def test_a_chip_that_has_them(chip):
    where, wrong = run(CASES, **chip)
    assert wrong == []
    found = {name for name, rows in where.items() if [w for w, _ in rows] != ["chip"]}
    assert found == ON_HOST, {name: where[name] for name in found ^ ON_HOST}
    assert all("of rows" in where[name][0][1] for name in ("e4m3_rows", "e5m2_rows"))


@pytest.mark.parametrize("kind", ["matmul"])
def test_a_wrong_bit_is_the_chips(chip, kind):
    """In mode rtl nobody compares: PyTorch's result is what the chip wrote."""
    _, wrong = run(CASES, **chip | {"PRESIL_MODE": "rtl", "PRESIL_ANY": f"wrong={kind}"})
    names = {name for name, _, _ in wrong}
    assert {"half_mm", "half_linear", "short_mm", "e4m3", "e5m2_bias", "int4", "int4_channels"} <= names
    assert not names & ON_HOST


def test_a_chip_that_has_them_not():
    where, wrong = run(CASES, PRESIL_CHIP="picky", PRESIL_MODE="model")
    assert wrong == []
    assert not [name for name, rows in where.items() if "chip" in [w for w, _ in rows] and name[:4] != "half"]
    assert ["host", "_scaled_mm: picky computes in float32"] in where["e4m3"]
    assert ["host", "linear_int4: picky computes in float32"] in where["int4"]
    assert ["host", "mm: picky computes in float32"] in where["short_mm"]
    for name in ("half_mm", "half_addmm", "half_linear"):
        assert ["host", "float16 operands are widened to float32"] in where[name]
        assert ["host", "float32 results are rounded to float16"] in where[name]
