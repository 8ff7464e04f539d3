# SPDX-License-Identifier: Apache-2.0
"""Tensors that lie in the chip's own layout (planes of 16 channels), seen from Python: whatever reads, views, copies or
writes them finds PyTorch's values, and converts once, counted. Against integers computed by PyTorch on the CPU."""

import os

import pytest

os.environ["PRESIL_CHIP"] = "sa16"
os.environ.setdefault("PRESIL_MEMORY", str(1 << 30))

torch = pytest.importorskip("torch")
import torch_presil  # noqa: E402,F401
from torch.nn import functional as F  # noqa: E402

TO, FROM = "activations to the chip's layout", "activations from the chip's layout"
CHANNELS, BYTES = 20, 2 * 32 * 6 * 5  # of a result: 20 channels are two planes of 16, of 2 images of 6 x 5


def draw(*shape, seed=3):
    numbers = torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
    return numbers.to(memory_format=torch.channels_last) if len(shape) == 4 else numbers


WEIGHT = draw(CHANNELS, CHANNELS, 3, 3)


def expected(x):
    """Scale 1/512 is exact in both; ties go to even in both."""
    return (F.conv2d(x.double(), WEIGHT.double(), padding=1) / 512).round().clamp(-128, 127).to(torch.int8)


@pytest.fixture(scope="module", autouse=True)
def constants():
    """Made once: a fill is the host's work, and whatever the host does behind a launch may fetch what that wrote."""
    scale, bias = torch.full((CHANNELS,), 1 / 512), torch.zeros(CHANNELS, dtype=torch.int32)
    conv.constants = [t.to("presil") for t in (WEIGHT, bias, scale)]


def conv(x):
    return torch.ops.presil.conv2d_int8(x, *conv.constants, [1, 1], [1, 1], [1, 1], 1, 0, 0, None, 0.0, 0, False)


def moved() -> tuple:
    """Conversions to the chip's layout and from it: calls, bytes."""
    rows = torch.presil.host_moves()
    return tuple((rows.get(kind, {}).get("calls", 0), rows.get(kind, {}).get("bytes", 0)) for kind in (TO, FROM))


@pytest.fixture(params=("model", "verify"))
def made(request):
    """(a result on the chip, in its layout; the same on the CPU): one conversion so far, of the input."""
    x = draw(2, CHANNELS, 6, 5)
    with torch.inference_mode(), torch.backends.presil.flags(mode=request.param):
        torch.presil.reset_host_operators()
        y = conv(x.to("presil"))
        yield y, expected(x)


def test_layers_pass_it_on_and_the_host_gets_it_once(made):
    y, wanted = made
    z = conv(conv(y))
    for _ in range(2):
        assert torch.equal(z.cpu(), expected(expected(wanted)))
    assert moved()[0] == (1, BYTES), "of the first layer's input alone"
    calls, size = moved()[1]
    assert calls >= 1 and size == calls * BYTES
    assert torch.equal(z.cpu(), expected(expected(wanted))) and torch.equal(y.cpu(), wanted)


def test_reports_say_what_a_launch_waited_for(made):
    y, _ = made
    x = draw(2, CHANNELS, 6, 5, seed=4).to("presil")
    with torch.presil.reports() as reports:
        results = conv(x), conv(x), conv(conv(x))
        taken = reports.take()
    assert [(r["conversions"], r["conversion_bytes"]) for r in taken] == [(1, BYTES), (0, 0), (0, 0), (0, 0)]
    assert torch.equal(results[1].cpu(), expected(draw(2, CHANNELS, 6, 5, seed=4)))
    del y


VIEWS = {
    "channels": lambda t: t[:, 3:18],
    "one channel": lambda t: t[:, 17],
    "image": lambda t: t[1],
    "every other column": lambda t: t[..., ::2],
    "turned": lambda t: t.transpose(1, 3),
    "as rows": lambda t: t.permute(0, 2, 3, 1).reshape(-1, CHANNELS),
    "as another type": lambda t: t.view(torch.uint8),
    "as strided": lambda t: torch.as_strided(t, (5, 7), (20, 1), 41),
}


