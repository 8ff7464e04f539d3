// SPDX-License-Identifier: Apache-2.0
#include "c10d/process_group.h"

#include "c10d/host_work.h"
#include "runtime/capturing.h"
#include "runtime/writes.h"

namespace presil {
namespace {

using at::Tensor;
using ::c10d::OpType;
using WorkPtr = c10::intrusive_ptr<::c10d::Work>;
using Tensors = std::vector<Tensor>;

// The views of one call: made first, then the chip's launches that touch the tensors are waited for.
class Call {
 public:
  Call(OpType type, const char* name) : type_(type), name_(name) {}

  Tensors inputs(const Tensors& device) {
    Tensors host;
    for (const Tensor& t : device) host.push_back(input(t));
    return host;
  }
  TensorLists inputs(const TensorLists& device) {
    TensorLists host;
    for (const auto& list : device) host.push_back(inputs(list));
    return host;
  }
  Tensor input(const Tensor& t) {
    TORCH_CHECK_VALUE(t.layout() == c10::kStrided, "presil: ", name_, " takes strided tensors, got layout ",
                      t.layout());
    return views_->to_host(t);
  }
  Tensors outputs(const Tensors& device) {
    outputs_.push_back(device);
    return inputs(device);
  }
  TensorLists outputs(const TensorLists& device) {
    TensorLists host;
    for (const auto& list : device) host.push_back(outputs(list));
    return host;
  }
  Tensor output(const Tensor& t) { return outputs(Tensors{t})[0]; }

  template <typename Start> WorkPtr run(Start&& start) {
    TORCH_CHECK_VALUE(views_->index() < 0 || !views_->has_cpu_tensor(), "presil: ", name_,
                      ": expected all tensors on presil:", views_->index(), ", found one on the CPU");
    if (views_->index() >= 0) {
      refuse_capture(views_->index(), name_,
                     "it is no operator that a replay could repeat by itself, the other processes take part: put it "
                     "between two graphs");
      wait_pending(views_->index());
    }
    return c10::make_intrusive<HostWork>(type_, start(), views_, std::move(outputs_));
  }

 private:
  const OpType type_;
  const char* name_;
  std::shared_ptr<HostViews> views_ = std::make_shared<HostViews>();
  TensorLists outputs_;
};

class ProcessGroup final : public ::c10d::Backend {
 public:
  explicit ProcessGroup(c10::intrusive_ptr<::c10d::Backend> host)
      : Backend(host->getRank(), host->getSize()), host_(std::move(host)) {
    init();
  }

