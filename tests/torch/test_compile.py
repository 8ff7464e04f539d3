# SPDX-License-Identifier: Apache-2.0
"""torch.compile on the device: the backend "presil" against eager mode and the CPU, its partitions and launches,
dynamic shapes, training, and the other backends."""

import copy
import gc
import importlib.metadata
import json
import tomllib
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_presil.compiler import backend


@pytest.fixture(autouse=True)
def fresh(fresh_graphs):
    torch._dynamo.utils.counters.clear()


def close(got, expected, tolerance=2e-5):
    scale = expected.float().abs().max().item() or 1.0
    torch.testing.assert_close(got.detach().cpu().float(), expected.detach().float(), rtol=0, atol=tolerance * scale)


def compilations() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def launches_of(function) -> list:
    with torch.presil.reports() as reports:
        function()
        return [r["label"] for r in reports.take()]


class Block(nn.Module):
    def __init__(self, c, o, stride=1, activation=F.relu):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.down = (
            nn.Sequential(nn.Conv2d(c, o, 1, stride, bias=False), nn.BatchNorm2d(o))
            if stride > 1 or c != o
            else nn.Identity()
        )
        self.activation = activation

    def forward(self, x):
        y = self.activation(self.bn1(self.conv1(x)))
        return self.activation(self.bn2(self.conv2(y)) + self.down(x))


def with_statistics(model):
    """Running statistics and affine parameters that are not the neutral ones."""
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.running_mean, -0.5, 0.5)
            nn.init.uniform_(m.running_var, 0.5, 2)
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.uniform_(m.bias, -0.5, 0.5)
    return model.eval()


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (w // self.heads) ** -0.5
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_residual_blocks_are_one_launch(dtype, last):
    model = with_statistics(nn.Sequential(Block(3, 8), Block(8, 16, 2), Block(16, 16, activation=F.relu6))).to(dtype)
    x = torch.randn(2, 3, 13, 10).to(dtype)
    device, X = copy.deepcopy(model).to("presil"), x.to("presil")
    if last:
        X = X.contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(device, backend="presil")
    with torch.no_grad():
        expected = model.float()(x.float())
        got = compiled(X)
        close(got, expected, 2e-5 if dtype == torch.float32 else 3e-2)
        assert got.stride() == device(X).stride()
        assert launches_of(lambda: compiled(X)) == ["inference.0"]
    (graph,) = backend.graphs
    assert (graph.partitions, graph.chip_operators, graph.refused) == (1, 8, [])  # 6 convolutions of 3x3 and 2 of 1x1
    assert graph.folded == 8 + 3 + 6 and graph.host_operators == {}
    assert 0 < graph.arena_bytes < graph.arena_bytes_without_reuse


def test_autocast_is_one_launch():
    model = with_statistics(nn.Sequential(Block(3, 8), Block(8, 16, 2), nn.Flatten(), nn.Linear(16 * 30, 7)))
    device, x = copy.deepcopy(model).to("presil"), torch.randn(2, 3, 11, 9)
    compiled, X = torch.compile(device, backend="presil"), x.to("presil")
    with torch.no_grad(), torch.autocast("presil", dtype=torch.bfloat16):
        for _ in range(2):
            got = compiled(X)
            assert got.dtype == torch.bfloat16
            close(got.float(), model(x), 3e-2)
            for m in (model, device):  # packed weights are those of the float32 parameters
                m[0].conv1.weight.data.mul_(1.5)
                m[3].bias.data.add_(1)
        assert launches_of(lambda: compiled(X)) == [
            "inference.0",
            "addmm",
        ]  # flattening NHWC is a copy; a launch of one operator has its name
    (graph,) = backend.graphs
    assert (graph.chip_operators, graph.left_out, graph.refused) == (7, {}, [])
    assert graph.host_operators == {
        "aten._to_copy.default": 2,
        "aten.reshape.default": 1,
    }  # of the input, which two convolutions read


def test_autocast_has_the_bits_of_operator_by_operator():
    layers = nn.Sequential(nn.Conv2d(5, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 2), nn.Flatten(), nn.Linear(4 * 16, 3)).to(
        "presil"
    )
    x = torch.randn(3, 5, 7, 7, device="presil")
    with torch.no_grad(), torch.autocast("presil", dtype=torch.bfloat16):
        assert torch.equal(torch.compile(layers, backend="presil")(x), layers(x))  # bias rounded to bfloat16 too
    assert not backend.graphs[0].left_out


def test_lists_are_recorded_once_and_weights_may_change():
    model = with_statistics(Block(4, 4)).to("presil")
    compiled = torch.compile(model, backend="presil")
    x = torch.randn(1, 4, 6, 6, device="presil")
    with torch.no_grad():
        for _ in range(10):
            y = compiled(x)
        (graph,) = backend.graphs
        assert graph.launches == 10 and graph.recordings <= 3
        kept, before = y, y.cpu()
        model.bn1.running_mean.add_(1)
        model.conv2.weight.mul_(0.5)
        model.conv1.weight.data.add_(0.25)
        close(compiled(x), copy.deepcopy(model).cpu()(x.cpu()))
        assert torch.equal(kept.cpu(), before)  # a result that is kept is not written again
    assert compilations() == 1


def test_outputs_of_many_calls_live_side_by_side():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to("presil")
    compiled = torch.compile(model, backend="presil")
    inputs = [torch.randn(4, 8, device="presil") for _ in range(40)]  # more than lists are kept
    with torch.no_grad():
        results = [compiled(x) for x in inputs]
        for x, y in zip(inputs, results):
            close(y, model(x).cpu())


def test_mlp_with_dynamic_batch():
    model = nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 33), nn.ReLU6(), nn.Linear(33, 7))
    device = copy.deepcopy(model).to("presil")
    compiled = torch.compile(device, backend="presil")
    with torch.no_grad():
        for batch in (2, 3, 8, 17, 1):
            x = torch.randn(batch, 20)
            close(compiled(x.to("presil")), model(x))
    assert compilations() <= 3
    assert all(g.partitions == 1 and g.chip_operators == 3 and not g.refused for g in backend.graphs)