@pytest.mark.parametrize("how", VIEWS)
def test_views(made, how):
    y, wanted = made
    wanted = wanted.to(memory_format=torch.channels_last)
    assert torch.equal(VIEWS[how](y).cpu(), VIEWS[how](wanted))
    assert moved()[1] == (1, BYTES)


COPIES = {
    "clone": lambda t: t.clone(),
    "contiguous": lambda t: t.contiguous(),
    "to another type": lambda t: t.to(torch.float32).to(torch.int8),
    "copy_ into another": lambda t: torch.zeros_like(t).copy_(t),
    "copy_ into a slice": lambda t: torch.zeros(2, 30, 6, 5, dtype=torch.int8, device=t.device)[:, 5:25].copy_(t),
    "cat": lambda t: torch.cat([t, t], 1)[:, CHANNELS:],
    "numpy": lambda t: torch.from_numpy(t.cpu().numpy()),
    "storage": lambda t: torch.empty(0, dtype=torch.int8, device=t.device).set_(
        t.untyped_storage(), 0, t.shape, t.stride()
    ),
}


@pytest.mark.parametrize("how", COPIES)
def test_copies(made, how):
    y, wanted = made
    copy = COPIES[how](y)
    assert torch.equal(copy.cpu(), wanted)
    assert torch.equal(conv(copy.to("presil")).cpu(), expected(wanted)), "a layer takes the copy"
    assert torch.equal(y.cpu(), wanted)


def filled(t):
    t[:, :, 2, 1:3].fill_(7)
    return t


IN_PLACE = {
    "add_": lambda t: t.add_(1),
    "neg_": lambda t: t.neg_(),
    "a pixel of a view": filled,
    "a slice of channels": lambda t: t[:, 15:17].zero_() is None or t,
    "copy_ from the CPU": lambda t: t.copy_(draw(2, CHANNELS, 6, 5, seed=9)),
    "out=": lambda t: torch.bitwise_not(t, out=t),
    "index_put_": lambda t: t.index_put_((torch.tensor([1], device=t.device),), torch.tensor(5, dtype=t.dtype)),
    "mul_ with itself": lambda t: t.mul_(t),
}


@pytest.mark.parametrize("how", IN_PLACE)
def test_written_in_place(made, how):
    """The layer after it sees what was written; nothing else of the tensor is lost."""
    y, wanted = made
    IN_PLACE[how](y)
    IN_PLACE[how](wanted)
    assert torch.equal(conv(y).cpu(), expected(wanted))
    assert torch.equal(y.cpu(), wanted)


def test_an_input_that_is_written_after_it_was_converted(made):
    x = draw(2, CHANNELS, 6, 5, seed=4)
    on_chip = x.to("presil")
    conv(on_chip)
    on_chip[:, 1].neg_()
    x[:, 1].neg_()
    assert torch.equal(conv(on_chip).cpu(), expected(x))
    assert moved()[0] == (3, 3 * BYTES), "the fixture's, and before and after it was written"


def test_the_memory_of_a_dead_one_is_anothers(made):
    """Its packed bytes are gone with it."""
    y, _ = made
    del y
    for seed in range(5, 9):
        x = draw(2, CHANNELS, 6, 5, seed=seed)
        z = x.to("presil")
        assert torch.equal(conv(z).cpu(), expected(x)) and torch.equal(z.cpu(), x)
        del z


def test_recorded_lists_take_it_as_it_lies(made):
    """A graph's commands know no planes: what lies in them is converted before the replay, once, and a layer behind it
    converts what the graph wrote."""
    y, wanted = made
    graph = torch.presil.PresilGraph()
    with torch.presil.graph(graph):
        z = conv(conv(y))
    for seed in (6, 7):
        x = draw(2, CHANNELS, 6, 5, seed=seed)
        y.copy_(conv(x.to("presil")))
        torch.presil.synchronize()
        before = moved()
        graph.replay()
        last = conv(z)
        assert torch.equal(last.cpu(), expected(expected(expected(expected(x)))))
        after = moved()
        assert [b[0] - a[0] for a, b in zip(before, after, strict=True)] == [1, 1], "of z to a layer, of its result"
        assert torch.equal(z.cpu(), expected(expected(expected(x))))
