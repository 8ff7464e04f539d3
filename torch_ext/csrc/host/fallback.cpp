// SPDX-License-Identifier: Apache-2.0
#include "host/fallback.h"
#include "host/facts.h"
#include "runtime/generator.h"
#include "runtime/writes.h"

#include <presil_op.h>
#include <torch/library.h>

#include <mutex>

namespace presil {
namespace {

constexpr const char* kReason = "no kernel on the chip";

// One call: the arguments on the stack are replaced by host views, results by device tensors.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const OperatorFacts& facts, torch::jit::Stack* stack)
      : op_(op), facts_(facts), stack_(stack), first_(stack->size() - facts_.arguments) {}

  void run(const char* reason) {
    if (C10_UNLIKELY(settings().strict)) refuse_in_strict_mode(facts_.site->name.c_str(), reason);
    for (size_t i = 0; i < facts_.arguments; i++) map_argument(i);
    if (device_argument_ >= 0) views_.set_index(device_argument_);
    refuse_mixed_devices();
    const int index = views_.index();
    if (index >= 0) {
      views_.settle(index);
      if (facts_.random) use_device_generator();
    }
    const HostTimer timer;
    HostCapture capture(index, op_, *stack_, first_, swap_);
    redispatch();
    capture.done(*stack_);
    views_.finish();
    map_results();
    note_host_operator(*facts_.site, reason, timer.ns());
  }

 private:
  at::Tensor host(const at::Tensor& t, bool written) {
    if (written && t.defined() && t.device().type() == kDevice) written_.add(t);
    return views_.to_host(t);
  }

  void map_argument(size_t i) {
    c10::IValue& v = (*stack_)[first_ + i];
    const bool written = facts_.writes(i, stack_->data() + first_);
    if (v.isTensor()) {
      if (v.toTensor().defined()) v = host(v.toTensor(), written);
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(host(t, written));
      v = std::move(list);
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : v.toOptionalTensorVector())
        list.push_back(t ? std::optional<at::Tensor>(host(*t, written)) : std::nullopt);
      v = std::move(list);
    } else if (v.isDevice()) {
      if (v.toDevice().type() == kDevice) {
        device_argument_ = v.toDevice().index() < 0 ? current_device() : v.toDevice().index();
        v = c10::Device(c10::kCPU);
      }
    } else if (v.isGenerator()) {
      generator_given_ = true;
      if (v.toGenerator().device().type() == kDevice) v = host_generator(v.toGenerator());
    } else if (v.isStorage()) {
      v = views_.to_host(v.toStorage());
    }
  }

  // CPU kernels would silently accept a CPU operand beside the views; 0-dimensional CPU tensors are allowed as
  // everywhere in PyTorch.
  void refuse_mixed_devices() const {
    if (C10_LIKELY(!views_.has_cpu_tensor() || views_.index() < 0 || device_argument_ >= 0 || facts_.mixes)) return;
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, presil:",
                views_.index(), " and cpu! (when calling ", facts_.site->name, ")");
  }

  void use_device_generator() {
    if (generator_given_) return;
    const auto generator = host_generator(default_generator(views_.index()));
    if (facts_.generator >= 0)
      (*stack_)[first_ + facts_.generator] = generator;
    else
      swap_ = generator;  // e.g. native_dropout: takes the CPU's default engine
  }

  void redispatch() {
    AllocateOnDevice scope(views_.index());
    if (C10_LIKELY(!swap_.defined())) return op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    const UseAsDefaultEngine engine(swap_);
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
  }

  void map_results() {
    const size_t first = stack_->size() - facts_.returns;
    for (size_t i = 0; i < facts_.returns; i++) {
      c10::IValue& v = (*stack_)[first + i];
      if (v.isTensor()) {
        v = facts_.cpu_results[i] ? v.toTensor().clone() : views_.to_device(v.toTensor());
      } else if (v.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& t : v.toTensorVector()) list.push_back(views_.to_device(t));
        v = std::move(list);
      } else if (v.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const auto& t : v.toOptionalTensorVector())
          list.push_back(t ? std::optional<at::Tensor>(views_.to_device(*t)) : std::nullopt);
        v = std::move(list);
      }
    }
  }

  const c10::OperatorHandle& op_;
  const OperatorFacts& facts_;
  torch::jit::Stack* stack_;
  const size_t first_;
  HostViews views_;
  int device_argument_ = -1;
  bool generator_given_ = false;
  at::Generator swap_;
  AnnouncedWrites written_;
};

thread_local const char* host_reason = kReason;

std::map<std::string, ChipKernel>& chip_kernels() {
  static auto* map = new std::map<std::string, ChipKernel>;  // filled while the library is loaded
  return *map;
}

// False: *reason says why the host has to.
bool run_on_chip(const OperatorFacts& facts, torch::jit::Stack* stack, std::string* reason) {
  torch::jit::Stack results;
  if (!facts.chip(stack->data() + stack->size() - facts.arguments, results, reason)) return false;
  torch::jit::drop(*stack, facts.arguments);
  for (c10::IValue& v : results) stack->push_back(std::move(v));
  return true;
}

}  // namespace

void set_chip_kernel(const char* name, ChipKernel kernel) { chip_kernels()[name] = kernel; }
ChipKernel chip_kernel(const std::string& name) {
  const auto found = chip_kernels().find(name);
  return found == chip_kernels().end() ? nullptr : found->second;
}

static C10_NOINLINE void chip_or_host(const c10::OperatorHandle& op, const OperatorFacts& facts,
                                      torch::jit::Stack* stack) {
  std::string reason;
  const bool refused = host_reason != kReason;  // the chip was asked for the operator that this is made for
  if (refused || !run_on_chip(facts, stack, &reason))
    Call(op, facts, stack).run(reason.empty() ? host_reason : reason.c_str());
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OperatorFacts& facts = facts_of(op);
  if (C10_UNLIKELY(facts.chip != nullptr && kinds_of_chips() >> PRESIL_OP_POOL_MAX))
    return chip_or_host(op, facts, stack);
  Call(op, facts, stack).run(host_reason);
}

HostReason::HostReason(const std::string& reason) { host_reason = reason.c_str(); }
HostReason::~HostReason() { host_reason = kReason; }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace presil
