// SPDX-License-Identifier: Apache-2.0
#include "graph/step.h"

#include "runtime/generator.h"
#include "runtime/writes.h"

#include <mutex>
#include <unordered_map>

namespace presil {
namespace {

// Looked up once an operator: every look-up stays registered with the dispatcher.
const c10::SafeKernelFunction* cpu_kernel(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* kernels = new std::unordered_map<std::string, std::unique_ptr<c10::SafeKernelFunction>>;
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  auto& kernel = (*kernels)[c10::toString(op.operator_name())];
  if (!kernel)
    kernel = std::make_unique<c10::SafeKernelFunction>(op.getComputedKernelForDispatchKey(c10::DispatchKey::CPU));
  return kernel.get();
}

class UsePlan {
 public:
  explicit UsePlan(AllocationPlan* plan) : previous_(exchange_allocation_plan(plan)) {}
  ~UsePlan() { exchange_allocation_plan(previous_); }
  UsePlan(const UsePlan&) = delete;
  UsePlan& operator=(const UsePlan&) = delete;

 private:
  AllocationPlan* previous_;
};

}  // namespace

void Step::announce_writes() {
  for (const auto& [begin, bytes] : written) memory_written(begin, bytes);
}

void LaunchStep::run(Replay& replay) {
  check(presil_list_submit(list_.get(), replay.stream), name.c_str());
  mark_pending(replay.index);
  announce_writes();
}

HostStep::HostStep(std::string name, c10::OperatorHandle op, torch::jit::Stack arguments, std::vector<Result> results,
                   AllocationPlan plan, at::Generator engine)
    : Step(std::move(name)), op_(op), kernel_(cpu_kernel(op)), arguments_(std::move(arguments)),
      results_(std::move(results)), plan_(std::move(plan)), engine_(std::move(engine)) {
  plan_.replaying = true;
}

void HostStep::call(torch::jit::Stack& stack) {
  constexpr c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  if (C10_LIKELY(kernel_ != nullptr))
    kernel_->callBoxed(op_, cpu, &stack);
  else
    op_.redispatchBoxed(cpu, &stack);
}

void HostStep::run(Replay& replay) {
  wait_pending(replay.index);
  plan_.next = 0;
  const UsePlan plan(&plan_);  // until the results are dropped
  auto& stack = replay.stack;
  stack.clear();
  for (const auto& argument : arguments_) stack.push_back(argument);
  if (engine_.defined()) {
    const UseAsDefaultEngine use(engine_);
    call(stack);
  } else {
    call(stack);
  }
  size_t position = 0, next = 0;
  for (const auto& v : stack) {
    if (next == results_.size()) break;
    visit_tensors(v, [&](const at::Tensor& t) {
      if (next == results_.size() || results_[next].position != position++) return;
      const at::Tensor& place = results_[next++].place;
      if (C10_LIKELY(t.const_data_ptr() == place.const_data_ptr() && t.strides() == place.strides())) return;
      TORCH_CHECK(t.sizes() == place.sizes() && t.scalar_type() == place.scalar_type(), "presil: replaying ", name,
                  ": the result has shape ", t.sizes(), ", at capture it had ", place.sizes(),
                  ": its shape depends on data, so that it can't be part of a graph");
      place.copy_(t);
    });
  }
  stack.clear();
  announce_writes();
}

}  // namespace presil
