# SPDX-License-Identifier: Apache-2.0
"""pytest plugin for PyTorch's own test files (./presil test --pytorch-source DIR): our device only, and our list of
exceptions.

exceptions.toml names what is known not to pass: ["test/test_torch.py"] then "Class.test" = "reason". A listed test
that fails counts as passed here and is shown as expected; one that passes is an error: take it off the list.
"""

import os
import tomllib
from pathlib import Path

# Read by torch.testing._internal when the test files instantiate their classes.
os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "privateuse1")
os.environ.setdefault("PRESIL_MODE", "model")

import pytest  # noqa: E402
import torch_presil  # noqa: E402,F401
from torch.testing._internal.common_device_type import PrivateUse1TestBase  # noqa: E402

# PyTorch does this when it makes the first class, whose name then ends in PRIVATEUSE1, the others' in PRESIL. So all
# end in PRESIL.
PrivateUse1TestBase.setUpClass()
EXCEPTIONS = Path(os.environ.get("PRESIL_PYTORCH_EXCEPTIONS", Path(__file__).with_name("exceptions.toml")))


def pytest_collection_modifyitems(items):
    known = tomllib.loads(EXCEPTIONS.read_text())
    for item in items:
        name = f"{item.cls.__name__}.{item.name}" if item.cls else item.name
        for file, reasons in known.items():
            if name in reasons and item.path.as_posix().endswith("/" + file):
                item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=True))
