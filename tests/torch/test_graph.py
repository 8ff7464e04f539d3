# SPDX-License-Identifier: Apache-2.0
"""torch.presil.graph: what a replay computes, what a capture leaves untouched, and what it refuses."""

import gc
import threading

import pytest
import torch
from torch import nn
from torchvision import models


def captured(function, **options):
    g = torch.presil.PresilGraph()
    with torch.presil.graph(g, **options):
        result = function()
    return g, result


def mixed(x, w):
    h = torch.relu(x @ w)
    return h.softmax(-1) @ w + 1.5, h.sum(), nn.functional.layer_norm(h, (16,)), h.max(dim=1)


def flat(result):
    return torch.utils._pytree.tree_leaves(result)


def assert_equal(actual, expected):
    for a, e in zip(flat(actual), flat(expected), strict=True):
        assert torch.equal(a, e)


def test_replays_give_the_bits_of_eager():
    x, w = torch.randn(8, 16, device="presil"), torch.randn(16, 16, device="presil")
    g, result = captured(lambda: mixed(x, w))
    assert_equal(result, mixed(x, w))
    addresses = [t.data_ptr() for t in flat(result)]
    for _ in range(3):
        x.copy_(torch.randn(8, 16))
        w.copy_(torch.randn(16, 16))
        g.replay()
        assert_equal(result, mixed(x, w))
    assert [t.data_ptr() for t in flat(result)] == addresses
    assert {s["on"] for s in g.segments()} == {"chip", "host"}
    assert "segments" in repr(g)


def test_resnet18_bits():
    torch.manual_seed(0)
    model = models.resnet18(weights=None).eval().to("presil")
    x = torch.randn(1, 3, 64, 64, device="presil")
    with torch.no_grad():
        g, y = captured(lambda: model(x))
        for _ in range(2):
            x.copy_(torch.randn(1, 3, 64, 64))
            g.replay()
            assert torch.equal(y, model(x))
        model.fc.weight.mul_(2)
        model.layer1[0].conv1.weight.mul_(0.5)  # packed for the chip: the replay packs it again
        g.replay()
        assert torch.equal(y, model(x))
    assert sum(s["on"] == "chip" for s in g.segments()) >= 20


def test_rtl_bits_and_cycles(rtl):
    torch.manual_seed(0)
    model = (
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10))
        .to("presil")
        .bfloat16()
    )
    x = torch.randn(1, 3, 8, 8, device="presil", dtype=torch.bfloat16)
    with torch.no_grad():
        model(x)
        torch.presil.synchronize()
        with torch.presil.reports() as reports:
            expected = model(x)
            eager = [(r["label"], r["cycles"]) for r in reports.take()]
        g, y = captured(lambda: model(x))
        y.zero_()
        torch.presil.synchronize()
        with torch.presil.reports() as reports:
            g.replay()
            replayed = [(r["label"], r["cycles"]) for r in reports.take()]
    assert torch.equal(y, expected)
    assert replayed == eager and all(cycles > 0 for _, cycles in eager) and len(eager) == 2


def test_resnet18_on_the_rtl(rtl):
    model = models.resnet18(weights=None, num_classes=10).eval().bfloat16().to("presil")
    x = torch.randn(1, 3, 32, 32, device="presil", dtype=torch.bfloat16)

    def timed(function):
        torch.presil.synchronize()
        with torch.presil.reports() as reports:
            result = function()
            return result, [(r["label"], r["cycles"]) for r in reports.take()]

    with torch.no_grad():
        model(x)  # packs weights
        g, y = captured(lambda: model(x))
        for _ in range(2):
            x.copy_(torch.randn(1, 3, 32, 32))
            expected, eager = timed(lambda: model(x))
            _, replayed = timed(g.replay)
            assert torch.equal(y, expected)
            assert replayed == eager and len(eager) == 21 and all(cycles > 0 for _, cycles in eager)


def train(model, optimizer, x, target):
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    return loss


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    ).to("presil")


@pytest.mark.parametrize(
    "kind",
    [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=1e-3, capturable=True)],
    ids=["sgd", "adam"],
)
def test_whole_training_step(kind):
    pair = [small_model(), small_model()]
    optimizers = [kind(m.parameters()) for m in pair]
    x, target = torch.randn(4, 3, 8, 8, device="presil"), torch.randint(0, 10, (4,), device="presil")
    stream = torch.Stream("presil")
    for model, optimizer in zip(pair, optimizers):  # warm-up: momentum exists afterwards
        with stream:
            torch.presil.manual_seed(3)
            train(model, optimizer, x, target)
    before = [t.clone() for t in [*pair[0].state_dict().values()]]
    state = torch.presil.get_rng_state()
    g = torch.presil.PresilGraph()
    with torch.presil.graph(g, stream=stream):
        loss = train(pair[0], optimizers[0], x, target)
    assert_equal(list(pair[0].state_dict().values()), before)  # the capture stepped nothing
    assert torch.equal(torch.presil.get_rng_state(), state)
    for step in range(3):
        data, labels = torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,))
        x.copy_(data)
        target.copy_(labels)
        torch.presil.manual_seed(100 + step)  # dropout
        g.replay()
        torch.presil.manual_seed(100 + step)
        expected = train(pair[1], optimizers[1], data.to("presil"), labels.to("presil"))
        assert torch.equal(loss, expected)
        assert_equal(list(pair[0].state_dict().values()), list(pair[1].state_dict().values()))
    assert not torch.equal(pair[0][0].weight, before[0])


