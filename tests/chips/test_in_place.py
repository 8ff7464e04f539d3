# SPDX-License-Identifier: Apache-2.0
"""Operators that write over an operand of theirs, on a chip that takes that and on one that says nothing of it."""

from test_asked import run

IN_PLACE = """
x, y = torch.randn(2, 8, 9, 9), torch.randn(2, 8, 9, 9)
last = torch.channels_last

def squared(t):
    a = t.clone().requires_grad_()
    (a * 2).relu_().sum().backward()
    return a.grad

def view(t):
    t[:, ::2].transpose(1, 3).relu_()
    return t

def into_second(t, u):
    return torch.add(t, u, out=u)

cases = dict(
    relu=(lambda t: t.relu_(), x), relu_last=(lambda t: t.relu_(), x.contiguous(memory_format=last)),
    relu_module=(nn.ReLU(inplace=True), x), relu_view=(view, x), gelu=(torch.ops.aten.gelu_.default, x),
    relu6=(nn.ReLU6(inplace=True), x * 4), hardtanh=(lambda t: F.hardtanh_(t, -0.2, 0.1), x),
    clamp=(lambda t: t.clamp_(-0.2, 0.1), x), clamp_min=(lambda t: t.clamp_min_(0.3), x),
    add=(lambda t, u: t.add_(u), x, y), plus=(lambda t, u: t.__iadd__(u), x, y), into_second=(into_second, x, y),
    add_row=(lambda t, u: t.add_(u), x, y[0, 0, 0]), add_itself=(lambda t: t.add_(t), x), gradient=(squared, x),
    mul=(lambda t, u: t.mul_(u), x, y), sigmoid=(lambda t: t.sigmoid_(), x), hardswish=(nn.Hardswish(inplace=True), x),
    shifted=(lambda t: torch.add(t[:1], t[1:], out=t[:1]), x),
    turned=(lambda t: t.add_(t.flip(0)), x), integers=(lambda t: t.clamp_(0, 6), torch.arange(9)),
    no_bound=(lambda t: t.clamp_(float("nan"), 1).nan_to_num_(7.0), x),
)
where, wrong, told = {}, [], {}
for name, (f, *tensors) in cases.items():
    want = [t.clone() for t in tensors]
    got = [t.to("presil") for t in tensors]
    versions = [t._version for t in got]
    result, grown = f(*want), [t._version for t in want]
    torch.presil.reset_host_operators()
    with torch.presil.explain() as e:
        made = f(*got)
    told[name] = {row["reason"] for row in torch.presil.host_operators().values()} - {"no kernel on the chip"}
    near = all(torch.allclose(a.cpu().float(), b.float(), 1e-4, 1e-5) for a, b in zip((made, *got), (result, *want)))
    same = [t._version - v for t, v in zip(got, versions)] == [t._version for t in want]
    if not near or not same or got[0].stride() != want[0].stride() or (made is got[0]) != (result is want[0]):
        wrong.append(name)
    parts = "relu", "gelu", "hardtanh", "clamp", "add", "mul", "sigmoid", "hardswish"
    where[name] = [w for op, w, _ in rows(e) if op.startswith(parts) and w in ("chip", "host")]
tell(where=where, wrong=wrong, told={name: sorted(why) for name, why in told.items()})
"""
ON_CHIP = {
    *("relu", "relu_last", "relu_module", "relu_view", "gelu", "relu6", "hardtanh", "clamp", "clamp_min"),
    *("add", "plus", "into_second", "add_row", "add_itself", "turned", "shifted"),
}
REFUSED = {"mul": "mul", "sigmoid": "sigmoid", "hardswish": "hardswish"}


def test_in_place_is_asked_where_the_same_element_is_read_and_written():
    found = run(IN_PLACE)
    assert found["wrong"] == []
    assert {name for name, where in found["where"].items() if where == ["chip"]} == ON_CHIP
    for name, label in REFUSED.items():
        assert found["where"][name] == ["host"]
        assert found["told"][name] == [f"{label}: picky has relu, gelu, clamp and add"]
    for name in ("integers", "no_bound"):
        assert found["told"][name] == ["of integers, or with bounds that are no numbers"]


def test_a_chip_that_says_nothing_of_in_place_is_not_asked():
    found = run(IN_PLACE, PRESIL_PICKY="apart")
    assert found["wrong"] == []
    assert {name for name, where in found["where"].items() if where == ["chip"]} == set()
    for name in ON_CHIP:
        assert found["told"][name] == ["in place, which the chip doesn't say that it can"], name


def test_a_residual_network_in_place_and_in_evaluation_is_the_chips():
    found = run("""
    class Block(nn.Module):
        def __init__(self, norm):
            super().__init__()
            self.convs = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2)])
            self.norms, self.relu = nn.ModuleList([norm(), norm()]), nn.ReLU(inplace=True)

        def forward(self, x):
            out = self.relu(self.norms[0](self.convs[0](x)))
            out = self.norms[1](self.convs[1](out))
            out += x
            return self.relu(out)

    norms = lambda: nn.BatchNorm2d(8), lambda: nn.GroupNorm(2, 8)
    net = nn.Sequential(*(Block(norm) for norm in norms)).eval()
    for norm in net[0].norms:
        norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 8, 6, 6)
    want = net(x)
    net.to("presil")
    X = x.to("presil")
    compiled = torch.compile(net, backend="presil")
    seen = {}
    for name, model in (("eager", net), ("compiled", compiled)):
        with torch.no_grad():
            close(model(X), want)
            torch.presil.reset_host_operators()
            with torch.presil.explain() as e:
                close(model(X), want)
        seen[name] = [rows(e), torch.presil.host_operators()]
    grads = []
    for device in ("cpu", "presil"):
        net.to(device).zero_grad()
        net(x.to(device)).square().sum().backward()
        grads.append([p.grad.cpu().clone() for p in net.parameters()])
    for a, b in zip(*grads):
        torch.testing.assert_close(b, a, rtol=1e-2, atol=1e-2)
    tell(seen=seen)
    """)
    for name, (_, host) in found["seen"].items():
        assert host.keys() <= {"aten::set_.source_Storage_storage_offset"}, (name, host)  # the compiler's memory
    on_chip = {op for op, where, _ in found["seen"]["eager"][0] if where == "chip"}
    assert on_chip == {"group_norm", "convolution_overrideable", "relu_", "native_batch_norm", "add.out"}
