# SPDX-License-Identifier: Apache-2.0
from stub_waves import stub_trace, waves, why  # noqa: F401
from tiny_bundles import captured  # noqa: F401
