# SPDX-License-Identifier: Apache-2.0
"""Packed weights are those of now: every kind of write, by every user of packed weights, and while another thread
packs. Collectives: test_distributed.py."""

import copy
import ctypes
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.dlpack import from_dlpack, to_dlpack

from torch_presil import _C
from torch_presil.compiler import backend


# ---- users: a function of nothing that gives what the net computes with its weights of now
def eager(net, x):
    return lambda: net(x)


def compiled(net, x):
    model = torch.compile(net, backend="presil")
    return lambda: model(x)


def graph(net, x):
    g = torch.presil.PresilGraph()
    with torch.presil.graph(g):
        out = net(x)

    def replay():
        g.replay()
        return out

    return replay


def torchscript(net, x):
    traced = torch.jit.trace(net, x)
    return lambda: traced(x)


# ---- writes: (net) -> None, on the device and on the CPU's copy alike
def filled(t, value=0.25):
    return torch.full_like(t, value)


def through_dlpack(t):
    return torch.from_dlpack(t.detach())


def by_address(t, address):
    data = (ctypes.c_float * t.numel()).from_address(address(t))
    torch.presil.synchronize()
    for i in range(t.numel()):
        data[i] = 0.125 * (i % 5)


def resized(t):
    t.resize_(0)
    t.resize_(4, 3, 3, 3)
    t.fill_(0.5)


def freed_and_made_again(net):
    """The new weight lies where the old one was."""
    shape, where = net[0].weight.shape, net[0].weight.device
    net[0].weight.data = torch.empty(0, device=where)
    net[0].weight.data = torch.ones(shape, device=where)


def trained(net):
    net[1].train()
    net[1](torch.arange(2 * 4 * 5 * 5.0).view(2, 4, 5, 5).sin().mul(3).to(net[0].weight.device))
    net[1].eval()


def batch_norm_out(net):
    n, where = net[1], net[0].weight.device
    x = torch.arange(2 * 4 * 5 * 5.0).view(2, 4, 5, 5).cos().mul(2).to(where)
    results = [torch.empty(0, device=where) for _ in range(3)]
    torch.ops.aten.native_batch_norm.out(
        x,
        n.weight,
        n.bias,
        n.running_mean,
        n.running_var,
        True,
        0.3,
        1e-5,
        out=results[0],
        save_mean=results[1],
        save_invstd=results[2],
    )


def optimised(net, kind, **options):
    parameters = [p for p in net.parameters()]
    optimizer = kind(parameters, lr=0.3, **options)
    for p in parameters:
        p.grad = filled(p, 0.7)
    optimizer.step()
    for p in parameters:
        p.grad = None


def from_pinned_memory(net):
    source = torch.full((4, 3, 3, 3), 0.75)
    if net[0].weight.device.type == "presil":
        source = source.pin_memory()
    net[0].weight.copy_(source, non_blocking=True)


def by_another_thread(net):
    def write():
        with torch.no_grad():
            net[0].weight.mul_(-3)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


def by_a_launch(net):
    """The chip writes the memory: the result of a graph is the weight."""
    w = net[0].weight
    a, b = torch.ones(4, 27, device=w.device), torch.eye(27, device=w.device) * 0.375
    if w.device.type == "cpu":
        w.data = (a @ b).view(4, 3, 3, 3)
        return
    g = torch.presil.PresilGraph()
    with torch.presil.graph(g):
        out = a @ b
    w.data = out.view(4, 3, 3, 3)
    out.zero_()
    F.conv2d(torch.ones(1, 3, 4, 4, device=w.device), w)  # packs the zeros
    g.replay()
    net.keep = g


