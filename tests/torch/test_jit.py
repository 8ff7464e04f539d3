# SPDX-License-Identifier: Apache-2.0
"""TorchScript on the device, and the torch::jit backend "presil" (deprecated upstream, as TorchScript is; no other
warnings are let through)."""

import copy
import io
from typing import Dict, List, Tuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_presil import _C
import torchvision

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def lower(module, spec=""):
    return torch._C._jit_to_backend("presil", module, {"forward": spec})


def saved_and_loaded(module, **arguments):
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer, **arguments)


def close(got, expected, tolerance=1e-5):
    assert got.shape == expected.shape and got.dtype == expected.dtype
    scale = expected.float().abs().max().item()
    assert (got.cpu().float() - expected.float()).abs().max().item() <= tolerance * scale


def launches(call):
    """Labels of the chip's launches, and the host's operators."""
    _C.collect_reports(True)
    _C.reset_host_operators()
    try:
        call()
        torch.presil.synchronize()
        return [r["label"] for r in _C.take_reports()], set(_C.host_operators())
    finally:
        _C.collect_reports(False)


def normalised(model):
    """Batch-norms with statistics that are not the initial ones."""
    for m in model.modules():
        if isinstance(m, (nn.BatchNorm2d, nn.BatchNorm1d)):
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.normal_(m.bias)
            nn.init.normal_(m.running_mean, 0, 0.2)
            nn.init.uniform_(m.running_var, 0.5, 1.5)
    return model.eval()