def test_in_place_out_and_views():
    x, total = torch.arange(12.0, device="presil").view(3, 4), torch.zeros(4, device="presil")
    out = torch.empty(3, 4, device="presil")

    def work():
        total.add_(x.sum(0))
        torch.mul(x, 2, out=out)
        out[1:].t()[0].fill_(-1)
        return out.view(12)[::3].clone()

    g, y = captured(work)
    assert total.sum() == 0  # outside the graph's memory: put back
    for n in (1, 2):
        x.add_(1)
        g.replay()
        expected = x.cpu() * 2
        expected[1:, 0] = -1
        assert torch.equal(out.cpu(), expected)
        assert torch.equal(y.cpu(), expected.view(12)[::3])
    assert torch.equal(total.cpu(), (torch.arange(12.0).view(3, 4) * 2 + 3).sum(0))


def test_random_numbers_go_on_from_replay_to_replay():
    generator = torch.Generator("presil").manual_seed(5)
    g = torch.presil.PresilGraph()
    g.register_generator_state(generator)
    with torch.presil.graph(g):
        a, b = torch.rand(6, device="presil"), torch.empty(6, device="presil").normal_(generator=generator)
    torch.presil.manual_seed(9)
    generator.manual_seed(5)
    drawn = []
    for _ in range(2):
        g.replay()
        drawn += [a.cpu(), b.cpu()]
    default, other = torch.Generator().manual_seed(9), torch.Generator().manual_seed(5)
    for a, b in zip(drawn[::2], drawn[1::2]):
        assert torch.equal(a, torch.rand(6, generator=default))
        assert torch.equal(b, torch.empty(6).normal_(generator=other))


def test_pinned_memory_feeds_and_drains_a_graph():
    source, sink = torch.randn(5).pin_memory(), torch.zeros(5).pin_memory()
    x = torch.empty(5, device="presil")

    def work():
        x.copy_(source, non_blocking=True)
        sink.copy_(x * 2, non_blocking=True)

    g, _ = captured(work)
    assert sink.abs().sum() == 0
    source.fill_(3)
    g.replay()
    torch.presil.synchronize()
    assert sink.tolist() == [6] * 5


@pytest.fixture
def x():
    return torch.randn(4, 4, device="presil")


def test_native_kernels_that_compute_on_the_host(x):
    cell = nn.LSTMCell(4, 4).to("presil")
    double = torch.randn(3, 3, device="presil", dtype=torch.float64)
    with torch.no_grad():
        g, (state, product) = captured(lambda: (cell(x), double @ double))
        x.normal_()
        double.normal_()
        g.replay()
        assert_equal(state, cell(x))
        assert torch.equal(product, double @ double)