WRITES = {
    "mul_": lambda net: net[0].weight.mul_(2),
    "bias": lambda net: net[0].bias.add_(3),
    "a view": lambda net: net[0].weight[1].fill_(0),
    ".data": lambda net: net[0].weight.data.add_(1),
    ".data =": lambda net: setattr(net[0].weight, "data", filled(net[0].weight)),
    "set_": lambda net: net[0].weight.set_(filled(net[0].weight)),
    "resize_": lambda net: resized(net[0].weight),
    "storage.copy_": lambda net: net[0].weight.untyped_storage().copy_(filled(net[0].weight).untyped_storage()),
    "freed": freed_and_made_again,
    "out=": lambda net: torch.add(filled(net[0].weight), 1, out=net[0].weight),
    "load_state_dict": lambda net: net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()}),
    "foreach": lambda net: torch._foreach_mul_([net[0].weight, net[0].bias], 3.0),
    "SGD": lambda net: optimised(net, torch.optim.SGD, foreach=False),
    "SGD foreach": lambda net: optimised(net, torch.optim.SGD, foreach=True),
    "SGD fused": lambda net: optimised(net, torch.optim.SGD, fused=True),
    "Adam fused": lambda net: optimised(net, torch.optim.Adam, fused=True),
    "batch-norm in training": trained,
    "batch-norm out=": batch_norm_out,
    "DLPack": lambda net: through_dlpack(net[0].weight).zero_(),
    "DLPack, a capsule": lambda net: from_dlpack(to_dlpack(net[0].weight.detach())).fill_(0.5),
    "DLPack, a view": lambda net: through_dlpack(net[0].weight[2:]).mul_(4),
    "DLPack, statistics": lambda net: through_dlpack(net[1].running_mean).add_(2),
    "data_ptr": lambda net: by_address(net[0].weight, torch.Tensor.data_ptr),
    "storage's data_ptr": lambda net: by_address(net[0].weight, lambda t: t.untyped_storage().data_ptr()),
    "DMA": from_pinned_memory,
    "another thread": by_another_thread,
    "a launch": by_a_launch,
}
# A graph is bound to the memory that it was captured with: what replaces memory is no write to it.
OTHER_MEMORY = {".data =", "set_", "freed", "a launch"}


def nets():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval().requires_grad_(False)
    return net, copy.deepcopy(net).to("presil"), torch.randn(2, 3, 7, 6)


def launches():
    return sum(g.launches for g in backend.graphs)


# Tensors that are made in inference mode have no version counters.
MODES = {
    "no_grad": (torch.no_grad, torch.no_grad),
    "inference mode": (torch.no_grad, torch.inference_mode),
    "made in inference mode": (torch.inference_mode, torch.inference_mode),
}
REFUSED_BY_TORCH = {"another thread"}  # which is not in inference mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("user", [eager, compiled, graph, torchscript], ids=lambda f: f.__name__)
def test_weights_of_now(user, mode):
    torch._dynamo.reset()
    outdated = {}
    make, use = MODES[mode]
    with make():
        net, device, x = nets()
    with use():
        run = user(device, x.to("presil"))
        for name, write in WRITES.items():
            if use is torch.inference_mode and name in REFUSED_BY_TORCH:
                continue
            if user is graph:  # of its own, on memory of its own
                with make():
                    net, device, x = nets()
                run = user(device, x.to("presil"))
            before, launched = run().cpu(), launches()
            torch.testing.assert_close(before, net(x), rtol=1e-4, atol=1e-4)
            for time in ("once", "twice"):  # the second finds what the first left
                for n in (device, net):
                    write(n)
                now = run().cpu()
                expected = before if user is graph and name in OTHER_MEMORY else net(x)
                if not torch.allclose(now, expected, rtol=1e-4, atol=1e-4):
                    outdated[f"{name}, {time}"] = (now - expected).abs().max().item()
                    _C.clear_weights_cache()
                    torch._dynamo.reset()
            assert user is not compiled or launches() > launched, f"{name}: what runs is not the compiled model"
            net, device = renewed(net, device)
    assert not outdated, f"weights of before, and how far off the result is: {outdated}"


def renewed(net, device):
    """The values of the start, in the memory that is there."""
    torch.manual_seed(1)
    for fresh in (nn.Conv2d(3, 4, 3).weight, nn.Conv2d(3, 4, 3).bias):
        for n in (net, device):
            (n[0].weight if fresh.dim() == 4 else n[0].bias).copy_(fresh)
    for n in (net, device):
        n[1].reset_parameters()
    return net, device


def test_linear_and_transposed_weights_of_now():
    """What a compiled model packs beside convolutions."""
    torch._dynamo.reset()
    net = nn.Sequential(nn.ConvTranspose2d(3, 5, 2), nn.Flatten(), nn.Linear(5 * 36, 7)).eval().requires_grad_(False)
    device, x = copy.deepcopy(net).to("presil"), torch.randn(2, 3, 5, 5)
    model = torch.compile(device, backend="presil")
    for layer in (0, 2):
        for write in (
            lambda t: t.mul_(2),
            lambda t: through_dlpack(t).sub_(0.1),
            lambda t: by_address(t, torch.Tensor.data_ptr),
        ):
            for n in (device, net):
                write(n[layer].weight)
            torch.testing.assert_close(model(x.to("presil")).cpu(), net(x), rtol=1e-4, atol=1e-4)


