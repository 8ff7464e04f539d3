// SPDX-License-Identifier: Apache-2.0
// One capture in progress: takes in the launches and host operators, checks that they can be repeated, and puts memory
// back when it ends.
#pragma once
#include "graph/capture.h"
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
struct HostCall {
  c10::OperatorHandle op;
  torch::jit::Stack arguments;  // host views
  at::Generator engine;
  AllocationPlan plan;
  AllocationPlan* previous_plan = nullptr;
  std::vector<std::pair<const void*, size_t>> memory;  // of the arguments that are written: where, and bytes, before
};

class GraphRecorder {
 public:
  GraphRecorder(int index, c10::StreamId stream, std::shared_ptr<GraphPool> pool, CaptureMode mode,
                const std::vector<at::Generator>& generators);
  ~GraphRecorder();

  int launch(const char* label, std::initializer_list<const at::Tensor*> reads, const at::Tensor& output,
             const Enqueue& enqueue);
  std::shared_ptr<presil_weights> weights(const WeightRequest& request);

  HostCall* begin(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, const at::Generator& engine);
  void end(HostCall& call, torch::jit::Stack& results, size_t first, bool replaceable);
  void cancel(HostCall& call);

  bool wrote(const void* memory) const { return written_.count(memory) != 0; }
  bool owns(const void* memory) const { return pool_->owner(memory) == GraphPool::Owner::ours; }

  // Raises, and the capture is lost, whatever becomes of the exception.
  [[noreturn]] void refuse(const std::string& what, const std::string& why);

  // Waits for the device and puts back memory and generators; then the recording, or the text of what was refused.
  CapturedWork finish(std::string* refused);

  const int index;
  const c10::StreamId stream;
  const std::thread::id thread = std::this_thread::get_id();
  const CaptureMode mode;
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
  void add(std::unique_ptr<Step> step) { recording_.steps.push_back(std::move(step)); }

  std::shared_ptr<GraphPool> pool_;
  presil_stream* record_stream_ = nullptr;  // the driver records on it; nothing else uses it
  CapturedWork recording_;
  std::unordered_map<const void*, Saved> saved_;
  std::unordered_set<const void*> written_;
  std::unordered_map<const void*, c10::Storage>
      views_;  // of the pool's memory, without owning it: blocks are used again inside a graph
  std::vector<std::pair<at::Generator, at::Tensor>>
      generators_;  // host generators that may be drawn from, with the states to go back to
  std::string refused_;
};

}  // namespace presil
