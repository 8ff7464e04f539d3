# SPDX-License-Identifier: Apache-2.0
"""torchvision's operators: imported in any order, against plain Python, against torchvision's own Python path, on the
device, with gradients, opcheck."""

import math
import subprocess
import sys

import pytest
import torch
import torchvision
from torchvision import ops

DEVICES = ["cpu", "presil"]
PYTHON_ROI_ALIGN = sys.modules[
    "torchvision.ops.roi_align"
]._roi_align.__wrapped__  # not through the compiler that it stands behind


def regions(k=6, images=2, size=20.0, dtype=torch.float32):
    a, b = torch.rand(k, 2) * size * 0.7, torch.rand(k, 2) * size * 0.6 + 0.5
    return torch.cat([torch.randint(images, (k, 1)).float(), a, a + b], 1).to(dtype)


def boxes(n):
    a = torch.rand(n, 2) * 50
    return torch.cat([a, a + torch.rand(n, 2) * 30 + 1], 1)


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "code",
    [
        "import torch_presil, torchvision; torchvision.models.resnet18",
        # the first import fails where nothing provides the operators; the second one, behind torch_presil, succeeds
        "import torch\ntry:\n    import torchvision\nexcept RuntimeError as e:\n    assert 'torchvision::' in "
        "str(e), e\nimport torch_presil, torchvision\nassert torchvision.extension._has_ops()",
        "import torch_presil; from transformers import ViTModel",
    ],
)
def test_import(code):
    result = run(code)
    assert result.returncode == 0, result.stderr


def test_defining_again_changes_nothing():
    kernels = torch._C._dispatch_dump("torchvision::nms")
    torch_presil = sys.modules["torch_presil"]
    torch_presil._C.define_vision_operators()
    torch_presil.vision.install()
    assert torch._C._dispatch_dump("torchvision::nms") == kernels
    assert sum(type(finder).__name__ == "_Finder" for finder in sys.meta_path) == 1


