// SPDX-License-Identifier: Apache-2.0
// Operators that the chip does not compute run on the CPU's kernel over the mapped memory, counted, and are errors in
// strict mode.
#pragma once
#include "runtime/capturing.h"
#include "host/alias.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>

namespace presil {

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// How a chip computes an operator that falls back where it doesn't. arguments: those of the schema. True: results stand
// on `results`; false: *reason says why not, and nothing has happened.
using ChipKernel = bool (*)(const c10::IValue* arguments, torch::jit::Stack& results, std::string* reason);
// Of the operator of this name, as c10::toString has it; before it is called for the first time.
void set_chip_kernel(const char* name, ChipKernel kernel);
ChipKernel chip_kernel(const std::string& name);  // null: none

// While it lives, what falls back on this thread does so for this reason, which outlives it: the chip's, of an operator
// that the host makes out of others.
class HostReason {
 public:
  explicit HostReason(const std::string& reason);
  explicit HostReason(std::string&&) = delete;
  ~HostReason();
  HostReason(const HostReason&) = delete;
  HostReason& operator=(const HostReason&) = delete;
};

struct HostOperator {
  int64_t calls = 0;
  double seconds = 0;  // wall time, waiting for the chip not included
  std::string reason;
};
// Since the last reset, by operator name.
std::map<std::string, HostOperator> host_operators();
void reset_host_operators();

// Counters of one operator; they live for ever. Counting takes no lock.
struct HostSite {
  std::string name;
  std::atomic<int64_t> calls{0}, nanoseconds{0};
  std::atomic<bool> explained{false};
  std::string reason;  // of the first call since the last reset; under the registry's lock
};
HostSite& host_site(const std::string& name);
// Raises in strict mode; to be called before anything is changed.
void refuse_in_strict_mode(const char* name, const std::string& reason);
void note_host_operator(HostSite& site, const char* reason, int64_t nanoseconds);

// Wall time since it was made, in nanoseconds.
class HostTimer {
 public:
  int64_t ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Views for a native kernel that computes on the host: checks strict mode, waits for the chip, maps the arguments,
// counts.
template <typename Function> auto on_host(const char* name, const std::string& reason, int index, Function&& compute) {
  refuse_in_strict_mode(name, reason);
  HostViews views;
  views.set_index(index);
  views.settle();
  const HostTimer timer;
  HostTrace trace(index, name);
  auto result = [&] {
    AllocateOnDevice scope(index);
    return compute(views);
  }();
  if constexpr (std::is_same_v<decltype(result), at::Tensor>)
    trace.done({result});
  else
    std::apply([&](auto&... t) { trace.done({t...}); }, result);
  views.finish();
  note_host_operator(host_site(name), reason.c_str(), timer.ns());
  if constexpr (std::is_same_v<decltype(result), at::Tensor>)
    return views.to_device(result);
  else
    return std::apply([&](auto&... t) { return std::make_tuple(views.to_device(t)...); }, result);
}

}  // namespace presil
