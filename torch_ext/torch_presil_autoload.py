# SPDX-License-Identifier: Apache-2.0
"""Entry point of torch.backends, which `import torch` calls in its last lines; a module of its own, because what it
loads may fail.

Nothing here may raise: a device that can't be loaded must not take torch with it.
"""

import sys
import warnings


def load() -> None:
    """Makes the device `presil` known. A failure is a warning that says why."""
    if "torch_presil" in sys.modules:
        return  # its own first line imports torch, and it goes on when torch is there
    try:
        import torch_presil  # noqa: F401
    except Exception as error:
        warnings.warn(
            f"the device presil is not available: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2
        )
