# SPDX-License-Identifier: Apache-2.0
"""HTML files in Debian's chromium, without a network."""

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_a_browser = pytest.mark.skipif(not BROWSER, reason="chromium is not installed (apt-get install chromium)")


def opened(page: Path, tail: str = "", script: str = "", options=()) -> str:
    """The document as the browser has it, after a script."""
    if script:
        copy = page.with_name("driven.html")
        copy.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
        page = copy
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", *options,
         f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", f"{page.as_uri()}{tail}"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
