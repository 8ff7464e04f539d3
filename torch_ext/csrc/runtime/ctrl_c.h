// SPDX-License-Identifier: Apache-2.0
// Ctrl-C ends a running launch: a call into the driver may take minutes, and Python looks at signals only after it.
#pragma once
#include <cstdint>

namespace presil {

// From now on SIGINT cancels the work of all devices while anybody waits for one, before the handler that is there runs
// (Python's: KeyboardInterrupt). Without a handler the default stays: the signal ends the process.
void catch_interrupts();
// Before a wait that the driver knows nothing of.
void expect_interrupts() noexcept;
// How often a thread began to wait for a chip that was busy; SIGINT cancelled work by then.
uint64_t waits_begun() noexcept;

}  // namespace presil
