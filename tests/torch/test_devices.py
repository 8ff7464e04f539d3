# SPDX-License-Identifier: Apache-2.0
"""Two devices, in a process of its own (PRESIL_DEVICES=2)."""

import os
import subprocess
import sys

CODE = """
import torch, torch_presil
P = torch.presil

def refused(text, f):
    try:
        f()
    except (RuntimeError, ValueError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")

assert P.device_count() == torch.accelerator.device_count() == 2
# copies, every way
x = torch.randn(30, 20)
a, b = x.to("presil:0"), x.to("presil:1")
assert (a.device.index, b.device.index) == (0, 1)
assert torch.equal(a.to("presil:1").cpu(), x) and torch.equal(b.to("presil:0").cpu(), x)
assert torch.equal(torch.empty_like(b).copy_(a).cpu(), x) and torch.equal(b.t().to("presil:0").cpu(), x.t())
assert torch.equal(a.to("presil:1", torch.float64).cpu(), x.double())
assert torch.equal(a[::2, 1:].to("presil:1", non_blocking=True).cpu(), x[::2, 1:])
# a launch's result reaches the other device
for i in range(20):
    y = torch.full((64, 64), float(i), device="presil:0") @ torch.eye(64, device="presil:0")
    z = y.to("presil:1") @ torch.eye(64, device="presil:1")
    assert z.mean().item() == i
# guards
P.set_device(1)
assert torch.ones(1, device="presil").device.index == 1
with P.device(0):
    assert torch.ones(1, device="presil").device.index == 0 == P.current_device()
    assert (b + b).device.index == 1 and (b @ b.t()).device.index == 1 and P.current_device() == 0
with P.device_of(a):
    assert P.current_device() == 0
assert P.current_device() == 1
P.set_device(0)
refused("at least two devices", lambda: a + b)
refused("at least two devices", lambda: torch.cat([a, b]))
refused("device", lambda: a @ b.t())
refused("out of range", lambda: torch.ones(1, device="presil:2"))
# streams, events: each device its own
s = P.Stream("presil:1")
with P.stream(s):
    assert P.current_device() == 1 and P.current_stream(1) == s and P.current_stream(0) == P.default_stream(0)
assert P.current_device() == 0 and P.current_stream(1) == P.default_stream(1)
e = P.Event()
e.record(P.current_stream(0))
s.wait_event(e)
s.synchronize()
for stream in (P.default_stream(1), s):  # work of the other device is waited for, on a default stream too
    product = a @ a.t()
    e.record(P.default_stream(0))
    stream.wait_event(e)
    stream.synchronize()
    assert e.query(), stream
refused("can't be recorded on a stream of presil:1", lambda: e.record(P.default_stream(1)))
refused("can't be recorded on a stream of presil:1", lambda: e.record(s))
# generators
P.manual_seed_all(3)
first = torch.rand(4, device="presil:0"), torch.rand(4, device="presil:1")
assert torch.equal(first[0].cpu(), first[1].cpu())
assert len(P.get_rng_state_all()) == 2
with torch.random.fork_rng(devices=[0, 1], device_type="presil"):
    inside = torch.rand(4, device="presil:1")
assert torch.equal(torch.rand(4, device="presil:1"), inside)
# statistics
P.synchronize(0), P.synchronize(1)
before = P.memory_allocated(0), P.memory_allocated(1)
big = torch.empty(1 << 20, device="presil:1")
assert (P.memory_allocated(0), P.memory_allocated(1)) == (before[0], before[1] + (4 << 20))
assert {s["device"] for s in P.memory_snapshot()} == {0, 1}
pool = P.MemPool("presil:1")
refused("is of presil:1", lambda: P.use_mem_pool(pool, 0).__enter__())
# autograd across them: gradients live where their tensors do
w = torch.eye(8, device="presil:0", requires_grad=True)
v = torch.full((8, 8), 2.0, device="presil:1", requires_grad=True)
((w @ w).to("presil:1") @ v).sum().backward()
assert w.grad.device.index == 0 and v.grad.device.index == 1
assert torch.equal(w.grad.cpu(), torch.full((8, 8), 32.0)) and torch.equal(v.grad.cpu(), torch.ones(8, 8))
# modules, and loading on the other one
m = torch.nn.Linear(4, 2).to("presil:1")
import io
f = io.BytesIO()
torch.save(m.state_dict(), f)
f.seek(0)
assert torch.load(f, map_location={"presil:1": "presil:0"})["weight"].device.index == 0
# properties
assert P.get_device_properties(1).total_memory == P.get_device_properties(0).total_memory
assert not P.can_device_access_peer(0, 1)
with torch.backends.presil.flags(mode="rtl"):
    ones = [torch.ones(16, 16, device=f"presil:{i}") for i in (0, 1)]
    r = [(x @ x).sum().item() for x in ones]
assert r == [4096.0, 4096.0]
print("done")
"""


def test_two_devices():
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "PRESIL_DEVICES": "2", "PRESIL_MEMORY": "2G"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr
