# SPDX-License-Identifier: Apache-2.0
"""MTCNN of facenet-pytorch, with its trained weights, finds the astronaut's face as on the CPU; its convolutions on
the RTL equal the twin's."""

import pytest
import torch
from torchvision.ops import box_iou


@pytest.fixture(scope="module")
def astronaut():
    import skimage.data
    from PIL import Image

    return Image.fromarray(skimage.data.astronaut())


def detector(device: str):
    from facenet_pytorch import MTCNN

    return MTCNN(keep_all=True, device=torch.device(device))


def test_same_faces_as_on_the_cpu(astronaut):
    (boxes, scores), (expected, expected_scores) = (
        detector("presil").detect(astronaut),
        detector("cpu").detect(astronaut),
    )
    boxes, expected = boxes.astype(float), expected.astype(float)  # arrays of objects
    assert len(boxes) == len(expected) >= 1
    iou = box_iou(torch.tensor(boxes), torch.tensor(expected)).diagonal()
    assert (iou >= 0.99).all(), iou
    assert abs(scores.astype(float) - expected_scores.astype(float)).max() <= 1e-3


@pytest.mark.parametrize("name", ["pnet", "rnet", "onet"])
def test_convolutions_on_the_rtl_equal_the_twin(name):
    net = getattr(detector("presil"), name)
    size = {"pnet": 40, "rnet": 24, "onet": 48}[name]
    x = torch.randn(2, 3, size, size).to("presil")
    results = {}
    for mode in ("model", "rtl"):
        with torch.backends.presil.flags(mode=mode), torch.inference_mode():
            results[mode] = [t.cpu() for t in net(x)]
    assert all(torch.equal(a, b) for a, b in zip(results["model"], results["rtl"], strict=True))
