# SPDX-License-Identifier: Apache-2.0
"""PyTorch's generic device-type tests: its own decorators and base class on this device. (Every entry and sample of
its operator database: tests/opinfo.)"""

import torch
from torch.testing._internal.common_device_type import (
    OpDTypes,
    deviceCountAtLeast,
    dtypes,
    instantiate_device_type_tests,
    onlyPRIVATEUSE1,
    ops,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase

CHIP = (
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "addbmm",
    "mv",
    "dot",
    "matmul",
    "nn.functional.linear",
    "nn.functional.conv1d",
    "nn.functional.conv2d",
    "nn.functional.conv_transpose2d",
)
chip_ops = [op for op in op_db if op.name in CHIP and not op.variant_test_name]
SAMPLES = 6


def moved(sample, *to):
    return sample.transform(
        lambda x: x.detach().to(*to).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
    )


def magnitude(op, sample):
    """What docs/numerics.md 6 measures errors by: the same sums of the operands' absolute values, in float64."""
    size = moved(sample, torch.float64).transform(
        lambda x: x.detach().abs() if isinstance(x, torch.Tensor) else abs(x) if isinstance(x, float) else x
    )
    return op(size.input, *size.args, **size.kwargs)


class TestDeviceType(TestCase):
    exact_dtype = True

    def test_the_class_is_made_for_this_device_alone_with_its_name(self, device):
        self.assertEqual(torch.device(device).type, "presil")
        self.assertEqual(torch.empty(0, device=device).device, torch.device(device))
        self.assertTrue(
            type(self).__name__.endswith(("PRIVATEUSE1", "PRESIL"))
        )  # the first class that PyTorch makes in a process, the others

    @onlyPRIVATEUSE1
    @dtypes(
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.int64,
        torch.bool,
        torch.complex64,
    )
    def test_every_dtype_goes_there_and_back(self, device, dtype):
        x = torch.testing.make_tensor(3, 5, device="cpu", dtype=dtype)
        self.assertEqual(x.to(device).t().contiguous().cpu(), x.t().contiguous())
        self.assertEqual(torch.testing.make_tensor(4, device=device, dtype=dtype).dtype, dtype)

    @deviceCountAtLeast(1)
    def test_devices(self, devices):
        self.assertEqual(len(devices), torch.presil.device_count())

    @ops(chip_ops, dtypes=OpDTypes.supported, allowed_dtypes=(torch.float32, torch.int64))
    def test_chip_operators_as_on_the_cpu(self, device, dtype, op):
        compared = 0
        for sample in list(op.sample_inputs("cpu", dtype))[:SAMPLES]:
            here = moved(sample, device)
            expected, found = op(sample.input, *sample.args, **sample.kwargs), op(here.input, *here.args, **here.kwargs)
            self.assertEqual(found.device.type, "presil")
            if dtype.is_floating_point:
                exact = moved(sample, torch.float64)
                error = (found.cpu() - op(exact.input, *exact.args, **exact.kwargs)).abs()
                self.assertEqual(int((error > 2**-21 * magnitude(op, sample)).sum()), 0)
                self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
            else:
                self.assertEqual(found.cpu(), expected)
            compared += 1
        self.assertGreater(compared, 0)

    @ops([op for op in chip_ops if op.supports_autograd], dtypes=OpDTypes.supported, allowed_dtypes=(torch.float32,))
    def test_gradients_of_chip_operators_as_on_the_cpu(self, device, dtype, op):
        compared = 0
        for sample in list(op.sample_inputs("cpu", dtype, requires_grad=True))[:SAMPLES]:
            gradients = []
            for place in (sample, moved(sample, device)):
                leaves = [
                    t
                    for t in (place.input, *place.args, *place.kwargs.values())
                    if isinstance(t, torch.Tensor) and t.requires_grad
                ]
                out = op(place.input, *place.args, **place.kwargs)
                gradients.append([g.cpu() for g in torch.autograd.grad(out.sum(), leaves)] if out.numel() else [])
            self.assertEqual(gradients[1], gradients[0])
            compared += len(gradients[0])
        self.assertGreater(compared, 0)

    @ops([op for op in chip_ops if op.supports_out], dtypes=OpDTypes.supported, allowed_dtypes=(torch.float32,))
    def test_out_is_written_in_place_and_resized(self, device, dtype, op):
        for sample in list(op.sample_inputs(device, dtype))[:SAMPLES]:
            expected = op(sample.input, *sample.args, **sample.kwargs)
            out = torch.full_like(expected, float("nan"))
            address = out.data_ptr()
            self.assertIs(op(sample.input, *sample.args, **sample.kwargs, out=out), out)
            self.assertEqual(out, expected)
            self.assertEqual(out.data_ptr(), address)
            empty = torch.empty(0, device=device)
            op(sample.input, *sample.args, **sample.kwargs, out=empty)
            self.assertEqual(empty, expected)


instantiate_device_type_tests(TestDeviceType, globals(), only_for="privateuse1")
