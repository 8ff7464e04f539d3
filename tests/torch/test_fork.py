# SPDX-License-Identifier: Apache-2.0
"""Processes: a forked child of a user of the device is refused with a text; everything else works."""

import subprocess
import sys


def run(code: str, expected: int = 0) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == expected, f"{done.returncode}\n{done.stderr}"


CHILD = """
import os, torch, torch_presil
{before}
pid = os.fork()
if pid == 0:
    try:
        {child}
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(9)
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_child_is_refused_by_name_of_the_cure():
    run(
        CHILD.format(
            before="x = torch.ones(1, device='presil')",
            child="""assert torch.presil._is_in_bad_fork() and not torch.presil.is_initialized()
        for use in (lambda: torch.ones(1, device="presil"), lambda: x + 1, lambda: x @ x, lambda: torch.presil.init()):
            try:
                use()
            except RuntimeError as error:
                assert "forked" in str(error) and "spawn" in str(error), error
            else:
                raise AssertionError("not refused")
        torch.manual_seed(1); torch.presil.is_available(); torch.presil.device_count()
        del x
        assert torch.ones(3).sum() == 3""",
        )
    )


def test_a_child_forked_before_the_first_use_may_use_the_device():
    run(
        CHILD.format(
            before="torch.manual_seed(1); torch.presil.is_available()",
            child="assert (torch.ones(4, 4, device='presil') @ torch.ones(4, 4, device='presil')).sum().item() == 64",
        )
    )


def test_two_spawned_processes_have_devices_of_their_own(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text("""
import torch, torch_presil, torch.multiprocessing as mp

def work(rank):
    x = torch.full((32, 32), float(rank + 1), device="presil")
    assert (x @ x).mean().item() == 32 * (rank + 1) ** 2

if __name__ == "__main__":
    torch.ones(2, device="presil").sum().item()
    mp.spawn(work, nprocs=2)
""")
    assert subprocess.run([sys.executable, script], timeout=300).returncode == 0
