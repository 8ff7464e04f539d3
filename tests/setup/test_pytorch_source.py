# SPDX-License-Identifier: Apache-2.0
"""./presil test --pytorch-source DIR runs PyTorch's own files on the device, with the list of exceptions; here on
files of the same form."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ("test_torch.py", "test_view_ops.py", "nn/test_convolution.py", "test_linalg.py")
TEXT = """
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase
import torch

class TestEarlier(TestCase):
    def test_nothing(self, device):
        pass

instantiate_device_type_tests(TestEarlier, globals())

class TestForm(TestCase):
    def test_device(self, device):
        self.assertEqual(torch.ones(3, device=device).device.type, "presil")

    def test_known(self, device):
        self.assertEqual(torch.ones(3, device=device).sum().item(), {known})

instantiate_device_type_tests(TestForm, globals())
"""


def run(source: Path, exceptions: str) -> tuple[int, dict, str]:
    (source / "exceptions.toml").write_text(exceptions)
    environment = {**os.environ, "PRESIL_PYTORCH_EXCEPTIONS": str(source / "exceptions.toml")}
    report = source / "report.json"
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "run.py"), "--pytorch-source", str(source), "--json", str(report)],
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, json.loads(report.read_text()) if report.exists() else {}, done.stdout + done.stderr


def sources(path: Path, known: int) -> Path:
    for name in FILES:
        file = path / "test" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEXT.format(known=known))
    return path


def listed() -> str:
    return "".join(f'["test/{name}"]\n"TestFormPRESIL.test_known_presil" = "wrong on purpose"\n' for name in FILES)


@pytest.mark.parametrize(
    ("known", "exceptions", "status"),
    [(3, "", 0), (4, "", 1), (4, listed(), 0), (3, listed(), 1)],
    ids=["all pass", "a failure", "a failure that is listed", "a pass that is listed"],
)
def test_exceptions_are_exact(tmp_path, known, exceptions, status):
    returned, report, text = run(sources(tmp_path, known), exceptions)
    assert returned == status, text
    assert report["passed"] + report["failed"] + report["skipped"] == 12, text


def test_a_directory_without_the_files_is_refused(tmp_path):
    returned, _, text = run(tmp_path, "")
    assert returned == 2 and "test_torch.py" in text
