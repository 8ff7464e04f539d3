// SPDX-License-Identifier: Apache-2.0
// Where launches come from: the Python lines on the enqueuing thread's stack and, in a backward pass, the autograd node
// and the lines of its forward.
#pragma once
#include <string>

namespace presil {

// From now on every launch notes its origin: under 200 ns, without taking the GIL (but once for each new code object).
void watch_origins();

// The path of the module whose forward runs on this thread ("": not known), for launches that are captured.
void set_module_path(std::string path);

}  // namespace presil
