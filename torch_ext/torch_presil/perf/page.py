# SPDX-License-Identifier: Apache-2.0
"""A document as one HTML file that needs no network: page.html with the script page.js and the data in it."""

import json
from pathlib import Path

__all__ = ["filled", "render"]

HERE = Path(__file__).parent


def filled(page: str, script: str, data: dict) -> str:
    # In a script element nothing but "</" and "<!--" ends or changes the text.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    whole = (HERE / page).read_text().replace("@STYLE@", (HERE / "page.css").read_text())
    whole = whole.replace("@SCRIPT@", (HERE / "shared.js").read_text() + (HERE / script).read_text())
    return whole.replace("@DATA@", text.replace("\u2028", "\\u2028"))


def render(document: dict) -> str:
    return filled("page.html", "page.js", document)
