// SPDX-License-Identifier: Apache-2.0
// How a simulated model ends, and where its text goes. Verilator's vl_fatal, vl_stop and vl_finish throw Stopped from
// inside eval(); the C boundary catches it. What the model prints goes to the Console of the calling thread.
#pragma once
#include <exception>
#include <string>
#include <utility>

namespace presil {

class Stopped : public std::exception {
 public:
  explicit Stopped(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Collects the model's output into lines for the transport's log, and keeps the last one as the reason of a stop.
class Console {
 public:
  void (*log)(void* context, const char* text) = nullptr;
  void* log_context = nullptr;
  std::string last_line;

  void print(const char* text);

 private:
  std::string line_;
};

// The console of the transport that this thread is inside of, for as long as the scope lives.
class ConsoleScope {
 public:
  explicit ConsoleScope(Console* console);
  ~ConsoleScope();
  ConsoleScope(const ConsoleScope&) = delete;
  ConsoleScope& operator=(const ConsoleScope&) = delete;

 private:
  Console* previous_;
};

}  // namespace presil
