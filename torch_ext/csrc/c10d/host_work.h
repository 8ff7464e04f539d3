// SPDX-License-Identifier: Apache-2.0
// A collective that the host's backend carries out on views of device tensors.
#pragma once
#include "host/alias.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>

namespace presil {

using TensorLists = std::vector<std::vector<at::Tensor>>;

// views stay alive, and with them the memory, until the work is gone. outputs: device tensors, one list a participant
// of this process (usually one). They are written by the host's threads some time before the work is found completed,
// however that is asked: each way announces the writes.
class HostWork final : public ::c10d::Work {
 public:
  HostWork(::c10d::OpType type, c10::intrusive_ptr<::c10d::Work> host, std::shared_ptr<HostViews> views,
           TensorLists outputs);
  ~HostWork() override { announce(); }

  bool isCompleted() override;
  bool isSuccess() const override { return host_->isSuccess(); }
  std::exception_ptr exception() const override { return host_->exception(); }
  int sourceRank() const override { return host_->sourceRank(); }
  uint64_t getSequencenumber() const override { return host_->getSequencenumber(); }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override { host_->abort(); }
  std::vector<at::Tensor> result() override;
  // Completes with a list of device tensors (of lists, if the operation has several), which DDP goes on with.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void announce() const;

  c10::intrusive_ptr<::c10d::Work> host_;
  std::shared_ptr<HostViews> views_;
  TensorLists outputs_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace presil