def test_a_convolutional_model_with_five_batches():
    model = with_statistics(Block(3, 6, 2))
    compiled = torch.compile(copy.deepcopy(model).to("presil"), backend="presil")
    with torch.no_grad():
        for batch in (2, 3, 1, 8, 5):
            x = torch.randn(batch, 3, 9, 9)
            close(compiled(x.to("presil")), model(x))
    assert compilations() <= 3
    assert all(g.partitions == 1 and not g.refused and not g.left_out for g in backend.graphs)


def test_five_batches_and_four_lengths():
    model = Attention()
    compiled = torch.compile(copy.deepcopy(model).to("presil"), backend="presil")
    with torch.no_grad():
        for batch in (2, 3, 4, 6, 9):
            for length in (5, 8, 11, 16):
                x = torch.randn(batch, length, 32)
                close(compiled(x.to("presil")), model(x))
    assert compilations() <= 3
    assert not [r for g in backend.graphs for r in g.refused]


def test_transformer_partitions():
    model = Attention().eval()
    device = copy.deepcopy(model).to("presil")
    compiled = torch.compile(device, backend="presil")
    x = torch.randn(2, 6, 32)
    with torch.no_grad():
        close(compiled(x.to("presil")), model(x))
        names = launches_of(lambda: compiled(x.to("presil")))
    (graph,) = backend.graphs
    assert graph.chip_operators == 6 and len(names) == graph.partitions <= 6
    assert graph.folded == 2  # both residual adds


def train(model, x, target, steps, wrap=lambda m: m):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run, losses = wrap(model), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


@pytest.mark.parametrize("bw", ["left out", "given"])
def test_training(bw):
    def count(gm, inputs):
        count.calls += 1
        return gm.forward

    count.calls = 0
    kwargs = {} if bw == "left out" else {"options": {"bw_compiler": count}}
    model = nn.Sequential(
        Block(3, 8),
        Block(8, 8, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, 5),
    ).train()
    device = copy.deepcopy(model).to("presil")
    x, target = torch.randn(4, 3, 12, 12), torch.tensor([0, 3, 2, 4])
    expected = train(model, x, target, 3)
    got = train(device, x.to("presil"), target.to("presil"), 3, lambda m: torch.compile(m, backend="presil", **kwargs))
    close(got, expected, 2e-4)
    for a, b in zip(model.state_dict().values(), device.state_dict().values()):
        close(b, a, 2e-3)
    assert count.calls == (1 if bw == "given" else 0)
    assert [g.kind for g in backend.graphs] == (["forward"] if bw == "given" else ["forward", "backward"])
    assert backend.graphs[0].partitions >= 1 and compilations() == 1


