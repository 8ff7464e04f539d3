# SPDX-License-Identifier: Apache-2.0
"""export_map.py NM OUT OBJECT...: writes the version script of libtorch_presil.so. It exports the public interface
(presil/torch.h) and, as private, what the Python module's objects take of the library."""

import subprocess
import sys
from pathlib import Path

PUBLIC = ("_ZN6presil3api", "_ZNK6presil3api")  # presil::api::, and const methods there
OURS = ("_ZN6presil", "_ZNK6presil", "_ZTIN6presil", "_ZTVN6presil")  # typeinfo and vtables, too


def names(nm: str, objects: list[str], which: str) -> set[str]:
    listing = subprocess.run([nm, which, *objects], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in listing.splitlines() if line and not line.endswith(":")}


def main(nm: str, out: str, *objects: str) -> None:
    taken = names(nm, objects, "--undefined-only") - names(nm, objects, "--defined-only")
    private = sorted(name for name in taken if name.startswith(OURS) and not name.startswith(PUBLIC))
    text = "PRESIL_TORCH_0 {\n  global:\n" + "".join(f"    {prefix}*;\n" for prefix in PUBLIC) + "  local: *;\n};\n"
    text += "PRESIL_TORCH_PRIVATE {\n  global:\n" + "".join(f"    {name};\n" for name in private) + "};\n"
    if not Path(out).exists() or Path(out).read_text() != text:
        Path(out).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