class Block(nn.Module):
    """Everything that fuses: folded batch-norm, in-place residual, relu; a linear layer behind."""

    def __init__(self, channels=8):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=1, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, 5)

    def forward(self, x):
        y = F.relu6(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.fc(F.relu(y, inplace=True).mean((2, 3)))


@pytest.fixture(scope="module")
def resnet18():
    torch.manual_seed(3)
    return normalised(torchvision.models.resnet18(weights=None))


@pytest.fixture
def block():
    return normalised(Block())


# ---- TorchScript on the device


@pytest.mark.parametrize(
    "make",
    [
        lambda m, x: torch.jit.trace(m, x),
        lambda m, x: torch.jit.script(m),
        lambda m, x: torch.jit.freeze(torch.jit.script(m)),
        lambda m, x: torch.jit.optimize_for_inference(torch.jit.script(m)),
    ],
    ids=["trace", "script", "freeze", "optimize_for_inference"],
)
def test_script_on_the_device(block, make):
    x = torch.randn(2, 8, 9, 9)
    expected = block(x).detach()
    module = make(copy.deepcopy(block).to("presil"), x.to("presil"))
    for _ in range(3):  # the profiling executor rewrites the graph on the second call
        close(module(x.to("presil")).detach(), expected)


def test_save_on_one_device_load_on_the_other(block):
    x = torch.randn(2, 8, 9, 9)
    expected = block(x).detach()
    on_device, on_host = torch.jit.script(copy.deepcopy(block).to("presil")), torch.jit.script(block)
    for module in (on_device, on_host):
        there = saved_and_loaded(module, map_location="presil")
        assert {p.device.type for p in there.parameters()} == {"presil"}
        close(there(x.to("presil")).detach(), expected)
        assert torch.equal(saved_and_loaded(module, map_location="cpu")(x), expected)
    assert {p.device.type for p in saved_and_loaded(on_device).parameters()} == {"presil"}
    assert {p.device.type for p in saved_and_loaded(on_host).to("presil").parameters()} == {"presil"}


def test_training_of_a_script(block):
    x, target = torch.randn(4, 8, 6, 6), torch.randint(0, 5, (4,))
    host, device = (
        torch.jit.script(copy.deepcopy(block).train()),
        torch.jit.script(copy.deepcopy(block).train().to("presil")),
    )
    F.cross_entropy(host(x), target).backward()
    F.cross_entropy(device(x.to("presil")), target.to("presil")).backward()
    for (name, p), q in zip(host.named_parameters(), device.parameters()):
        # A bias before batch-norm has no gradient but the rounding's.
        assert (q.grad.cpu() - p.grad).abs().max() <= 1e-4 * max(1e-2, p.grad.abs().max().item()), name


def test_export_on_the_device(block):
    x = torch.randn(2, 8, 9, 9)
    program = torch.export.export(copy.deepcopy(block).to("presil"), (x.to("presil"),))
    close(program.module()(x.to("presil")).detach(), block(x).detach())
    close(program.run_decompositions().module()(x.to("presil")).detach(), block(x).detach())


# ---- the backend


@pytest.mark.parametrize("traced", [False, True])
def test_lowered_resnet18(resnet18, traced):
    x = torch.randn(2, 3, 64, 64)
    expected = resnet18(x).detach()
    lowered = lower(torch.jit.trace(resnet18, x) if traced else torch.jit.script(resnet18))
    close(lowered(x), expected)  # from the host and back
    on_device = lowered(x.to("presil"))
    assert on_device.device.type == "presil"
    close(on_device, expected)
    labels, host = launches(lambda: lowered(x.to("presil")))
    # Every convolution and the linear layer is one launch with its batch-norm, residual and relu inside.
    assert (
        len(labels) == 21
        and labels[:3] == ["conv1", "layer1.0.conv1", "layer1.0.conv2"]
        and "layer2.0.downsample.0" in labels
        and labels[-1] == "fc"
    )
    assert host == {"aten::max_pool2d_with_indices.out", "aten::mean.out"}


def test_weights_are_packed_once(block):
    lowered = lower(torch.jit.script(block))
    _C.clear_weights_cache()
    x = torch.randn(2, 8, 9, 9, device="presil")
    lowered(x)
    entries = _C.weights_cache_entries()
    lowered(x)
    assert _C.weights_cache_entries() == entries == 3


@pytest.mark.parametrize("map_location", [None, "cpu", "presil"])
def test_lowered_is_saved_loaded_and_copied(block, map_location):
    x = torch.randn(2, 8, 9, 9)
    loaded = saved_and_loaded(lower(torch.jit.script(block)), map_location=map_location)
    for module in (loaded, copy.deepcopy(loaded), saved_and_loaded(loaded), loaded.to("presil")):
        close(module(x), block(x).detach())


def test_lowered_from_the_device(block):
    lowered = lower(torch.jit.script(copy.deepcopy(block).to("presil")))
    x = torch.randn(2, 8, 9, 9)
    close(lowered(x), block(x).detach())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dtype_in_the_spec(block, dtype):
    x = torch.randn(2, 8, 9, 9)
    lowered = lower(torch.jit.script(block), {"dtype": dtype, "device": "presil:0"})
    close(lowered(x), block(x).detach(), 2e-2)
    assert lowered(x.to("presil")).dtype == torch.float32
    assert not torch.equal(lowered(x), lower(torch.jit.script(block))(x))


def test_selective_lowering(resnet18):
    x = torch.randn(1, 3, 64, 64, device="presil")
    model = torch.jit.script(copy.deepcopy(resnet18).to("presil"))
    expected = model(x)
    mixed = torch._C._jit_to_backend_selective(
        model, lambda m: torch._C._jit_to_backend("presil", m, {"forward": ""}), ["layer1", "layer3"]
    )
    close(mixed(x).detach(), expected.cpu().detach())
    labels, _ = launches(lambda: mixed(x))
    assert "0.conv1" in labels and labels.count("conv2d") > 5  # lowered ones have the names of their part
    close(saved_and_loaded(mixed)(x).detach(), expected.cpu().detach())


class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    @torch.jit.export
    def accumulate(self, x, h):
        return self.fc(x) + h

    @torch.jit.export
    def both(self, x, h) -> Tuple[torch.Tensor, torch.Tensor]:
        return self.fc(x), F.relu(self.fc(x) + h)

    def forward(self, x):
        return self.fc(x)


def test_several_methods_and_tuples():
    module = torch.jit.script(Methods())
    lowered = torch._C._jit_to_backend("presil", module, {"accumulate": {"": ""}, "both": "", "forward": None})
    x, h = torch.randn(4, 6), torch.randn(4, 6)
    close(lowered.accumulate(x, h), module.accumulate(x, h).detach())
    for got, expected in zip(lowered.both(x, h), module.both(x, h), strict=True):
        close(got, expected.detach())
    close(lowered(x), module(x).detach())


class Broadcast(nn.Module):
    """Residuals that one operator can't add: they must not be fused blindly."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 6, 3)

    def forward(self, x, r):
        return F.relu(self.conv(x) + r)


@pytest.mark.parametrize("shape", [(1, 6, 5, 5), (6, 1, 1), (3, 6, 5, 5), (1,), ()], ids=str)
def test_residuals_of_every_shape(shape):
    torch.manual_seed(1)
    module, x, r = Broadcast().eval(), torch.randn(1, 4, 7, 7), torch.randn(shape)
    close(lower(torch.jit.script(module))(x, r), module(x, r).detach())


def test_unbatched_input_and_other_dtypes():
    module, r = Broadcast().eval(), torch.zeros(1)
    close(lower(torch.jit.script(module))(torch.ones(4, 7, 7), r), module(torch.ones(4, 7, 7), r).detach())
    double = copy.deepcopy(module).double()
    close(
        lower(torch.jit.script(double))(torch.ones(2, 4, 7, 7).double(), r.double()),
        double(torch.ones(2, 4, 7, 7).double(), r.double()).detach(),
        1e-12,
    )


class Others(nn.Module):
    """Control flow, lists, dictionaries, tensors made inside, state that the method writes."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding="same")
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("scale", torch.tensor([1.0, 2.0]))

    def forward(self, x, parts: List[torch.Tensor], named: Dict[str, torch.Tensor]):
        self.calls += 1
        if x.sum().item() > 0:
            x = self.conv(x)
        for p in parts:
            x = x + p
        return x + named["shift"] + self.scale.view(1, 2, 1, 1) * self.calls + torch.arange(4, device=x.device)


def test_control_flow_containers_and_state():
    module = torch.jit.script(Others().eval())
    lowered = lower(module)
    for sign in (1, -1, 1):  # calls counts in both
        x = sign * torch.rand(1, 2, 3, 4)
        arguments = (x, [torch.randn(1, 2, 3, 4)] * 2, {"shift": torch.randn(4)})
        close(lowered(*arguments), module(*arguments).detach())


class Positions(nn.Module):
    def forward(self, x):
        return x + torch.arange(x.shape[1])


def test_a_trace_makes_its_tensors_on_the_device():
    module = torch.jit.trace(Positions(), torch.zeros(2, 3))
    lowered = lower(module)
    x = torch.randn(2, 3)
    assert torch.equal(lowered(x.to("presil")).cpu(), x + torch.arange(3))


class Pair(nn.Module):
    def forward(self, p: Tuple[torch.Tensor, List[torch.Tensor]]):
        return p[0] @ p[1][0]


def test_nested_inputs():
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    close(lower(torch.jit.script(Pair().eval()))((a, [b])), a @ b)


# ---- what is refused


def test_training_mode_is_refused_where_it_matters():
    with pytest.raises(ValueError, match=r"eval mode.*\.eval\(\)"):
        lower(torch.jit.script(Block().train()))
    with pytest.raises(ValueError, match="dropout"):
        lower(torch.jit.trace(nn.Dropout().train(), torch.ones(3), check_trace=False))
    module = nn.Linear(3, 3).train()
    close(lower(torch.jit.script(module))(torch.ones(2, 3)), module(torch.ones(2, 3)).detach())


@pytest.mark.parametrize(
    "spec, text",
    [
        ({"device": "cuda"}, "'presil' or 'presil:<index>', got 'cuda'"),
        ({"device": "presil:7"}, "no device 'presil:7'"),
        ({"dtype": "int8"}, "'float32', 'bfloat16' or 'float16'"),
        ({"colour": "red"}, r"unknown option 'colour' \(device, dtype\)"),
        ({"dtype": 3}, "must be a string"),
        ("fast", "a dictionary of strings"),
    ],
)
def test_bad_specs(spec, text):
    with pytest.raises(ValueError, match=text):
        lower(torch.jit.script(nn.Linear(2, 2).eval()), spec)


def test_unknown_method_and_none():
    module = torch.jit.script(nn.Linear(2, 2).eval())
    with pytest.raises(ValueError, match="names 'backward', which the module does not have"):
        torch._C._jit_to_backend("presil", module, {"backward": ""})
    with pytest.raises(ValueError, match="names no method"):
        torch._C._jit_to_backend("presil", module, {})


def test_errors_name_the_line_of_the_model(block):
    with pytest.raises(RuntimeError, match="self.conv1|nn/modules/conv.py"):
        lower(torch.jit.script(block))(torch.randn(2, 9, 5, 5))


def test_layers_pass_opcheck():
    x, w, r = (
        torch.randn(2, 4, 6, 6, device="presil"),
        torch.randn(3, 4, 3, 3, device="presil"),
        torch.randn(2, 3, 4, 4, device="presil"),
    )
    torch.library.opcheck(torch.ops.presil.conv2d_layer, (x, w, None, [1, 1], [0, 0], [1, 1], 1, r, "relu"))
    torch.library.opcheck(
        torch.ops.presil.linear_layer,
        (
            torch.randn(2, 4, device="presil"),
            torch.randn(3, 4, device="presil"),
            torch.randn(3, device="presil"),
            None,
            "relu6",
        ),
    )