def one_step(model, x, target, run=None):
    """(loss, gradients, parameters and statistics after a step of SGD)."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss = F.cross_entropy((model if run is None else run)(x), target)
    loss.backward()
    optimizer.step()
    return [
        loss.detach().cpu(),
        *(p.grad.cpu() for p in model.parameters()),
        *(t.cpu() for t in model.state_dict().values()),
    ]


def test_a_training_step_of_resnet18():
    from torchvision.models import resnet18

    models = {kind: resnet18(num_classes=10).train().to("presil") for kind in ("eager", "left out", "given")}
    for m in models.values():
        m.load_state_dict(models["eager"].state_dict())
    x, target = torch.randn(2, 3, 40, 40, device="presil"), torch.tensor([1, 7], device="presil")
    compiled = {
        "left out": torch.compile(models["left out"], backend="presil"),
        "given": torch.compile(
            models["given"], backend="presil", options={"bw_compiler": lambda gm, inputs: gm.forward}
        ),
    }
    expected = one_step(models["eager"], x, target)
    rows = {}
    for kind, run in compiled.items():
        with torch.presil.explain() as e:
            got = one_step(models[kind], x, target, run)
        for a, b in zip(got, expected, strict=True):
            close(a, b, 1e-4)
        rows[kind] = e.operators()
        (packed,) = (r for r in rows[kind] if r["op"] == "presil::pack_weights")
        assert packed["calls"] == 20  # of the convolutions, once; backward reads them where they lie
    forward, backward, other = backend.graphs  # bw_compiler given: it has the backward graph
    assert (
        (forward.partitions, forward.chip_operators, forward.left_out)
        == (other.partitions, other.chip_operators, other.left_out)
        == (18, 21, {})
    )
    assert (backward.chip_operators, backward.left_out, backward.refused) == (41, {}, [])  # the image has no gradient
    on_chip = {kind: {r["op"]: r["launches"] for r in rows[kind] if r["where"] == "chip"} for kind in rows}
    assert on_chip["left out"] == {f"presil::{g.kind}.{i}": 1 for g in (forward, backward) for i in range(g.partitions)}
    assert backward.partitions <= 20  # a convolution's gradients are together
    assert sum(n for name, n in on_chip["given"].items() if "convolution_backward" in name) >= 39
    assert not any("conv" in name or "mm" in name for g in (forward, backward) for name in g.host_operators)


class Gradients(nn.Module):
    """Convolutions of all kinds behind each other, so that gradients meet: groups, strides, dilation, transposed,
    biases, a sum."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2)
        self.c, self.d = nn.Conv2d(8, 8, 1, bias=False), nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1)

    def forward(self, x):
        h = self.a(x)
        return self.d(self.b(h) + self.c(h))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_convolutions_are_one_launch(dtype, last):
    model = Gradients().to(dtype)
    if last:
        model = model.to(memory_format=torch.channels_last)
    device, x = copy.deepcopy(model).to("presil"), torch.randn(2, 4, 9, 10).to(dtype)
    compiled, model = torch.compile(device, backend="presil"), model.float()
    for _ in range(2):  # other weights in the same memory
        for m in (model, device):
            m.zero_grad()
        X, Y = x.to("presil").requires_grad_(), x.float().clone().requires_grad_()
        with torch.presil.reports() as reports:
            out = compiled(X)
            reports.take()
            out.square().sum().backward()
            assert [r["label"] for r in reports.take()] == ["backward.0"]
        model(Y).square().sum().backward()
        tolerance = 5e-5 if dtype == torch.float32 else 4e-2
        close(X.grad, Y.grad, tolerance)
        assert X.grad.stride() == X.stride()
        for a, b in zip(device.parameters(), model.parameters()):
            close(a.grad, b.grad, tolerance)
            assert a.grad.stride() == a.stride()
        with torch.no_grad():
            for a, b in zip(device.parameters(), model.parameters()):
                b.mul_(0.75)
                a.mul_(0.75)
    backward = backend.graphs[1]
    assert (backward.chip_operators, backward.folded, backward.refused) == (11, 1, [])  # 3 biases, 4 weights, 4 inputs


