// SPDX-License-Identifier: Apache-2.0
// Verilator's user hooks: the end of a model becomes an exception, its output a log line. The runtime is compiled with
// VL_USER_FATAL, VL_USER_STOP and VL_USER_FINISH, so that its own versions (which end the process) don't exist.
#include "hooks.h"

#include <cstdarg>
#include <cstdio>

#include "stopped.h"
#include "verilated.h"

namespace presil {

namespace {
thread_local Console* current_console = nullptr;

std::string place(const char* filename, int line) {
  return filename && *filename ? " at " + std::string(filename) + ":" + std::to_string(line) : std::string();
}

// $fatal and failed assertions print their message before they stop: it says more than "$stop".
std::string reason(const char* what, const char* filename, int line) {
  std::string text = what + place(filename, line);
  if (current_console && !current_console->last_line.empty()) text += " (" + current_console->last_line + ")";
  return text;
}
}  // namespace

void Console::print(const char* text) {
  for (; *text; text++) {
    if (*text != '\n') {
      line_ += *text;
      continue;
    }
    if (log) log(log_context, line_.c_str());
    last_line = std::move(line_);
    line_.clear();
  }
}

ConsoleScope::ConsoleScope(Console* console) : previous_(current_console) {
  current_console = console;
  console->last_line.clear();
}
ConsoleScope::~ConsoleScope() { current_console = previous_; }

}  // namespace presil

extern "C" int presil_sim_printf(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (presil::current_console) {
    presil::current_console->print(text);
  } else {
    fputs(text, stderr);
  }
  return length;
}

void vl_finish(const char* filename, int line, const char*) VL_MT_UNSAFE {
  throw presil::Stopped("the model called $finish" + presil::place(filename, line));
}

void vl_stop(const char* filename, int line, const char*) VL_MT_UNSAFE {
  throw presil::Stopped(presil::reason("the model stopped ($stop, $fatal, $error or an assertion)", filename, line));
}

void vl_fatal(const char* filename, int line, const char*, const char* message) VL_MT_UNSAFE {
  throw presil::Stopped("the model failed" + presil::place(filename, line) + ": " + (message ? message : ""));
}
