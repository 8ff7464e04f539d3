// SPDX-License-Identifier: Apache-2.0
// The user's line: file and line of the innermost Python frame outside torch. libtorch_presil knows no Python;
// torch_presil._C sets the hook.
#pragma once
#include <cstdint>
#include <string>

namespace presil {

struct SourceLine {
  std::string file;  // empty: unknown
  int line = 0;
  std::string function;
};

// Numbers lines from 1; the same line gets the same number. Any thread.
uint32_t intern_source(const char* file, int line, const char* function);
SourceLine source_line(uint32_t id);   // 0 gives an empty one
std::string source_text(uint32_t id);  // " at FILE:LINE (FUNCTION)", or "" for 0: to append to an error

// Returns a number of intern_source, 0 without a Python frame. Called from any thread, without the GIL held or with it.
using SourceHook = uint32_t (*)();
void set_source_hook(SourceHook hook) noexcept;
uint32_t current_source();  // 0 in a program without Python

}  // namespace presil
