# SPDX-License-Identifier: Apache-2.0
"""tests/ports_example/: presil_add_dpi_simulator() outside of this tree, found with find_package(Presil COMPONENTS
sim), runs somebody's chip."""

import os
import subprocess
from pathlib import Path

from .servers import BUILD, SERVERS, Server
from .test_document import memory
from .test_ports import ID, SCRATCH, WORD, Client


def test_a_testbench_of_ones_own(tmp_path, monkeypatch):
    source = Path(__file__).resolve().parents[1] / "ports_example"
    options = f"-DPresil_DIR={BUILD / 'cmake'}", "-DPORTS_EXAMPLE_DPI=ON"
    for command in (
        ["cmake", "-S", source, "-B", tmp_path, "-G", "Ninja", *options],
        ["cmake", "--build", tmp_path, "--target", "presil_dpi_mine"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    monkeypatch.setitem(SERVERS, "outside", f"{tmp_path}/presil-dpi-mine +presil_socket={{socket}}")
    fd = memory()
    with Server("outside", "mine", tmp_path) as server:
        client = Client(server.path, fd)
        assert b"mine" in client.welcome
        assert [client.read32(at) for at in (ID, WORD, SCRATCH)] == [0x504F5254, 32, 0x12345678]
    os.close(fd)