@pytest.mark.parametrize("outputs, stride, launches", [(1, 1, 1), (3, 1, 2), (3, 2, 2)])
def test_input_gradients_of_depthwise_layers_are_as_without(outputs, stride, launches):
    """Bit for bit. Channels with several outputs: between two launches, one of the gradient that the host turned."""
    torch.manual_seed(outputs)
    model = nn.Sequential(nn.Conv2d(4, 6, 1), nn.Conv2d(6, 6 * outputs, 3, stride, 1, groups=6)).to("presil")
    x = torch.randn(2, 4, 9, 7, device="presil").contiguous(memory_format=torch.channels_last)
    g, made, labels = torch.randn_like(model(x)), [], []
    for function in (model, torch.compile(model, backend="presil")):
        given = x.clone().requires_grad_()
        y = function(given)
        with torch.presil.reports() as reports:
            made.append(torch.autograd.grad(y, (given, *model.parameters()), g))
            labels.append([r["label"] for r in reports.take()])
    (eager, *eagers), (compiled, *others) = made
    assert torch.equal(eager, compiled)
    for a, b in zip(others, eagers):
        close(a, b.cpu())
    assert sum(label.startswith("backward") for label in labels[1]) == launches, labels
    turned = [label for label in labels[1] if not label.startswith("backward")]
    assert len(turned) == (0 if outputs == 1 else stride**2), labels


def kernels_of(function, path):
    """The launches that torch.profiler shows: (label, its operator, cycles)."""
    activities = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activities.CPU, activities.PrivateUse1]) as p:
        function()
    p.export_chrome_trace(str(path))
    return [
        (e["name"], e["args"].get("operator"), e["args"]["cycles"])
        for e in json.loads(path.read_text())["traceEvents"]
        if e.get("cat") == "kernel"
    ]


@pytest.mark.parametrize("mode", ["rtl", "model"])
def test_partitions_and_replays_under_explain_and_profiler(mode, tmp_path):
    with torch.backends.presil.flags(mode=mode), torch.no_grad():
        model, x = with_statistics(Block(3, 4)).to("presil"), torch.randn(1, 3, 6, 6, device="presil")
        compiled, graph = torch.compile(model, backend="presil"), torch.presil.PresilGraph()
        compiled(x)
        with torch.presil.graph(graph):
            model(x)
        for function, names in ((lambda: compiled(x), ["inference.0"]), (graph.replay, ["conv2d"] * 3)):
            torch.presil.synchronize()
            with torch.presil.reports() as reports, torch.presil.explain() as e:
                function()
                cycles = [r["cycles"] for r in reports.take()]
            rows = [r for r in e.operators() if r["where"] == "chip"]
            assert sum(r["launches"] for r in rows) == len(names) and {
                r["op"].removeprefix("presil::") for r in rows
            } == set(names)
            shown = kernels_of(function, tmp_path / "trace.json")
            assert [name for name, _, _ in shown] == names
            if mode == "model":
                assert all(r["cycles"] is None for r in rows) and {c for _, _, c in shown} <= {None, "null"}
            else:
                assert sum(r["cycles"] for r in rows) == sum(cycles) > 0 and [c for _, _, c in shown] == cycles
            if names == ["inference.0"]:
                assert rows[0]["calls"] == 1 and rows[0]["lines"] and shown[0][1] == "presil::inference.0"


def test_a_frozen_norm_is_not_folded_where_backward_needs_the_convolution():
    model = with_statistics(Block(3, 4))
    device = copy.deepcopy(model).to("presil")
    x = torch.randn(1, 3, 8, 8)
    torch.compile(device, backend="presil")(x.to("presil")).square().sum().backward()
    model(x).square().sum().backward()
    for a, b in zip(model.parameters(), device.parameters()):
        close(b.grad, a.grad, 1e-4)


def test_resnet18():
    from torchvision.models import resnet18

    model = with_statistics(resnet18())
    device = copy.deepcopy(model).to("presil")
    compiled = torch.compile(device, backend="presil")
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        close(compiled(x.to("presil")), model(x), 1e-4)
        names = launches_of(lambda: compiled(x.to("presil")))
    (graph,) = backend.graphs
    # Before the max-pool, between it and the average-pool, behind that.
    assert len(names) == graph.partitions == 3 and graph.chip_operators == 21 and not graph.refused
    assert set(graph.host_operators) == {"aten.max_pool2d_with_indices.default", "aten.mean.dim"} | set(
        graph.host_operators
    ) & {"aten.reshape.default"}


