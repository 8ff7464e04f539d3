// SPDX-License-Identifier: Apache-2.0
// Verilator's user hooks: the end of a model becomes an exception, its output a log line. Where SystemC's kernel runs
// the model (VM_SC), nothing may be thrown: the reason is kept until the chip looks (stop.h). The runtime is compiled
// with VL_USER_FATAL, VL_USER_STOP and VL_USER_FINISH, so that its own versions (which end the process) don't exist.
#include "hooks.h"

#include <cstdarg>
#include <cstdio>

#include "stop.h"
#include "stopped.h"
#include "verilated.h"

namespace presil {

namespace {
#if VM_SC
Console kernel_console;  // one verilated chip runs in a library at a time
std::string kept;
#endif
thread_local Console* current_console = nullptr;

Console* console() {
#if VM_SC
  kernel_console.log = [](void*, const char* text) { fprintf(stderr, "%s\n", text); };
  return &kernel_console;
#else
  return current_console;
#endif
}

void end(const std::string& why) {
#if VM_SC
  if (kept.empty()) kept = why;
#else
  throw Stopped(why);
#endif
}

std::string place(const char* filename, int line) {
  return filename && *filename ? " at " + std::string(filename) + ":" + std::to_string(line) : std::string();
}

// $fatal and failed assertions print their message before they stop: it says more than "$stop".
std::string reason(const char* what, const char* filename, int line) {
  std::string text = what + place(filename, line);
  if (console() && !console()->last_line.empty()) text += " (" + console()->last_line + ")";
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

#if VM_SC
const std::string& stop_reason() { return kept; }
void forget_stop() {
  kept.clear();
  kernel_console.last_line.clear();
}
#endif

}  // namespace presil

extern "C" int presil_sim_printf(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (presil::console()) {
    presil::console()->print(text);
  } else {
    fputs(text, stderr);
  }
  return length;
}

void vl_finish(const char* filename, int line, const char*) VL_MT_UNSAFE {
  presil::end("the model called $finish" + presil::place(filename, line));
}

void vl_stop(const char* filename, int line, const char*) VL_MT_UNSAFE {
  presil::end(presil::reason("the model stopped ($stop, $fatal, $error or an assertion)", filename, line));
}

void vl_fatal(const char* filename, int line, const char*, const char* message) VL_MT_UNSAFE {
  presil::end("the model failed" + presil::place(filename, line) + ": " + (message ? message : ""));
}
