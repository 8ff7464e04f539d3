// SPDX-License-Identifier: Apache-2.0
#include "c10d/host_work.h"
#include "runtime/writes.h"

namespace presil {
namespace {

c10::IValue future_value(const TensorLists& outputs) {
  if (outputs.size() > 1) return c10::IValue(outputs);
  return c10::IValue(outputs.empty() ? std::vector<at::Tensor>{} : outputs[0]);
}

void announce_writes(const TensorLists& outputs) {
  for (const auto& list : outputs)
    for (const auto& t : list) memory_written(t);
}

}  // namespace

HostWork::HostWork(::c10d::OpType type, c10::intrusive_ptr<::c10d::Work> host, std::shared_ptr<HostViews> views,
                   TensorLists outputs)
    : Work(-1, type), host_(std::move(host)), views_(std::move(views)), outputs_(std::move(outputs)) {}

void HostWork::announce() const { announce_writes(outputs_); }

bool HostWork::isCompleted() {
  const bool completed = host_->isCompleted();
  if (completed) announce();
  return completed;
}
void HostWork::synchronize() {
  host_->synchronize();
  announce();
}
bool HostWork::wait(std::chrono::milliseconds timeout) {
  const bool completed = host_->wait(timeout);
  announce();
  return completed;
}

std::vector<at::Tensor> HostWork::result() {
  TORCH_CHECK(isCompleted(), "Work needs to be completed before calling result(). Should call wait() before result().");
  TORCH_CHECK(outputs_.size() <= 1, "work result does not support list of lists, use .getFuture() and value()");
  return outputs_.empty() ? std::vector<at::Tensor>{} : outputs_[0];
}

c10::intrusive_ptr<c10::ivalue::Future> HostWork::getFuture() {
  std::lock_guard<std::mutex> lock(future_mutex_);
  if (future_) return future_;
  std::vector<c10::Device> devices;
  if (views_->index() >= 0) devices.emplace_back(kDevice, static_cast<c10::DeviceIndex>(views_->index()));
  c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
  if (outputs_.size() > 1) type = c10::ListType::create(type);
  future_ = c10::make_intrusive<c10::ivalue::Future>(std::move(type), std::move(devices));
  host_->getFuture()->addCallback([future = future_, outputs = outputs_, views = views_](c10::ivalue::Future& host) {
    announce_writes(outputs);
    if (host.hasError())
      future->setError(host.exception_ptr());
    else
      future->markCompleted(future_value(outputs));
  });
  return future_;
}

}  // namespace presil