def test_one_launch_on_the_rtl(verify):
    model = with_statistics(Block(3, 8)).to("presil")
    compiled = torch.compile(model, backend="presil")
    x = torch.randn(1, 3, 7, 7, device="presil")
    with torch.no_grad(), torch.presil.reports() as reports:
        y = compiled(x)
        (report,) = reports.take()
        close(y, copy.deepcopy(model).cpu()(x.cpu()))
    assert report["verified"] == 1 and report["cycles"] > 0 and report["label"] == "inference.0"


@pytest.mark.parametrize("name", ["eager", "aot_eager"])
def test_other_backends(name):
    model = nn.Sequential(Block(3, 8), nn.Flatten(), nn.Linear(8 * 36, 5)).train()
    device = copy.deepcopy(model).to("presil")
    x, target = torch.randn(2, 3, 6, 6), torch.tensor([1, 4])
    close(
        train(device, x.to("presil"), target.to("presil"), 2, lambda m: torch.compile(m, backend=name)),
        train(model, x, target, 2),
        2e-4,
    )
    for model, x in (
        (Attention(), torch.randn(2, 5, 32)),
        (Gradients(), torch.randn(1, 4, 7, 7)),
        (Sequence().eval(), torch.randn(1, 4, 11)),
    ):
        with torch.no_grad():
            close(torch.compile(copy.deepcopy(model).to("presil"), backend=name)(x.to("presil")), model(x))


@pytest.mark.parametrize("mode", [None, "reduce-overhead", "max-autotune"])
def test_without_a_backend_it_is_ours(mode):
    """As scripts in the wild call it: the same bits and launches as with the name."""
    torch.manual_seed(0)
    model, x = with_statistics(Block(3, 4)).eval().to("presil"), torch.randn(2, 3, 6, 6, device="presil")
    with torch.no_grad():
        named, plain = torch.compile(model, backend="presil"), torch.compile(model, mode=mode)
        expected, got = named(x), plain(x)
        assert torch.equal(expected, got)
        assert launches_of(lambda: plain(x)) == launches_of(lambda: named(x)) != []
    assert [g.partitions for g in backend.graphs] == [1, 1]


def test_without_a_backend_it_trains():
    torch.manual_seed(0)
    model, x = Block(3, 4), torch.randn(2, 3, 6, 6)
    ours = copy.deepcopy(model).to("presil")
    model(x).square().mean().backward()
    torch.compile(ours)(x.to("presil")).square().mean().backward()
    for p, q in zip(model.parameters(), ours.parameters(), strict=True):
        close(q.grad, p.grad, 1e-4)
    assert {g.kind for g in backend.graphs} == {"forward", "backward"}


