# SPDX-License-Identifier: Apache-2.0
from stub_waves import stub_trace, waves  # noqa: F401