def test_int8_weights_of_now():
    x = torch.randint(-20, 20, (1, 8, 5, 5), dtype=torch.int8, device="presil")
    w = torch.randint(-20, 20, (4, 8, 3, 3), dtype=torch.int8, device="presil")
    bias, scale = torch.zeros(4, dtype=torch.int32, device="presil"), torch.full((4,), 1e-1, device="presil")
    run = lambda: torch.ops.presil.conv2d_int8(x, w, bias, scale, [1, 1], [1, 1], [1, 1], 1, 0, 0)  # noqa: E731
    assert run().count_nonzero() > 0
    through_dlpack(scale).zero_()
    assert run().count_nonzero() == 0


def test_packed_once_while_nobody_writes():
    """Neither reads, nor handing the bytes out, nor writes elsewhere pack again."""
    _C.clear_weights_cache()
    x, w = torch.randn(1, 3, 6, 6, device="presil"), torch.randn(4, 3, 3, 3, device="presil")
    norm = nn.BatchNorm2d(3).to("presil").eval()
    w.data_ptr()
    F.conv2d(x, w)
    with torch.presil.explain() as e:
        for _ in range(3):
            F.conv2d(x, w)
            w.sum().item(), repr(w), norm(x), x.mul_(2), w.clone().zero_()
    assert not [r for r in e.rows if r["op"] == "presil::pack_weights"]
    assert _C.weights_cache_entries() == 1


def test_memory_given_back_is_packed_for_nobody():
    _C.clear_weights_cache()
    x = torch.randn(1, 3, 6, 6, device="presil")
    for value in range(5):
        w = torch.full((4, 3, 3, 3), float(value), device="presil")  # where the last one was
        torch.testing.assert_close(F.conv2d(x, w).cpu(), F.conv2d(x.cpu(), w.cpu()), rtol=1e-4, atol=1e-4)
        assert _C.weights_cache_entries() == 1
    del w
    assert _C.weights_cache_entries() == 0


# ---- two threads
@pytest.fixture
def slow_zero():
    """An operator that another thread can pack in the middle of: it says that it has begun, and goes on when told."""
    begun, go_on = threading.Event(), threading.Event()
    with torch.library._scoped_library("presil_test_weights", "FRAGMENT") as library:
        library.define("slow_zero_(Tensor(a!) t) -> ()")

        def kernel(t):
            begun.set()
            assert go_on.wait(30)
            t.zero_()

        library.impl("slow_zero_", kernel, "CPU")
        yield torch.ops.presil_test_weights.slow_zero_, begun, go_on


@pytest.mark.parametrize("user", [eager, compiled], ids=lambda f: f.__name__)
def test_packed_in_the_middle_of_a_write(slow_zero, user):
    operator, begun, go_on = slow_zero
    torch._dynamo.reset()
    net = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False)).to("presil").requires_grad_(False)
    run = user(net, torch.randn(1, 3, 6, 6, device="presil"))
    with torch.no_grad():
        assert run().count_nonzero() > 0
        writer = threading.Thread(target=operator, args=(net[0].weight,))
        writer.start()
        assert begun.wait(30)
        net[0].weight[0].mul_(2)  # what was packed is outdated: packed again now, with the bytes of before
        assert run().count_nonzero() > 0
        go_on.set()
        writer.join()
        assert run().count_nonzero() == 0


def test_a_writer_and_a_reader():
    """Whatever a reader packs meanwhile, after each round it computes with the last value written."""
    x = torch.ones(1, 4, 4, 4, device="presil")
    w = torch.zeros(4, 4, 1, 1, device="presil")
    stop, seen, errors = threading.Event(), set(), []

    def read():
        try:
            while not stop.is_set():
                seen.add(F.conv2d(x, w).amax().item())
        except BaseException as error:  # noqa: B036
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        value = 0
        while value < 200 or (len(seen) < 2 and not errors and value < 100_000):  # until the reader had its turn
            value += 1
            w.fill_(float(value))
            assert F.conv2d(x, w).amin().item() == 4 * value
    finally:
        stop.set()
        reader.join()
    assert not errors and len(seen) > 1 and seen <= {4.0 * v for v in range(value + 1)}


def test_aot_saves_the_weights_of_now(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3)).eval()
    program = torch.export.export(model, (torch.randn(1, 3, 6, 6),))
    images = []
    for _ in range(2):
        torch.presil.aot_save(program, tmp_path / "model.paot")
        images.append((tmp_path / "model.paot").read_bytes())
        with torch.no_grad():
            model[0].weight.mul_(2)
    assert len(images[0]) == len(images[1]) and images[0] != images[1]