def test_training_keeps_nothing_of_before():
    """A list of commands holds its packed weights, and in a model that learns there is a new one at every step; what
    leaves a partition as a view is garbage as soon as nobody has it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 256, 3), nn.ReLU(), nn.Conv2d(256, 16, 3)).to("presil")
    run, x = torch.compile(model), torch.randn(1, 16, 6, 6, device="presil")
    optimizer, used = torch.optim.SGD(model.parameters(), 1e-3), []
    gc.disable()
    try:
        for _ in range(8):
            run(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.presil.synchronize()
            used.append(torch.presil.memory_allocated())
    finally:
        gc.enable()
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    assert max(used[2:]) - used[1] < weights / 2, used


def test_without_a_backend_the_cpu_stays_inductors(monkeypatch):
    from torch._inductor import compile_fx

    seen = []
    monkeypatch.setattr(compile_fx, "_compile_fx_main", lambda gm, *a, **k: seen.append(gm) or gm.forward)
    x = torch.randn(3)
    assert torch.equal(torch.compile(lambda t: t * 2 + 1)(x), x * 2 + 1)
    assert len(seen) == 1 and not backend.graphs


def test_made_on_the_device_inside():
    """No tensor of the device comes in."""
    f = lambda n: torch.ones(n, n, device="presil") @ torch.ones(n, 2, device="presil")
    assert torch.equal(torch.compile(f)(3).cpu(), torch.full((3, 2), 3.0))
    assert len(backend.graphs) == 1


def test_inductors_own_code_names_the_way_out():
    program = torch.export.export(nn.Linear(2, 2).to("presil"), (torch.randn(1, 2, device="presil"),))
    with pytest.raises(Exception, match="inductor generates no code for the device presil.*aot_save"):
        torch._inductor.aot_compile(program.module(), (torch.randn(1, 2, device="presil"),))


def test_the_backends_entry_point():
    with open(Path(__file__).resolve().parents[2] / "pyproject.toml", "rb") as f:
        (entry,) = tomllib.load(f)["project"]["entry-points"]["torch_dynamo_backends"].items()
    found = importlib.metadata.EntryPoint(*entry, group="torch_dynamo_backends")
    assert found.name == "presil" and found.load() is backend.presil
    assert "presil" in torch._dynamo.list_backends()


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match="has no option fast"):
        torch.compile(nn.Linear(2, 2).to("presil"), backend="presil", options={"fast": True})(
            torch.randn(1, 2, device="presil")
        )


class Sequence(nn.Module):
    """1-D: a residual block with batch-norm, strides, groups, a transposed layer."""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv1d(4, 8, 5, 2, 2, bias=False), nn.BatchNorm1d(8)
        self.b, self.c = nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=2), nn.ConvTranspose1d(8, 6, 4, 2, 1)

    def forward(self, x):
        h = F.relu(self.norm(self.a(x)))
        return self.c(F.relu(self.b(h) + h))


def test_1d_convolutions_are_one_launch():
    model = Sequence().eval()
    nn.init.uniform_(model.norm.running_mean, -0.5, 0.5)
    nn.init.uniform_(model.norm.weight, 0.5, 1.5)
    device, x = copy.deepcopy(model).to("presil"), torch.randn(2, 4, 19)
    compiled = torch.compile(device, backend="presil")
    with torch.no_grad():
        got = compiled(x.to("presil"))
        close(got, model(x))
        assert got.is_contiguous()
        assert launches_of(lambda: compiled(x.to("presil"))) == ["inference.0"]
    (graph,) = backend.graphs
    assert (graph.chip_operators, graph.folded, graph.left_out) == (3, 4, {})  # norm, activation; residual, activation
    model.train(), device.train()

    def one_step_of(m, x, run):
        run(x).square().mean().backward()
        return [p.grad.cpu() for p in m.parameters()]

    for a, b in zip(one_step_of(device, x.to("presil"), compiled), one_step_of(model, x, model), strict=True):
        close(a, b, 1e-4)
    assert (
        backend.graphs[-1].kind == "backward"
        and backend.graphs[-1].chip_operators == 7
        and not backend.graphs[-1].left_out
    )


class Converted(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype)


def test_what_is_in_no_partition_says_why():
    model = nn.Sequential(nn.Conv3d(3, 4, (1, 3, 3)), nn.Flatten(), nn.Linear(4 * 16, 5).double())
    model.insert(2, Converted(torch.float64))
    device, x = copy.deepcopy(model).to("presil"), torch.randn(2, 3, 1, 6, 6)
    compiled = torch.compile(device, backend="presil")
    with torch.no_grad():
        close(compiled(x.to("presil")), model(x))
        with torch.presil.explain() as e:
            compiled(x.to("presil"))
    (graph,) = backend.graphs
    reasons = {"convolution": "a convolution in 3-D", "addmm": "float64: a launch takes float32, bfloat16, float16"}
    assert graph.partitions == 0 and graph.left_out == reasons
    notes = {r["op"]: r["reason"] for r in e.operators() if r["where"] == "composite" and r["reason"]}
    assert notes == {f"presil::inference.{op}": f"in no partition: {reason}" for op, reason in reasons.items()}
    assert e.totals()["chip"]["launches"] == 1


def test_float16_is_one_launch():
    """Batch-norm is folded in float32, and the folded weight rounded once."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 3)).half()
    model.eval()[1].running_var.uniform_(0.5, 2)
    device, x = copy.deepcopy(model).to("presil"), torch.randn(2, 3, 6, 6).half()
    compiled = torch.compile(device, backend="presil")
    with torch.no_grad():
        got = compiled(x.to("presil"))
        with torch.presil.explain() as e:
            compiled(x.to("presil"))
    assert got.dtype == torch.float16
    close(got, model.float()(x.float()), 3e-3)
    (graph,) = backend.graphs
    assert graph.partitions == 1 and not graph.left_out and e.totals()["chip"]["launches"] == 1
