// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include "runtime/generator.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fstream>

namespace presil {

Graph::~Graph() {
  if (capture_) abandon();
}

void Graph::require(bool captured, const char* what) const {
  TORCH_CHECK(!capture_, "presil: ", what, ": the graph is being captured");
  TORCH_CHECK(!captured || captured_, "presil: ", what, ": nothing was captured: use torch.presil.graph(g) first");
}

void Graph::capture_begin(PoolId pool, at::GraphCaptureMode mode) {
  require(false, "capture_begin");
  TORCH_CHECK(!captured_,
              "presil: capture_begin: the graph holds a capture already: reset() it first, or use another one");
  const int index = current_device();
  device(index);
  const auto stream = current_stream_id(index);
  TORCH_CHECK(stream != 0, "presil: graphs are captured on a stream of their own, not on the default one: use "
                           "torch.presil.graph(g), or `with torch.presil.Stream():`");
  wait_pending(index);
  auto generators = generators_;
  generators.push_back(host_generator(default_generator(index)));
  const auto capture_mode = mode == at::GraphCaptureMode::ThreadLocal ? CaptureMode::thread_local_
                            : mode == at::GraphCaptureMode::Relaxed   ? CaptureMode::relaxed
                                                                      : CaptureMode::global;
  auto memory = GraphPool::get(index, pool);
  auto capture = std::make_unique<GraphCapture>(index, stream, memory, capture_mode, generators);
  TORCH_CHECK(begin_capture(capture.get()), "presil: capture_begin: presil:", index,
              " is being captured by another graph");
  index_ = index;
  pool_ = std::move(memory);
  capture_ = std::move(capture);
}

void Graph::capture_end() {
  TORCH_CHECK(capture_, "presil: capture_end: no capture was begun with this graph");
  end_capture(capture_.get());
  std::string refused;
  CapturedWork work = capture_->finish(&refused);
  capture_.reset();
  if (!refused.empty()) {
    work = {};
    pool_.reset();
    TORCH_CHECK(false, refused, " (the capture has failed)");
  }
  work_ = std::move(work);
  captured_ = true;
}

void Graph::abandon() {
  if (!capture_) return;
  end_capture(capture_.get());
  std::string refused;
  (void)capture_->finish(&refused);
  capture_.reset();
  pool_.reset();
}

void Graph::replay() {
  std::lock_guard<std::mutex> lock(mutex_);
  require(true, "replay");
  refuse_capture(index_, "replay of a graph", "replay it beside the other graph, not inside");
  const c10::DeviceGuard guard(c10::Device(kDevice, static_cast<c10::DeviceIndex>(index_)));
  // The recorded operators are below autograd and autocast.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard below_autocast(c10::autocast_dispatch_keyset);
  Replay replay{index_, current_stream(index_), {}};
  for (auto& step : work_.steps) step->run(replay);
}

void Graph::reset() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (capture_) abandon();
  if (captured_) wait_pending(index_);  // launches use what goes now
  work_ = {};
  pool_.reset();
  captured_ = false;
}

PoolId Graph::pool() const {
  TORCH_CHECK(pool_, "presil: pool: the graph has no memory before its capture");
  return pool_->id();
}

std::vector<std::pair<std::string, bool>> Graph::steps() const {
  std::vector<std::pair<std::string, bool>> out;
  for (const auto& step : work_.steps) out.emplace_back(step->name, step->on_chip());
  return out;
}

void Graph::debug_dump(const std::string& path) {
  require(true, "debug_dump");
  std::ofstream file(path);
  for (const auto& [name, on_chip] : steps()) file << (on_chip ? "chip " : "host ") << name << "\n";
  TORCH_CHECK(file.good(), "presil: debug_dump: ", path, " can't be written");
}

void Graph::register_generator(const at::Generator& generator) {
  require(false, "register_generator_state");
  TORCH_CHECK_VALUE(generator.device().type() == kDevice,
                    "presil: register_generator_state: expected a generator of a presil device, got one of ",
                    generator.device());
  generators_.push_back(host_generator(generator));
}

// torch.accelerator.Graph looks for this name.
static const int registered =
    (at::GraphImplRegistry()->Register("PRESIL",
                                       [](const at::GraphImplArgs& args) -> std::unique_ptr<at::GraphImplInterface> {
                                         return std::make_unique<Graph>(args);
                                       }),
     0);

}  // namespace presil
