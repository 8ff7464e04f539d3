// SPDX-License-Identifier: Apache-2.0
#include "runtime/writes.h"

namespace presil {

std::atomic<WriteListener> write_listener{nullptr};
std::atomic<bool> memory_exposed{false};

}  // namespace presil
