// SPDX-License-Identifier: Apache-2.0
// One capture in progress: takes in the launches and host operators, checks that they can be repeated, and puts memory
// back when it ends.
#pragma once
#include "runtime/capturing.h"
#include "graph/graph_pool.h"
#include "graph/step.h"

#include <thread>
#include <unordered_map>
#include <unordered_set>

namespace presil {

enum class CaptureMode { global, thread_local_, relaxed };

// What a graph keeps of its capture.
struct CapturedWork {
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<std::shared_ptr<CapturedWeights>> weights;
  std::unordered_map<const void*, c10::Storage> outside;  // memory that is not the pool's, kept alive
};

// A host operator between its start and its end.
struct HostCall final : CapturedCall {
  using CapturedCall::CapturedCall;
  torch::jit::Stack arguments;  // host views
  at::Generator engine;
  AllocationPlan plan;
  AllocationPlan* previous_plan = nullptr;
  std::vector<std::pair<const void*, size_t>> memory;  // of the arguments that are written: where, and bytes, before
};

class GraphCapture final : public Capture {
 public:
  GraphCapture(int index, c10::StreamId stream, std::shared_ptr<GraphPool> pool, CaptureMode mode,
               const std::vector<at::Generator>& generators);
  ~GraphCapture() override;

  int launch(const char* label, Operands reads, Operands outputs, const Enqueue& enqueue) override;
  std::shared_ptr<presil_weights> weights(const WeightRequest& request) override;

  CapturedCall* begin(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                      const at::Generator& engine) override;
  void end(CapturedCall& call, torch::jit::Stack& results, size_t first, bool replaceable) override;
  void cancel(CapturedCall& call) override;

  bool wrote(const void* memory) const override { return written_.count(memory) != 0; }
  bool owns(const void* memory) const override { return pool_->owner(memory) == GraphPool::Owner::ours; }

  presil_pool* memory() override { return pool_->handle(); }
  [[noreturn]] void refuse(const std::string& what, const std::string& why) override;

  // Waits for the device and puts back memory and generators; then the work, or the text of what was refused.
  CapturedWork finish(std::string* refused);

  const std::shared_ptr<GraphPool>& pool() const { return pool_; }

 private:
  struct Saved {
    c10::Storage storage;  // of the host's view or of the device: keeps the memory
    std::vector<char> content;
  };
  void check_operator(const HostCall& call, const std::string& name);
  void check_operand(const std::string& name, const at::Tensor& t);
  void save(const c10::Storage& storage);
  void keep(const c10::Storage& storage);
  void note_write(Step& step, const c10::Storage& storage);
  at::Tensor fixed(const at::Tensor& t);
  c10::IValue fixed(const c10::IValue& v);
  void add(std::unique_ptr<Step> step) { work_.steps.push_back(std::move(step)); }

  std::shared_ptr<GraphPool> pool_;
  presil_stream* record_stream_ = nullptr;  // the driver records on it; nothing else uses it
  CapturedWork work_;
  std::unordered_map<const void*, Saved> saved_;
  std::unordered_set<const void*> written_;
  std::unordered_map<const void*, c10::Storage>
      views_;  // of the pool's memory, without owning it: blocks are used again inside a graph
  std::vector<std::pair<at::Generator, at::Tensor>>
      generators_;  // host generators that may be drawn from, with the states to go back to
  std::string refused_;
};

}  // namespace presil
