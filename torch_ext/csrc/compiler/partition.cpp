// SPDX-License-Identifier: Apache-2.0
#include "compiler/partition.h"
#include "runtime/capturing.h"
#include "observe/observer.h"

#include <ATen/EmptyTensor.h>
#include <ATen/record_function.h>
#include <presil_image.h>

#include <tuple>

namespace presil {
namespace {

constexpr uint64_t kPage = 4096;  // blocks of the driver begin at one; so does what is placed
uint64_t pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void refuse_partition(int index) {
  refuse_capture(index, "a partition of torch.compile",
                 "it is one recorded launch already; capture the model without torch.compile");
}

// Raises what the chip answered, whose text may begin with the label already.
void need(bool taken, const std::string& label) {
  const std::string text = taken ? "" : presil_error_text(), name = label + ": ";
  TORCH_CHECK_NOT_IMPLEMENTED(taken, "presil: ", text.rfind(name, 0) == 0 ? "" : name, text);
}

const void* pointer(uint64_t address) { return reinterpret_cast<const void*>(address); }

}  // namespace

Partition::Partition(int index, bool only_ask) : index_(index), only_ask_(only_ask), epoch_(watch_epoch()) {
  if (!only_ask) refuse_partition(index);
  device(index);
}
Partition::~Partition() { presil_list_destroy(list_); }

// While the driver records: on a stream of its own, because the current one may be other threads', too.
class Partition::Session {
 public:
  explicit Session(int index) : index_(index) {
    check(presil_stream_create(device(index), 0, &stream_), "recording a partition");
    const int status = presil_record_begin(device(index), stream_);
    if (status) presil_stream_destroy(stream_);
    check(status, "recording a partition");
    launches_.emplace(index, stream_);
  }
  ~Session() { presil_stream_destroy(stream_); }  // with what is recorded and was not taken
  presil_list* take() {
    presil_list* list = nullptr;
    check(presil_record_end(device(index_), stream_, &list), "recording a partition");
    return list;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  const int index_;
  presil_stream* stream_ = nullptr;
  std::optional<LaunchesTo> launches_;
};

std::shared_ptr<presil_weights> Partition::hold(const WeightRequest& request) {
  if (only_ask_) return asked_weights(request, index_);
  auto packed = place_ ? std::make_shared<PackedWeights>(request, presil_daddr{place_}, place_end_ - place_)
                       : cached_weights(request);
  if (place_) place_ += pages(presil_weights_bytes(packed->handle()));
  held_.push_back(packed);
  return {packed, packed->handle()};
}
void Partition::place_weights(uint64_t address, uint64_t bytes) {
  place_ = address;
  place_end_ = address + bytes;
}
uint64_t Partition::weights_bytes() const {
  uint64_t sum = 0;
  for (const auto& packed : held_) sum += pages(presil_weights_bytes(packed->handle()));
  return sum;
}

void Partition::add(const std::string& label, std::function<bool()> enqueue) {
  TORCH_CHECK(!list_, "presil: the partition is finished");
  if (only_ask_) {
    const AskedDevice here(index_);
    return need(enqueue(), label);
  }
  ops_.push_back({label, std::move(enqueue)});
}

void Partition::conv2d(const std::string& label, const at::Tensor& x, const WeightRequest& asked,
                       const ConvGeometry& geometry, const Fusion& fusion, uint8_t pad, const at::Tensor& out) {
  for (const at::Tensor* t : asked.operands())
    if (t->defined() && !only_ask_)
      fixed_.emplace_back(reinterpret_cast<uintptr_t>(t->storage().data()), t->storage().nbytes());
  if (asked.transposed && !asked.norm[0].defined()) {
    const auto own = [=] {
      return TransposedConv{label.c_str(), x, asked.weight, asked.bias, out, geometry, asked.compute, fusion};
    };
    std::string reason;
    const auto takes = [&] {
      const AskedDevice here(index_);
      return own().possible(index_) && own().ask(&reason);
    };  // the kernel as it lies: a saved program has a place for packed ones alone
    if (!place_ && takes()) return add(label, [=]() mutable { return own().enqueue(&reason); });
  }
  if (!packs_weights(index_))
    return add(label, [=] { return conv2d_of_plain(label.c_str(), x, asked, out, geometry, fusion); });
  add(label, [=, packed = hold(asked)] { return chip_conv2d(label.c_str(), x, packed, out, geometry, fusion, pad); });
}

void Partition::matmul(const std::string& label, const at::Tensor& a, const at::Tensor& b, const Fusion& fusion,
                       const at::Tensor& out) {
  const presil_compute compute = a.scalar_type() == c10::kChar ? PRESIL_COMPUTE_INT8 : compute_for(a.scalar_type());
  add(label, [=] { return chip_matmul(label.c_str(), a, b, out, compute, fusion); });
}

void Partition::input_grad(const std::string& label, const at::Tensor& grad, const at::Tensor& weight,
                           const ConvArguments& conv, const std::optional<at::Tensor>& residual,
                           const at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_in_rows(out, weight, conv),
                              "presil: channels have several outputs each: the host turns their gradient first");
  add(label, [=, before = residual.value_or(at::Tensor())] {
    return chip_input_gradient(conv_labels(conv.transposed, false), grad, weight, out, conv, before);
  });
}
void Partition::weight_grad(const std::string& label, const at::Tensor& grad, const at::Tensor& x,
                            const ConvArguments& conv, const at::Tensor& out) {
  add(label, [=] { return chip_weight_gradient(conv_labels(conv.transposed, false), grad, x, out, conv); });
}
void Partition::bias_grad(const std::string& label, const at::Tensor& grad, const at::Tensor& out) {
  if (!one_.defined())
    one_ = at::ones({1}, grad.options().dtype(grad.scalar_type() == c10::kHalf ? c10::kHalf : c10::kFloat));
  add(label, [=, one = one_, compute = compute_for(grad.scalar_type(), Fp32Op::conv)] {
    return chip_bias_gradient(conv_labels(false, false), grad, one, out, compute);
  });
}

void Partition::finish(const std::string& label) {
  TORCH_CHECK(!list_, "presil: the partition is finished");
  name_ = "presil::" + label;
  Session session(index_);
  for (const Op& op : ops_) need(op.enqueue(), op.label);
  list_ = session.take();
  const int merged = presil_list_merge(list_, label.c_str());
  if (merged != PRESIL_EUNSUPPORTED)
    check(merged, "merging a partition");  // another chip may take one operator a launch
  operators_ = ops_.size();
  ops_.clear();
}

std::shared_ptr<Partition> Partition::moved(const std::vector<uint64_t>& before,
                                            const std::vector<at::Tensor>& now) const {
  TORCH_CHECK(list_ && !place_, "presil: finish() the partition first; one with placed weights stays");
  std::vector<presil_move> moves;
  for (size_t i = 0; i < now.size(); i++) {
    const uint64_t from = before.at(i), to = reinterpret_cast<uintptr_t>(now[i].const_data_ptr()),
                   bytes = at::detail::computeStorageNbytes(now[i].sizes(), now[i].strides(), now[i].itemsize());
    for (const auto& [begin, size] : fixed_)
      if (from != to && from < begin + size && begin < from + bytes) return nullptr;
    moves.push_back({address_of(index_, pointer(from)), address_of(index_, pointer(to)), bytes});
  }
  presil_list* list = nullptr;
  const int status = presil_list_moved(list_, moves.data(), static_cast<uint32_t>(moves.size()), &list);
  if (status == PRESIL_EUNSUPPORTED || status == PRESIL_EINVAL) return nullptr;
  check(status, "moving a partition");
  auto out = std::make_shared<Partition>(index_);
  std::tie(out->list_, out->epoch_, out->operators_) = std::tie(list, epoch_, operators_);
  std::tie(out->name_, out->held_, out->fixed_, out->one_) = std::tie(name_, held_, fixed_, one_);
  return out;
}

void Partition::submit() {
  TORCH_CHECK(list_, "presil: finish() the partition first");
  refuse_partition(index_);
  at::RecordFunction observed(at::RecordScope::FUNCTION);
  if (C10_UNLIKELY(observed.isActive())) observed.before(name_);
  // Nobody hears of the writes (runtime/writes.h): the arena is the partition's, results are new.
  check(presil_list_submit(list_, current_stream(index_)), "submitting a partition");
  observe_launch();
  mark_pending(index_);
}

bool Partition::valid() const {
  if (place_) return true;
  const uint64_t now = watch_epoch();
  if (now == epoch_ && C10_LIKELY(compared_watches() == 0)) return true;
  for (const auto& packed : held_)
    if (!packed->current()) return false;
  epoch_ = now;
  return true;
}

std::string Partition::save(uint64_t base) const {
  TORCH_CHECK(list_, "presil: finish() the partition first");
  uint64_t size = 0;
  check(presil_list_save(list_, {base}, nullptr, &size), "saving commands");
  std::string bytes(size, '\0');
  check(presil_list_save(list_, {base}, bytes.data(), &size), "saving commands");
  return bytes;
}

}  // namespace presil
