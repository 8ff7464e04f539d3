# SPDX-License-Identifier: Apache-2.0
"""RNN, LSTM and GRU: forward and backward against the CPU, with their matrix products on the chip."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
VARIANTS = {
    "plain": {},
    "two layers": {"num_layers": 2},
    "both directions": {"bidirectional": True},
    "batch first, no bias": {"batch_first": True, "bias": False},
    "deep": {"num_layers": 2, "bidirectional": True, "dropout": 0.5},
}


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in flat(v)]


def moved(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) else tuple(moved(v, device) for v in value)


def step(model, x, state=None):
    """Outputs, and gradients of input and parameters under a seeded upper gradient."""
    model.zero_grad()
    x = x.detach().clone().requires_grad_()
    torch.manual_seed(5)
    outputs = flat(model(x, state) if state is not None else model(x))
    generator = torch.Generator().manual_seed(6)
    torch.autograd.backward(outputs, [torch.randn(o.shape, generator=generator).to(o) for o in outputs])
    return [o.detach() for o in outputs], [x.grad, *(p.grad.clone() for p in model.parameters())]


def compare(model, x, state=None, tolerance=2e-5):
    device = copy.deepcopy(model).to("presil")
    expected = step(model, x, state)
    got = step(device, x.to("presil"), None if state is None else moved(state, "presil"))
    for g, e in zip(flat(got), flat(expected), strict=True):
        torch.testing.assert_close(g.cpu(), e, rtol=tolerance, atol=tolerance * max(1.0, e.abs().max().item()))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_forward_and_backward(kind, variant):
    compare(KINDS[kind](6, 10, **VARIANTS[variant]), torch.randn(5, 3, 6))


@pytest.mark.parametrize("kind", KINDS)
def test_initial_state_and_one_sequence_without_a_batch(kind):
    h = torch.randn(2, 3, 10)
    compare(KINDS[kind](6, 10, 2), torch.randn(5, 3, 6), (h, torch.randn(2, 3, 10)) if kind == "lstm" else h)
    compare(KINDS[kind](6, 10), torch.randn(5, 6))


def test_projection_and_relu():
    compare(nn.LSTM(6, 10, proj_size=4), torch.randn(5, 3, 6))
    compare(nn.RNN(6, 10, nonlinearity="relu"), torch.randn(5, 3, 6))


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-12), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
@pytest.mark.parametrize("kind", KINDS)
def test_other_types(kind, dtype, tolerance):
    compare(KINDS[kind](6, 10).to(dtype), torch.randn(4, 3, 6).to(dtype), tolerance=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind):
    model = KINDS[kind](6, 10, bidirectional=True)
    device = copy.deepcopy(model).to("presil")
    x, lengths = torch.randn(7, 3, 6), torch.tensor([4, 7, 2])
    results = []
    for m, where in ((model, "cpu"), (device, "presil")):
        packed = pack_padded_sequence(x.to(where), lengths, enforce_sorted=False)
        out, out_lengths = pad_packed_sequence(m(packed)[0])
        out.square().sum().backward()
        results.append((out.detach().cpu(), out_lengths, [p.grad.cpu() for p in m.parameters()]))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=2e-5, atol=2e-5)
    assert torch.equal(results[1][1], lengths)
    for g, e in zip(results[1][2], results[0][2], strict=True):
        torch.testing.assert_close(g, e, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_cells(cell):
    compare(cell(6, 10), torch.randn(3, 6))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_gradients_in_float64(kind):
    """The formulas of the fused cells' backward, by finite differences."""
    model = KINDS[kind](3, 4).double().to("presil")
    x = torch.randn(3, 2, 3, dtype=torch.float64).to("presil").requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, *p: torch.func.functional_call(model, dict(zip(dict(model.named_parameters()), p)), x)[0],
        (x, *model.parameters()),
        fast_mode=True,
    )


def test_the_products_run_on_the_chip():
    model, x = nn.LSTM(64, 64).to("presil"), torch.randn(3, 8, 64).to("presil")
    with torch.presil.reports() as reports:
        model(x)[0].sum().backward()
        macs = sum(r["macs"] for r in reports.take())
    # input and hidden gates, each forward; gradients of input and weights. The first hidden state needs none.
    assert macs >= 3 * 8 * 64 * 256 * 2


def test_training_an_lstm_follows_the_cpu():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm, self.head = (
                nn.Embedding(11, 8),
                nn.LSTM(8, 16, batch_first=True),
                nn.Linear(16, 11),
            )

        def forward(self, tokens):
            return self.head(self.lstm(self.embedding(tokens))[0])

    model = Model()
    device = copy.deepcopy(model).to("presil")
    tokens = torch.randint(11, (4, 9))
    losses = []
    for m, t in ((model, tokens), (device, tokens.to("presil"))):
        optimizer = torch.optim.Adam(m.parameters(), lr=0.02)
        losses.append([])
        for _ in range(8):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(m(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1][-1] < 0.9 * losses[1][0]
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-4, atol=1e-4)
