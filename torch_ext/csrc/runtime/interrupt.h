// SPDX-License-Identifier: Apache-2.0
// Ctrl-C ends a running launch: a call into the driver may take minutes, and Python looks at signals only after it.
#pragma once

namespace presil {

// From now on SIGINT cancels the work of all devices while anybody waits for one, before the handler that is there runs
// (Python's: KeyboardInterrupt). Without a handler the default stays: the signal ends the process.
void catch_interrupts();

}  // namespace presil
