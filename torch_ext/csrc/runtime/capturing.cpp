// SPDX-License-Identifier: Apache-2.0
#include "runtime/capturing.h"

#include <ATen/record_function.h>

#include <array>

namespace presil {

std::atomic<int> captures_running{0};

namespace {

std::array<std::atomic<Capture*>, 64>& captures() {
  static auto* r = new std::array<std::atomic<Capture*>, 64>{};
  return *r;
}
bool takes_part(const Capture& r, int index) {
  return r.thread == std::this_thread::get_id() || current_stream_id(index) == r.stream;
}

}  // namespace

bool begin_capture(Capture* capture) {
  Capture* none = nullptr;
  if (!captures()[capture->index].compare_exchange_strong(none, capture)) return false;
  captures_running++;
  return true;
}
void end_capture(Capture* capture) {
  captures()[capture->index] = nullptr;
  captures_running--;
}

Capture* find_capture(int index, const char* what) {
  Capture* r = captures()[index].load(std::memory_order_acquire);
  if (!r || takes_part(*r, index)) return r;
  if (what && r->alone)
    r->refuse(what, c10::str("it runs on another thread, on stream ", current_stream_id(index), ", while stream ",
                             r->stream, " of presil:", index,
                             " is captured. If it is part of a backward, run the warm-up on the stream of the capture "
                             "(a node of autograd keeps the stream it was made on); if it is not, "
                             "capture with capture_error_mode='thread_local' or 'relaxed'"));
  return nullptr;
}

bool stream_is_capturing(int index, c10::StreamId id) noexcept {
  if (captures_running.load() == 0) return false;
  const Capture* r = captures()[index].load();
  return r && r->stream == id;
}
presil_pool* capture_pool(int index) {
  auto* r = capturing(index, nullptr);
  return r ? r->memory() : nullptr;
}
void refuse_capture(int index, const char* what, const char* why) {
  if (auto* r = capturing(index, what)) r->refuse(what, why);
}

// ---- one boxed operator
void HostCapture::begin(Capture* capture, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first,
                        const at::Generator& engine) {
  capture_ = capture;
  call_ = capture->begin(op, c10::ArrayRef<c10::IValue>(stack.data() + first, stack.size() - first), engine);
}
void HostCapture::end(torch::jit::Stack* stack) {
  auto* call = std::exchange(call_, nullptr);
  if (stack)
    capture_->end(*call, *stack, stack->size() - call->op.schema().returns().size(), true);
  else
    capture_->cancel(*call);
}

// ---- the operators that a piece of code calls: seen by an observer of this thread; those inside another one are part
// of it
struct HostTrace::State {
  State(Capture* capture, const char* name) : capture(capture), name(name) {}
  Capture* const capture;
  const std::string name;
  at::RecordFunctionGuard enable{true};
  at::CallbackHandle handle{};
  int depth = 0;
  CapturedCall* call = nullptr;
  std::exception_ptr error;  // observers may not raise
  State* previous = nullptr;
};

namespace {

thread_local HostTrace::State* tls_trace = nullptr;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  auto* trace = tls_trace;
  if (!trace || trace->depth++ > 0 || trace->error) return nullptr;
  const auto name = fn.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
  if (!op) return nullptr;
  try {
    trace->call = trace->capture->begin(*op, fn.inputs(), {});
  } catch (...) {
    trace->error = std::current_exception();
  }
  return nullptr;
}

void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  auto* trace = tls_trace;
  if (!trace || --trace->depth > 0 || !trace->call) return;
  auto* call = std::exchange(trace->call, nullptr);
  try {
    torch::jit::Stack results(fn.outputs().begin(), fn.outputs().end());
    if (results.size() == call->op.schema().returns().size())
      trace->capture->end(*call, results, 0, false);
    else
      trace->capture->cancel(*call);  // it raised
  } catch (...) {
    trace->error = std::current_exception();
  }
}

}  // namespace

void HostTrace::begin(Capture* capture, const char* name) {
  state_ = new State(capture, name);
  state_->previous = std::exchange(tls_trace, state_);
  state_->handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                                                  .needsInputs(true)
                                                  .needsOutputs(true)
                                                  .scopes({at::RecordScope::FUNCTION}));
}
void HostTrace::stop() {
  at::removeCallback(state_->handle);
  tls_trace = state_->previous;
  delete state_;
  state_ = nullptr;
}
void HostTrace::finish(std::initializer_list<at::Tensor> results) {
  const auto error = state_->error;
  auto* capture = state_->capture;
  const std::string name = state_->name;
  stop();
  if (error) std::rethrow_exception(error);
  for (const auto& t : results) {
    const void* at = t.defined() && t.has_storage() ? t.storage().data() : nullptr;
    if (at && capture->owns(at) && !capture->wrote(at))
      capture->refuse(name, "its kernel computes without operators of PyTorch, which is not captured");
  }
}

}  // namespace presil
