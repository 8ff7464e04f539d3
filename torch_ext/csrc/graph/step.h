// SPDX-License-Identifier: Apache-2.0
// What a graph consists of: launches and host operators on fixed addresses, each with what follows from its writing.
#pragma once
#include "host/alias.h"
#include "weights/weights.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>

namespace presil {

struct Replay {
  int index;
  presil_stream* stream;
  torch::jit::Stack stack;  // reused by the host operators
};

class Step {
 public:
  explicit Step(std::string name) : name(std::move(name)) {}
  virtual ~Step() = default;
  virtual void run(Replay& replay) = 0;
  virtual bool on_chip() const = 0;
  void announce_writes();

  const std::string name;
  std::vector<std::pair<const void*, size_t>> written;  // bytes of storages, in the graph's pool or outside
};

class WeightsStep final : public Step {
 public:
  explicit WeightsStep(std::shared_ptr<CapturedWeights> weights) : Step("pack weights"), weights(std::move(weights)) {}
  void run(Replay&) override { weights->refresh(); }
  bool on_chip() const override { return true; }
  const std::shared_ptr<CapturedWeights> weights;
};

class LaunchStep final : public Step {
 public:
  LaunchStep(std::string name, presil_list* list) : Step(std::move(name)), list_(list, &presil_list_destroy) {}
  void run(Replay& replay) override;
  bool on_chip() const override { return true; }

 private:
  std::unique_ptr<presil_list, void (*)(presil_list*)> list_;
};

// A CPU kernel, found once, on tensors that view fixed addresses. Results that are not among its arguments land where
// they were at capture: the kernel is given that memory when it allocates; if it allocates otherwise than it did, they
// are copied there.
class HostStep final : public Step {
 public:
  struct Result {
    size_t position;  // among the tensors that the operator returns, lists laid out
    at::Tensor place;
  };
  HostStep(std::string name, c10::OperatorHandle op, torch::jit::Stack arguments, std::vector<Result> results,
           AllocationPlan plan, at::Generator engine);
  void run(Replay& replay) override;
  bool on_chip() const override { return false; }

 private:
  void call(torch::jit::Stack& stack);

  c10::OperatorHandle op_;
  const c10::SafeKernelFunction* kernel_;  // null: only the dispatcher knows
  torch::jit::Stack arguments_;
  std::vector<Result> results_;
  AllocationPlan plan_;
  at::Generator engine_;
};

// The tensors of a value, in order, lists laid out.
template <typename Function> void visit_tensors(const c10::IValue& v, Function&& visit) {
  if (v.isTensor()) {
    visit(v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector()) visit(t);
  } else if (v.isOptionalTensorList()) {
    for (const auto& t : v.toOptionalTensorVector()) visit(t ? *t : at::Tensor());
  }
}

}  // namespace presil
