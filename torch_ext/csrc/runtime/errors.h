// SPDX-License-Identifier: Apache-2.0
// Driver statuses and the Python exceptions that they become: one table, printed in docs/runtime.md.
#pragma once
#include <presil.h>

#include <c10/macros/Macros.h>

#include <string>
#include <vector>

namespace presil {

struct ErrorRow {
  presil_status status;
  const char* exception;  // as Python names it
  const char* meaning;
};
const std::vector<ErrorRow>& error_table();

// Throws what the table says, with the driver's text of this thread's last failure and where the failed launch came
// from.
[[noreturn]] void raise_status(int status, const char* what);
[[noreturn]] void raise_text(int status, const std::string& text);

// what: the operator or call.
inline void check(int status, const char* what) {
  if (C10_UNLIKELY(status != PRESIL_OK)) raise_status(status, what);
}

// Says where a launch came from (presil_error_origin(), presil_report.origin): lines, innermost first; "" if nobody
// knows. Set by csrc/python.
using OriginText = std::string (*)(uint64_t origin);
void set_origin_text(OriginText describe);
std::string origin_text(uint64_t origin);

}  // namespace presil