def plain_nms(b, scores, threshold):
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i].item()):
        if all(ops.box_iou(b[i : i + 1], b[j : j + 1]).item() <= threshold for j in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n,threshold", [(0, 0.5), (1, 0.5), (40, 0.2), (60, 0.5), (60, 0.9)])
def test_nms(device, n, threshold):
    b, scores = boxes(n), torch.rand(n)
    got = ops.nms(b.to(device), scores.to(device), threshold)
    assert got.device.type == device and got.dtype == torch.int64
    assert got.cpu().tolist() == plain_nms(b, scores, threshold)


@pytest.mark.parametrize("device", DEVICES)
def test_nms_of_classes_and_its_errors(device):
    b, scores, labels = boxes(30).to(device), torch.rand(30).to(device), torch.randint(3, (30,)).to(device)
    got = ops.batched_nms(b, scores, labels, 0.4).cpu()
    expected = [
        i
        for c in range(3)
        for i in [
            torch.where(labels.cpu() == c)[0][k].item()
            for k in plain_nms(b.cpu()[labels.cpu() == c], scores.cpu()[labels.cpu() == c], 0.4)
        ]
    ]
    assert sorted(got.tolist()) == sorted(expected)
    with pytest.raises(RuntimeError, match=r"\[N, 4\]"):
        ops.nms(torch.rand(3, 5, device=device), torch.rand(3, device=device), 0.5)
    with pytest.raises(RuntimeError, match="one a box"):
        ops.nms(torch.rand(3, 4, device=device), torch.rand(2, device=device), 0.5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_roi_align_equals_torchvisions_python(device, aligned, ratio):
    x, rois = torch.randn(2, 3, 24, 22), torch.cat([regions(), torch.tensor([[0, -1.0, -1, 23, 25], [1, 5, 5, 5, 5]])])
    expected = PYTHON_ROI_ALIGN(x, rois, 0.9, 5, 4, ratio, aligned)
    got = torch.ops.torchvision.roi_align(x.to(device), rois.to(device), 0.9, 5, 4, ratio, aligned)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)


def test_roi_align_far_outside_is_zero():
    # torchvision's Python path clamps such samples; its kernels, and these, take 0 beyond one pixel outside
    x, rois = torch.ones(1, 1, 4, 4), torch.tensor([[0.0, -4, 0, 4, 4]])
    got = torch.ops.torchvision.roi_align(x, rois, 1.0, 1, 8, 1, False)
    assert got.flatten().tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


def plain_bins(x, rois, scale, ph, pw, extra, cut):
    """(region, i, j, image, window) of pooling on whole pixels."""
    for k, roi in enumerate(rois.tolist()):
        x0, y0, x1, y1 = (math.floor(v * scale + 0.5) for v in roi[1:])
        bh, bw = max(y1 - y0 + extra, 1) / ph, max(x1 - x0 + extra, 1) / pw
        clamp = lambda v, end: min(max(v, 0), end - cut)  # noqa: E731
        for i in range(ph):
            for j in range(pw):
                rows = slice(
                    clamp(math.floor(i * bh) + y0, x.shape[2]), clamp(math.ceil((i + 1) * bh) + y0, x.shape[2])
                )
                columns = slice(
                    clamp(math.floor(j * bw) + x0, x.shape[3]), clamp(math.ceil((j + 1) * bw) + x0, x.shape[3])
                )
                yield k, i, j, x[int(roi[0]), :, rows, columns]


@pytest.mark.parametrize("device", DEVICES)
def test_roi_pool_and_ps_roi_pool_equal_plain_python(device):
    x, rois = torch.randn(2, 12, 24, 22, dtype=torch.float64), regions(dtype=torch.float64)
    largest, mean = torch.zeros(6, 12, 3, 2, dtype=torch.float64), torch.zeros(6, 2, 3, 2, dtype=torch.float64)
    for k, i, j, window in plain_bins(x, rois, 0.8, 3, 2, 1, 0):
        if window.numel() // 12:
            largest[k, :, i, j] = window.amax((1, 2))
    for k, i, j, window in plain_bins(x, rois, 0.8, 3, 2, 0, 1):
        if window.numel() // 12:
            mean[k, :, i, j] = window.mean((1, 2))[torch.arange(2) * 6 + i * 2 + j]
    assert torch.equal(ops.roi_pool(x.to(device), rois.to(device), (3, 2), 0.8).cpu(), largest)
    torch.testing.assert_close(ops.ps_roi_pool(x.to(device), rois.to(device), (3, 2), 0.8).cpu(), mean)


@pytest.mark.parametrize("device", DEVICES)
def test_ps_roi_align_is_roi_align_of_one_channel_a_bin(device):
    x, rois = torch.randn(2, 12, 24, 22), regions()
    whole = torch.ops.torchvision.roi_align(x, rois, 0.8, 3, 2, 2, True)
    expected = torch.stack(
        [torch.stack([whole[:, torch.arange(2) * 6 + i * 2 + j, i, j] for j in range(2)], -1) for i in range(3)], -2
    )
    torch.testing.assert_close(ops.ps_roi_align(x.to(device), rois.to(device), (3, 2), 0.8, 2).cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("groups,offset_groups,use_mask", [(1, 1, False), (2, 1, True), (1, 3, True)])
def test_deform_conv2d_equals_grid_samples(device, groups, offset_groups, use_mask):
    n, c, h, w, o, kh, kw = 2, 6, 9, 8, 4, 3, 2
    x, weight, bias = torch.randn(n, c, h, w), torch.randn(o, c // groups, kh, kw), torch.randn(o)
    oh, ow = (h + 2 - 2 * (kh - 1) - 1) // 2 + 1, w + 2 - (kw - 1)
    offset, mask = (
        torch.randn(n, 2 * offset_groups * kh * kw, oh, ow) * 2,
        torch.rand(n, offset_groups * kh * kw, oh, ow) if use_mask else None,
    )
    columns = torch.zeros(n, c, kh * kw, oh, ow)
    for g in range(offset_groups):
        channels = slice(g * c // offset_groups, (g + 1) * c // offset_groups)
        for tap in range(kh * kw):
            entry = g * kh * kw + tap
            y = torch.arange(oh)[None, :, None] * 2 - 1 + tap // kw * 2 + offset[:, 2 * entry]
            u = torch.arange(ow)[None, None, :] - 1 + tap % kw + offset[:, 2 * entry + 1]
            grid = torch.stack([(2 * u + 1) / w - 1, (2 * y + 1) / h - 1], -1)
            value = torch.nn.functional.grid_sample(x[:, channels], grid, align_corners=False)
            columns[:, channels, tap] = value * mask[:, entry : entry + 1] if use_mask else value
    expected = torch.einsum(
        "goct,ngctyx->ngoyx",
        weight.view(groups, o // groups, c // groups, kh * kw),
        columns.view(n, groups, c // groups, kh * kw, oh, ow),
    ).reshape(n, o, oh, ow) + bias.view(1, -1, 1, 1)
    got = ops.deform_conv2d(
        x.to(device),
        offset.to(device),
        weight.to(device),
        bias.to(device),
        (2, 1),
        (1, 1),
        (2, 1),
        mask.to(device) if use_mask else None,
    )
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_rotated_boxes():
    a = torch.tensor(
        [[50.0, 50, 20, 10, 0], [50, 50, 20, 10, 90], [50, 50, 20, 20, 45], [500, 500, 4, 4, 10], [50, 50, 0, 10, 0]]
    )
    got = ops.box_iou(a, a, fmt="cxcywhr")
    assert torch.allclose(got.diag(), torch.tensor([1.0, 1, 1, 1, 0]))
    assert got[0, 1].item() == pytest.approx(100 / 300)
    octagon = 400 * 2 * (math.sqrt(2) - 1)  # two squares, one turned by 45 degrees
    assert ops.box_iou(a[2:3], torch.tensor([[50.0, 50, 20, 20, 0]]), fmt="cxcywhr").item() == pytest.approx(
        octagon / (800 - octagon), rel=1e-5
    )
    assert got[0, 3] == 0 and torch.allclose(got, got.t())
    # with the y axis downwards, a positive angle turns counter-clockwise: the right end of the box goes up
    long, up, down = (
        torch.tensor([[0.0, 0, 20, 1, 30]]),
        torch.tensor([[8.0, -4.6, 2, 2, 0]]),
        torch.tensor([[8.0, 4.6, 2, 2, 0]]),
    )
    assert ops.box_iou(long, up, fmt="cxcywhr") > 0.01 and ops.box_iou(long, down, fmt="cxcywhr") == 0


def differentiable(device):
    x, rois = (
        torch.randn(2, 4, 9, 8, dtype=torch.float64).to(device).requires_grad_(),
        regions(3, 2, 9.0, torch.float64).to(device),
    )
    weight, offset, mask, bias = (
        t.to(device).requires_grad_()
        for t in (
            torch.randn(2, 2, 3, 2, dtype=torch.float64),
            torch.randn(2, 24, 7, 7, dtype=torch.float64),
            torch.rand(2, 12, 7, 7, dtype=torch.float64),
            torch.randn(2, dtype=torch.float64),
        )
    )
    v = torch.ops.torchvision
    return {
        "roi_align": (v.roi_align.default, (x, rois, 0.9, 2, 2, 2, True)),
        "ps_roi_align": (v.ps_roi_align.default, (x, rois, 0.9, 2, 2, 2)),
        "roi_pool": (v.roi_pool.default, (x, rois, 0.9, 2, 2)),
        "ps_roi_pool": (v.ps_roi_pool.default, (x, rois, 0.9, 2, 2)),
        "deform_conv2d": (v.deform_conv2d.default, (x, weight, offset, mask, bias, 1, 1, 0, 0, 1, 1, 2, 2, True)),
    }


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(differentiable("cpu")))
def test_gradients(name, device):
    operator, arguments = differentiable(device)[name]
    inputs = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]

    def function(*values):
        values = iter(values)
        return first(
            operator(*(next(values) if isinstance(a, torch.Tensor) and a.requires_grad else a for a in arguments))
        )

    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(differentiable("cpu")))
def test_opcheck(name, device):
    operator, arguments = differentiable(device)[name]
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic") + (
        ("test_autograd_registration",) if device == "cpu" else ()
    )  # it knows no other devices than its own list
    torch.library.opcheck(operator, arguments, test_utils=tests)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck_nms(device):
    # its number of results depends on the data: no static shapes
    torch.library.opcheck(
        torch.ops.torchvision.nms.default,
        (boxes(20).to(device), torch.rand(20).to(device), 0.5),
        test_utils=("test_schema", "test_faketensor"),
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_and_autocast(dtype):
    x, rois = torch.randn(2, 3, 24, 22).to(dtype), regions().to(dtype)
    got = torch.ops.torchvision.roi_align(x.to("presil"), rois.to("presil"), 0.9, 5, 4, 2, True)
    expected = torch.ops.torchvision.roi_align(x.float(), rois.float(), 0.9, 5, 4, 2, True).to(dtype)
    assert got.dtype == dtype and torch.equal(got.cpu(), expected)
    with torch.autocast("presil", dtype=dtype):
        mixed = ops.roi_align(x.to("presil"), regions().to("presil"), (5, 4))
        kept = ops.nms(boxes(9).to("presil"), torch.rand(9).to("presil", dtype), 0.5)
    assert mixed.dtype == dtype and kept.dtype == torch.int64


@pytest.mark.parametrize("device", DEVICES)
def test_bad_regions_are_refused(device):
    x = torch.randn(2, 4, 9, 8, device=device)
    for rois, error, text in (
        (torch.rand(3, 4), RuntimeError, r"Tensor\[K, 5\]"),
        (torch.tensor([[2.0, 0, 0, 4, 4]]), IndexError, "the batch has 2"),
        (torch.rand(1, 5).double(), RuntimeError, "same type"),
    ):
        with pytest.raises(error, match=text):
            torch.ops.torchvision.roi_align(x, rois.to(device), 1.0, 2, 2, -1, False)
    nan = torch.tensor([[0.0, float("nan"), 0, 4, 4]]).to(device)
    assert torch.ops.torchvision.roi_align(x, nan, 1.0, 2, 2, -1, True).shape == (1, 4, 2, 2)
    assert torch.ops.torchvision.roi_align(x, torch.zeros(0, 5, device=device), 1.0, 2, 2, -1, True).shape == (
        0,
        4,
        2,
        2,
    )


def test_quantized():
    x, rois = torch.rand(1, 3, 12, 12), torch.tensor([[0.0, 1, 1, 8, 9]])
    q = torch.quantize_per_tensor(x, 1 / 255, 0, torch.quint8)
    r = torch.quantize_per_tensor(rois, 0.0625, 0, torch.quint8)
    expected = ops.roi_align(q.dequantize(), r.dequantize(), (3, 3))
    got = ops.roi_align(q, r, (3, 3))
    assert (got.dequantize() - expected).abs().max() <= 0.51 / 255
    b, scores = boxes(20).round(), torch.linspace(0.1, 0.9, 20)
    qb, qs = (
        torch.quantize_per_tensor(b, 1.0, 0, torch.quint8),
        torch.quantize_per_tensor(scores, 1 / 255, 0, torch.quint8),
    )
    assert ops.nms(qb, qs, 0.5).tolist() == ops.nms(qb.dequantize(), qs.dequantize(), 0.5).tolist()


def test_a_detector_runs_as_on_the_cpu():
    torch.manual_seed(1)
    model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=5
    ).eval()
    image = torch.rand(3, 96, 96)
    with torch.inference_mode():
        expected = model([image])[0]
        got = model.to("presil")([image.to("presil")])[0]
    assert len(got["boxes"]) == len(expected["boxes"]) > 0
    torch.testing.assert_close(got["scores"].cpu(), expected["scores"], rtol=1e-3, atol=1e-4)