  const std::string getBackendName() const override { return "presil"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return host_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { host_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { host_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return host_->getSequenceNumberForGroup(); }
  void abort() override { host_->abort(); }
  void shutdown() override { host_->shutdown(); }

  WorkPtr broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& opts) override {
    Call call(OpType::BROADCAST, "broadcast");
    auto host = call.outputs(tensors);
    return call.run([&] { return host_->broadcast(host, opts); });
  }
  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& opts) override {
    Call call(OpType::ALLREDUCE, "allreduce");
    auto host = call.outputs(tensors);
    return call.run([&] { return host_->allreduce(host, opts); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& opts) override {
    Call call(OpType::ALLREDUCE_COALESCED, "allreduce_coalesced");
    auto host = call.outputs(tensors);
    return call.run([&] { return host_->allreduce_coalesced(host, opts); });
  }
  WorkPtr reduce(Tensors& tensors, const ::c10d::ReduceOptions& opts) override {
    Call call(OpType::REDUCE, "reduce");
    auto host = call.outputs(tensors);
    return call.run([&] { return host_->reduce(host, opts); });
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& opts) override {
    Call call(OpType::ALLGATHER, "allgather");
    auto out = call.outputs(outputs);
    auto in = call.inputs(inputs);
    return call.run([&] { return host_->allgather(out, in, opts); });
  }
  WorkPtr _allgather_base(Tensor& output, Tensor& input, const ::c10d::AllgatherOptions& opts) override {
    Call call(OpType::_ALLGATHER_BASE, "all_gather_into_tensor");
    auto out = call.output(output), in = call.input(input);
    return call.run([&] { return host_->_allgather_base(out, in, opts); });
  }
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& opts) override {
    Call call(OpType::ALLGATHER_COALESCED, "allgather_coalesced");
    auto out = call.outputs(outputs);
    auto in = call.inputs(inputs);
    return call.run([&] { return host_->allgather_coalesced(out, in, opts); });
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::AllgatherOptions& opts) override {
    Call call(OpType::COALESCED, "allgather_into_tensor_coalesced");
    auto out = call.outputs(outputs), in = call.inputs(inputs);
    return call.run([&] { return host_->allgather_into_tensor_coalesced(out, in, opts); });
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const ::c10d::GatherOptions& opts) override {
    Call call(OpType::GATHER, "gather");
    auto out = call.outputs(outputs);
    auto in = call.inputs(inputs);
    return call.run([&] { return host_->gather(out, in, opts); });
  }
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const ::c10d::ScatterOptions& opts) override {
    Call call(OpType::SCATTER, "scatter");
    auto out = call.outputs(outputs);
    auto in = call.inputs(inputs);
    return call.run([&] { return host_->scatter(out, in, opts); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const ::c10d::ReduceScatterOptions& opts) override {
    Call call(OpType::REDUCE_SCATTER, "reduce_scatter");
    auto out = call.outputs(outputs);
    auto in = call.inputs(inputs);
    return call.run([&] { return host_->reduce_scatter(out, in, opts); });
  }
  WorkPtr _reduce_scatter_base(Tensor& output, Tensor& input, const ::c10d::ReduceScatterOptions& opts) override {
    Call call(OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor");
    auto out = call.output(output), in = call.input(input);
    return call.run([&] { return host_->_reduce_scatter_base(out, in, opts); });
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::ReduceScatterOptions& opts) override {
    Call call(OpType::REDUCE_SCATTER_TENSOR_COALESCED, "reduce_scatter_tensor_coalesced");
    auto out = call.outputs(outputs), in = call.inputs(inputs);
    return call.run([&] { return host_->reduce_scatter_tensor_coalesced(out, in, opts); });
  }
  WorkPtr alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const ::c10d::AllToAllOptions& opts) override {
    Call call(OpType::ALLTOALL_BASE, "all_to_all_single");
    auto out = call.output(output), in = call.input(input);
    return call.run([&] { return host_->alltoall_base(out, in, output_sizes, input_sizes, opts); });
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& opts) override {
    Call call(OpType::ALLTOALL, "all_to_all");
    auto out = call.outputs(outputs), in = call.inputs(inputs);
    return call.run([&] { return host_->alltoall(out, in, opts); });
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    Call call(OpType::SEND, "send");
    auto host = call.inputs(tensors);
    return call.run([&] { return host_->send(host, to, tag); });
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    Call call(OpType::RECV, "recv");
    auto host = call.outputs(tensors);
    return call.run([&] { return host_->recv(host, from, tag); });
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    Call call(OpType::RECVANYSOURCE, "recv");
    auto host = call.outputs(tensors);
    return call.run([&] { return host_->recvAnysource(host, tag); });
  }
  // A process that has passed the barrier finds the others' launches done.
  WorkPtr barrier(const ::c10d::BarrierOptions& opts) override {
    wait_all_devices();
    Call call(OpType::BARRIER, "barrier");
    return call.run([&] { return host_->barrier(opts); });
  }
  void monitoredBarrier(const ::c10d::BarrierOptions& opts, bool wait_all_ranks) override {
    wait_all_devices();
    host_->monitoredBarrier(opts, wait_all_ranks);
  }

 private:
  static void wait_all_devices() {
    for (int i = 0; i < device_count(); i++) wait_pending(i);
  }

  c10::intrusive_ptr<::c10d::Backend> host_;
};

}  // namespace

c10::intrusive_ptr<::c10d::Backend> make_process_group(c10::intrusive_ptr<::c10d::Backend> host) {
  return c10::make_intrusive<ProcessGroup>(std::move(host));
}

}  // namespace presil
