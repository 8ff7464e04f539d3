// SPDX-License-Identifier: Apache-2.0
#include "runtime/writes.h"

namespace presil {

std::atomic<WriteListener> write_listener{nullptr};

}  // namespace presil
