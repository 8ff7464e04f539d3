// SPDX-License-Identifier: Apache-2.0
// What the rest of the device asks while a graph may be captured (torch.presil.graph). Capturing runs the work once,
// because only that tells the shapes of what the host computes, and takes it in; afterwards memory that is not the
// graph's own is as it was before.
#pragma once
#include "runtime/device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <thread>

namespace presil {

struct WeightRequest;

// One operator of the host between its start and its end; its maker knows more.
struct CapturedCall {
  explicit CapturedCall(const c10::OperatorHandle& op) : op(op) {}
  virtual ~CapturedCall() = default;
  const c10::OperatorHandle op;
};

using Operands = c10::ArrayRef<const at::Tensor*>;  // of a launch; some may be undefined

// A launch: enqueue(stream) plans it and returns a driver status.
using Enqueue = std::function<int(presil_stream*)>;

// A capture under way on one device: what the device's operators tell it, and what it answers. graph/ makes them.
class Capture {
 public:
  // alone: operators of other threads are refused, not left out.
  Capture(int index, c10::StreamId stream, bool alone) : index(index), stream(stream), alone(alone) {}
  virtual ~Capture() = default;

  // Raises, and the capture is lost, whatever becomes of the exception.
  [[noreturn]] virtual void refuse(const std::string& what, const std::string& why) = 0;
  virtual presil_pool* memory() = 0;  // where what it allocates lies
  virtual bool owns(const void* memory) const = 0;
  virtual bool wrote(const void* memory) const = 0;
  virtual int launch(const char* label, Operands reads, Operands outputs, const Enqueue& enqueue) = 0;
  virtual std::shared_ptr<presil_weights> weights(const WeightRequest& request) = 0;
  virtual CapturedCall* begin(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                              const at::Generator& engine) = 0;
  // replaceable: a result may be put into other memory.
  virtual void end(CapturedCall& call, torch::jit::Stack& results, size_t first, bool replaceable) = 0;
  virtual void cancel(CapturedCall& call) = 0;

  const int index;
  const c10::StreamId stream;
  const bool alone;
  const std::thread::id thread = std::this_thread::get_id();
};

bool begin_capture(Capture* capture);  // false: the device is being captured already
void end_capture(Capture* capture);

extern std::atomic<int> captures_running;
Capture* find_capture(int index, const char* what);

// Of the capture that this thread's work on the device belongs to: the capturing thread's own, and that of threads on
// its stream (autograd's). Else null; raises for an operator `what` of another thread if the capture wants the device
// to itself (capture_error_mode "global"); what null: never raises.
inline Capture* capturing(int index, const char* what) {
  return C10_LIKELY(captures_running.load(std::memory_order_relaxed) == 0) ? nullptr : find_capture(index, what);
}

bool stream_is_capturing(int index, c10::StreamId id) noexcept;
presil_pool* capture_pool(int index);  // where this thread's allocations go; null: not to a graph
// Raises if a capture is under way here: what can't be recorded, and why or what to do instead.
void refuse_capture(int index, const char* what, const char* why);

// Enqueues on the stream of this thread; while capturing, takes the launch in as well.
template <typename Function>
int launch(int index, const char* label, Operands reads, Operands outputs, Function&& enqueue) {
  if (auto* capture = capturing(index, label)) return capture->launch(label, reads, outputs, enqueue);
  return enqueue(launch_stream(index));
}

// Around the CPU kernel of one boxed operator whose arguments are host views: done() comes before its results are
// mapped to the device.
class HostCapture {
 public:
  // engine: generator whose state stands in for the CPU's default one during the call; undefined: none.
  HostCapture(int index, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first,
              const at::Generator& engine) {
    if (auto* capture = index < 0 ? nullptr : capturing(index, op.schema().name().c_str()))
      begin(capture, op, stack, first, engine);
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
  void begin(Capture* capture, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first,
             const at::Generator& engine);
  void end(torch::jit::Stack* stack);

  Capture* capture_ = nullptr;
  CapturedCall* call_ = nullptr;
};

// Around code that computes on host views with PyTorch's operators: takes those in. done() raises what could not be
// captured; results: what the code made.
class HostTrace {
 public:
  HostTrace(int index, const char* name) {
    if (auto* capture = index < 0 ? nullptr : capturing(index, name)) begin(capture, name);
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
  void begin(Capture* capture, const char* name);
  void finish(std::initializer_list<at::Tensor> results);
  void stop();

  State* state_ = nullptr;
};

}  // namespace presil
