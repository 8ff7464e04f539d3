// SPDX-License-Identifier: Apache-2.0
// What the rest of the device asks while a graph may be captured (torch.presil.graph). Capturing runs the work once,
// because only that tells the shapes of what the host computes, and records it; afterwards memory that is not the
// graph's own is as it was before.
#pragma once
#include "host/alias.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>

namespace presil {

class GraphRecorder;
class CapturedWeights;
struct HostCall;
struct WeightRequest;

extern std::atomic<int> captures_running;
GraphRecorder* find_recorder(int index, const char* what);

// Of the capture that this thread's work on the device belongs to: the capturing thread's own, and that of threads on
// its stream (autograd's). Else null; raises for an operator `what` of another thread if the capture wants the device
// to itself (capture_error_mode "global"); what null: never raises.
inline GraphRecorder* capturing(int index, const char* what) {
  return C10_LIKELY(captures_running.load(std::memory_order_relaxed) == 0) ? nullptr : find_recorder(index, what);
}

bool stream_is_capturing(int index, c10::StreamId id) noexcept;
presil_pool* capture_pool(int index);  // where this thread's allocations go; null: not to a graph
// Raises if a capture is under way here: what can't be recorded, and why or what to do instead.
void refuse_capture(int index, const char* what, const char* why);

// A launch: enqueue(stream) plans it and returns a driver status. While capturing it is recorded and then submitted.
using Enqueue = std::function<int(presil_stream*)>;
int record_launch(GraphRecorder* recorder, const char* label, std::initializer_list<const at::Tensor*> reads,
                  const at::Tensor& output, const Enqueue& enqueue);
std::shared_ptr<presil_weights> record_weights(GraphRecorder* recorder, const WeightRequest& request);

template <typename Function>
int launch(int index, const char* label, std::initializer_list<const at::Tensor*> reads, const at::Tensor& output,
           Function&& enqueue) {
  if (auto* recorder = capturing(index, label)) return record_launch(recorder, label, reads, output, enqueue);
  return enqueue(launch_stream(index));
}

// Around the CPU kernel of one boxed operator whose arguments are host views: done() comes before its results are
// mapped to the device.
class HostCapture {
 public:
  // engine: generator whose state stands in for the CPU's default one during the call; undefined: none.
  HostCapture(int index, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first,
              const at::Generator& engine) {
    if (auto* recorder = index < 0 ? nullptr : capturing(index, op.schema().name().c_str()))
      begin(recorder, op, stack, first, engine);
  }
  ~HostCapture() {
    if (C10_UNLIKELY(call_ != nullptr)) end(nullptr);
  }
  void done(torch::jit::Stack& stack) {
    if (C10_UNLIKELY(call_ != nullptr)) end(&stack);
  }
  HostCapture(const HostCapture&) = delete;
  HostCapture& operator=(const HostCapture&) = delete;

 private:
  void begin(GraphRecorder* recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first,
             const at::Generator& engine);
  void end(torch::jit::Stack* stack);

  GraphRecorder* recorder_ = nullptr;
  HostCall* call_ = nullptr;
};

// Around code that computes on host views with PyTorch's operators: records those. done() raises what could not be
// recorded; results: what the code made.
class HostTrace {
 public:
  HostTrace(int index, const char* name) {
    if (auto* recorder = index < 0 ? nullptr : capturing(index, name)) begin(recorder, name);
  }
  ~HostTrace() {
    if (C10_UNLIKELY(state_ != nullptr)) stop();
  }
  void done(std::initializer_list<at::Tensor> results) {
    if (C10_UNLIKELY(state_ != nullptr)) finish(results);
  }
  HostTrace(const HostTrace&) = delete;
  HostTrace& operator=(const HostTrace&) = delete;
  struct State;

 private:
  void begin(GraphRecorder* recorder, const char* name);
  void finish(std::initializer_list<at::Tensor> results);
  void stop();

  State* state_ = nullptr;
};

}  // namespace presil
