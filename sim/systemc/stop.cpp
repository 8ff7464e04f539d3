// SPDX-License-Identifier: Apache-2.0
#include "stop.h"

#include <cstdarg>
#include <cstdio>

#include "hooks.h"
#include "verilated.h"

namespace {

std::string reason, line, last_line;  // one verilated chip runs in a library at a time

void stop(const char* what, const char* filename, int at, const char* message) {
  if (!reason.empty()) return;
  reason = std::string(what) +
           (filename && *filename ? std::string(" at ") + filename + ":" + std::to_string(at) : std::string());
  if (message && *message) reason += std::string(": ") + message;
  if (!message && !last_line.empty()) reason += " (" + last_line + ")";
}

}  // namespace

namespace presil {
const std::string& stop_reason() { return reason; }
void forget_stop() {
  reason.clear();
  last_line.clear();
}
}  // namespace presil

extern "C" int presil_sim_printf(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (const char* c = text; *c; c++) {
    if (*c != '\n') {
      line += *c;
      continue;
    }
    fprintf(stderr, "%s\n", line.c_str());
    last_line = std::move(line);
    line.clear();
  }
  return length;
}

void vl_finish(const char* filename, int line, const char*) VL_MT_UNSAFE {
  stop("the model called $finish", filename, line, "");
}
void vl_stop(const char* filename, int line, const char*) VL_MT_UNSAFE {
  stop("the model stopped ($stop, $fatal, $error or an assertion)", filename, line, nullptr);
}
void vl_fatal(const char* filename, int line, const char*, const char* message) VL_MT_UNSAFE {
  stop("the model failed", filename, line, message ? message : "");
}