REFUSED = {
    "item": (lambda x: x.sum().item(), "_local_scalar_dense"),
    "nonzero": (lambda x: x.nonzero(), "aten::nonzero"),
    "mask": (lambda x: x[x > 0], "aten::(index|nonzero)"),
    "unpinned in": (lambda x: x.copy_(torch.ones(4, 4)), "copy_.*not pinned"),
    "unpinned out": (lambda x: x.cpu(), "copy_.*not pinned"),
    "synchronize": (lambda x: torch.presil.synchronize(), "synchronize"),
    "stream": (lambda x: torch.accelerator.current_stream().synchronize(), "synchronize"),
    "generator": (lambda x: x.normal_(generator=torch.Generator("presil")), "aten::normal_.*register_generator_state"),
    "resize": (lambda x: x.resize_(100), "aten::resize_"),
    "torch.compile": (lambda x: torch.compile(lambda t: t @ t, backend="presil")(x), "partition of torch.compile"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_operators_name(name, x):
    function, text = REFUSED[name]
    before = x.clone()
    g = torch.presil.PresilGraph()
    with pytest.raises(RuntimeError, match=text):
        with torch.presil.graph(g):
            y = x @ x
            x.mul_(2)
            function(x)
    assert not torch.presil.is_current_stream_capturing()
    assert torch.equal(x, before)
    with pytest.raises(RuntimeError, match="nothing was captured"):
        g.replay()
    del y
    with torch.presil.graph(g):  # the device and the graph are usable
        y = x @ x
    g.replay()
    assert torch.equal(y, x @ x)


def test_a_refusal_that_was_caught_still_fails_the_capture(x):
    g = torch.presil.PresilGraph()
    with pytest.raises(RuntimeError, match="_local_scalar_dense.*capture has failed"):
        with torch.presil.graph(g):
            try:
                x.sum().item()
            except RuntimeError:
                pass


def test_memory_of_another_graph_is_refused_and_a_shared_pool_is_not(x):
    first, y = captured(lambda: x + 1)
    with pytest.raises(RuntimeError, match="aten::mul.*memory pool of another graph"):
        captured(lambda: y * 2)
    second, z = captured(lambda: y * 2, pool=first.pool())
    x.fill_(3)
    first.replay()
    second.replay()
    assert torch.equal(z.cpu(), torch.full((4, 4), 8.0))
    with pytest.raises(ValueError, match="no graph's memory pool"):
        captured(lambda: x + 1, pool=(12345, 0))


def test_the_graphs_memory_stays_its_own(x):
    def work():
        h = x
        for _ in range(20):
            h = (h @ x).tanh()
        return h

    torch.presil.synchronize()
    gc.collect()
    before = torch.presil.memory_allocated()
    g, y = captured(work)
    inside = torch.presil.memory_allocated() - before
    assert inside <= 8 * 4096, "what died inside a capture is used again inside it"
    torch.presil.empty_cache()
    others = [torch.full((4, 4), 7.0, device="presil") for _ in range(200)]
    g.replay()
    assert all(torch.equal(o.cpu(), torch.full((4, 4), 7.0)) for o in others)
    assert torch.equal(y, work())
    del others, y
    g.reset()
    gc.collect()
    torch.presil.synchronize()
    assert torch.presil.memory_allocated() == before


def test_what_a_graph_reads_outlives_its_tensors():
    w, x = torch.randn(16, 16, device="presil"), torch.randn(16, 16, device="presil")
    expected = x @ w
    g, y = captured(lambda: x @ w)  # noqa: F821 (deleted below, on purpose)
    del w, x
    gc.collect()
    torch.randn(16, 16, device="presil")
    g.replay()
    assert torch.equal(y, expected)


def test_work_of_other_threads(x):
    def elsewhere(mode):
        failures = []

        def run():
            try:
                torch.ones(2, device="presil") * 2
            except RuntimeError as e:
                failures.append(str(e))

        thread = threading.Thread(target=run)
        g = torch.presil.PresilGraph()
        with torch.presil.graph(g, capture_error_mode=mode):
            y = x + 1
            thread.start()
            thread.join()
        return failures, g, y

    with pytest.raises(RuntimeError, match="another thread"):
        elsewhere("global")
    failures, g, y = elsewhere("thread_local")
    assert not failures
    assert [s["steps"] for s in g.segments()] == [["aten::add.out"]]


def test_states_and_misuse(x):
    g = torch.presil.PresilGraph()
    with pytest.raises(RuntimeError, match="default"):
        g.capture_begin()
    with pytest.raises(RuntimeError, match="no capture was begun"):
        g.capture_end()
    with torch.presil.graph(g):
        assert torch.presil.is_current_stream_capturing()
        with pytest.raises(RuntimeError, match="being captured"):
            g.replay()
        y = x * 2
    with pytest.raises(RuntimeError, match="reset"):
        with torch.presil.graph(g):
            pass
    g.reset()
    with pytest.raises(RuntimeError, match="nothing was captured"):
        g.replay()
    assert y.shape == x.shape
    with pytest.raises(ZeroDivisionError):
        with torch.presil.graph(g):
            x.mul_(2)
            1 / 0
    assert not torch.presil.is_current_stream_capturing()


def test_torchs_own_graph_class(x):
    graph = torch.accelerator.Graph()
    with torch.Stream("presil"), graph:
        y = x @ x + 1
    x.normal_()
    graph.replay()
    assert torch.equal(y, x @ x + 1)


def test_graphed_callables():
    pair = [small_model(), small_model()]
    for m in pair:
        m[4].p = 0.0
    x = torch.randn(4, 3, 8, 8, device="presil", requires_grad=True)
    state = {k: v.clone() for k, v in pair[0].state_dict().items()}
    graphed = torch.presil.make_graphed_callables(pair[0], (x,))
    pair[0].load_state_dict(state)  # the warm-up ran the statistics of batch norm
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in pair]
    for _ in range(3):
        data = torch.randn(4, 3, 8, 8)
        results = []
        for model, optimizer in zip((graphed, pair[1]), optimizers):
            given = data.to("presil").requires_grad_()
            optimizer.zero_grad()
            loss = (model(given) ** 2).mean()
            loss.backward()
            optimizer.step()
            results.append((loss.detach(), given.grad))
        assert_equal(results[0], results[1])
    assert_equal(list(pair[0].state_dict().values()), list(pair[1].state_dict().values()))
    pair[0].eval(), pair[1].eval()
    assert torch.equal(graphed(data.to("presil")), pair[1](data.to("presil")))
    with pytest.raises(ValueError, match="shape"):
        pair[0].train()(torch.randn(2, 3, 8, 8, device="presil"))
