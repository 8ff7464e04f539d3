// SPDX-License-Identifier: Apache-2.0
// torch.presil.PresilGraph and torch.accelerator.Graph: work that was captured once and is repeated on the same memory,
// without the dispatcher.
#pragma once
#include "graph/graph_capture.h"

#include <ATen/core/GraphImplInterface.h>

namespace presil {

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs& = {}) {}
  ~Graph() override;

  // Current device and stream, which must not be the default one. A graph that holds something has to be reset first.
  void capture_begin(PoolId pool, at::GraphCaptureMode mode) override;
  void capture_end() override;  // raises what was refused in between: the graph is then empty
  void abandon();               // ends a capture without a graph; nothing happens if there is none
  void instantiate() override {}
  // Enqueues what ends in launches, waits where the host has to compute. Errors of launches are raised by the next
  // wait, as everywhere.
  void replay() override;
  void reset() override;
  PoolId pool() const override;
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override;  // a line a step

  // Generators of the device that captured operators may draw from, beside the default one.
  void register_generator(const at::Generator& generator);
  // Of every step: name, whether the chip runs it. Consecutive ones of a kind are a segment.
  std::vector<std::pair<std::string, bool>> steps() const;

 private:
  void require(bool captured, const char* what) const;

  std::mutex mutex_;
  int index_ = -1;
  std::shared_ptr<GraphPool> pool_;
  std::unique_ptr<GraphCapture> capture_;
  CapturedWork work_;
  bool captured_ = false;
  std::vector<at::Generator> generators_;
};

}  // namespace presil
