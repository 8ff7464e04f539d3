// SPDX-License-Identifier: Apache-2.0
#include "ops/question.h"
#include "runtime/writes.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace presil {
namespace {

bool driver_type(c10::ScalarType type, uint32_t* out) {
  switch (type) {
    case c10::kChar: *out = PRESIL_INT8; return true;
    case c10::kByte: *out = PRESIL_UINT8; return true;
    case c10::kShort: *out = PRESIL_INT16; return true;
    case c10::kInt: *out = PRESIL_INT32; return true;
    case c10::kLong: *out = PRESIL_INT64; return true;
    case c10::kHalf: *out = PRESIL_FP16; return true;
    case c10::kBFloat16: *out = PRESIL_BF16; return true;
    case c10::kFloat: *out = PRESIL_FP32; return true;
    case c10::kFloat8_e4m3fn: *out = PRESIL_FP8_E4M3; return true;
    case c10::kFloat8_e5m2: *out = PRESIL_FP8_E5M2; return true;
    default: return false;
  }
}

// What a chip refused, whatever the addresses: the question as bytes -> its reason.
constexpr size_t kMostRefusals = 4096;
std::mutex refusals_mutex;
std::unordered_map<std::string, std::string>& refusals(int index) {
  static auto* of = new std::array<std::unordered_map<std::string, std::string>, kMaxDevices>;
  return (*of)[index];
}

bool refused_before(int index, const std::string& key, std::string* reason) {
  const std::lock_guard<std::mutex> lock(refusals_mutex);
  const auto found = refusals(index).find(key);
  if (found == refusals(index).end()) return false;
  *reason = found->second;
  return true;
}
void remember_refusal(int index, std::string key, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(refusals_mutex);
  if (refusals(index).size() >= kMostRefusals) refusals(index).clear();
  refusals(index).emplace(std::move(key), reason);
}

template <typename T> void append(std::string& to, const T* values, size_t count) {
  to.append(reinterpret_cast<const char*>(values), count * sizeof *values);
}

bool is_ours(const at::Tensor& t) { return t.device().type() == kDevice || t.is_meta(); }

}  // namespace

bool chip_has(int index, uint32_t kind) { return presil_op_kinds(device(index)) >> kind & 1; }

bool Question::describe(presil_operand& to, const char* name, const at::Tensor& t, c10::ArrayRef<int> order,
                        bool written) {
  to.name = name;
  to.ndim = static_cast<uint32_t>(order.empty() ? t.dim() : static_cast<int64_t>(order.size()));
  if (!driver_type(t.scalar_type(), &to.dtype)) wrong_ = "drivers have no such dtype";
  if (to.ndim > PRESIL_OP_DIMS) wrong_ = "more than 8 dimensions";
  if (t.is_neg() || t.is_conj() || t.numel() == 0) wrong_ = "an empty operand, or one to be negated";
  if (wrong_) return false;
  for (uint32_t i = 0; i < to.ndim; i++) {
    to.shape[i] = t.size(order.empty() ? i : order[i]);
    to.stride[i] = t.stride(order.empty() ? i : order[i]);
  }
  if (written && !t.is_meta()) make_writable(t.storage().unsafeGetStorageImpl());
  to.data = place_of(t, t.storage_offset());
  return true;
}

void Question::input(const char* name, const at::Tensor& t, c10::ArrayRef<int> order) {
  if (!is_ours(t) || (input_count_ && t.device() != tensors_[0].device()))
    wrong_ = "an operand that is elsewhere";
  else if (describe(inputs_[input_count_], name, t, order, false))
    tensors_[input_count_++] = t;
}

void Question::input_int4(const char* name, const at::Tensor& bytes, c10::IntArrayRef shape, c10::IntArrayRef stride) {
  const uint32_t number = input_count_;
  input(name, bytes);
  if (wrong_) return;
  presil_operand& to = inputs_[number];
  to.dtype = PRESIL_INT4;
  to.ndim = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), to.shape);
  std::copy(stride.begin(), stride.end(), to.stride);
}

void Question::also(const char* name, const at::Tensor& t, c10::ArrayRef<int> order) {
  if (!is_ours(t) || (input_count_ && t.device() != tensors_[0].device()))
    wrong_ = "an operand that is elsewhere";
  else if (describe(outputs_[output_count_], name, t, order, true))
    written_[output_count_++] = t;
}

void Question::integers(const char* name, c10::IntArrayRef values) {
  int64_t* to = &integers_[integer_count_];
  if (integer_count_ + values.size() > integers_.size()) {
    wrong_ = "too many numbers";
    return;
  }
  std::copy(values.begin(), values.end(), to);
  integer_count_ += values.size();
  presil_attribute& a = attributes_[attribute_count_++];
  a.name = name;
  a.count = static_cast<uint32_t>(values.size());
  a.integers = to;
}
void Question::integers(const char* name, c10::IntArrayRef values, int64_t otherwise) {
  if (std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != otherwise; })) integers(name, values);
}
void Question::real(const char* name, double value) {
  double& to = reals_.at(real_count_++);
  to = value;
  presil_attribute& a = attributes_[attribute_count_++];
  a.name = name;
  a.count = 1;
  a.reals = &to;
}
void Question::text(const char* name, const char* value) {
  presil_attribute& a = attributes_[attribute_count_++];
  a.name = name;
  a.text = value;
}

void Question::add(const at::Tensor& t, c10::ArrayRef<int> order) {
  presil_step& step = steps_[step_count_++];
  step.kind = PRESIL_STEP_ADD;
  step.input = input_count_;
  step.scale = 1;
  input("residual", t, order);
}
void Question::scale(const at::Tensor& t) {
  static constexpr const char* kNames[] = {"scale", "scale_b"};
  presil_step& step = steps_[step_count_++];
  step.kind = PRESIL_STEP_SCALE;
  step.input = input_count_;
  step.scale = 1;
  input(kNames[scale_count_++], t);
}
void Question::quantize(int32_t zero_point, int32_t low, int32_t high) {
  presil_step& step = steps_[step_count_++];
  step.kind = PRESIL_STEP_QUANTIZE;
  step.input = PRESIL_NO_OPERAND;
  step.zero_point = zero_point;
  step.int_low = low;
  step.int_high = high;
}
void Question::clamp(double low, double high) {
  presil_step& step = steps_[step_count_++];
  step.kind = PRESIL_STEP_CLAMP;
  step.input = PRESIL_NO_OPERAND;
  step.low = static_cast<float>(low);
  step.high = static_cast<float>(high);
}

std::string Question::key() const {
  std::string key(label_);
  append(key, &kind_, 1);
  const auto operand = [&](const presil_operand& t) {
    key += t.name;
    append(key, &t.dtype, 1);
    append(key, &t.ndim, 1);
    append(key, t.shape, t.ndim);
    append(key, t.stride, t.ndim);
  };
  for (uint32_t i = 0; i < input_count_; i++) operand(inputs_[i]);
  for (uint32_t i = 0; i < output_count_; i++) operand(outputs_[i]);
  for (uint32_t i = 0; i < attribute_count_; i++) {
    const presil_attribute& a = attributes_[i];
    key += a.name;
    if (a.integers) append(key, a.integers, a.count);
    if (a.reals) append(key, a.reals, a.count);
    if (a.text) key += a.text;
  }
  append(key, steps_.data(), step_count_);
  append(key, &compute_, 1);
  return key;
}

bool Question::finish(const at::Tensor& output, std::string* reason, c10::ArrayRef<int> order) {
  if (!is_ours(output) || (input_count_ && output.device() != tensors_[0].device()))
    wrong_ = "an operand that is elsewhere";
  written_[0] = output;
  if (!wrong_ && describe(outputs_[0], "output", output, order, true)) return true;
  *reason = wrong_;
  return false;
}

presil_op Question::as_op() const {
  presil_op op{};
  op.size = sizeof op;
  op.kind = kind_;
  op.label = label_;
  op.compute = compute_;
  op.inputs = inputs_.data();
  op.outputs = outputs_.data();
  op.input_count = input_count_;
  op.output_count = output_count_;
  op.attributes = attributes_.data();
  op.attribute_count = attribute_count_;
  op.steps = steps_.data();
  op.step_count = step_count_;
  return op;
}

bool Question::ask(const at::Tensor& output, std::string* reason, c10::ArrayRef<int> order) {
  if (!finish(output, reason, order)) return false;
  const int index = device_index_of(output);
  const std::string own = key();
  if (refused_before(index, own, reason)) return false;
  const presil_op op = as_op();
  const int status = presil_op_supported(device(index), &op);
  if (status == PRESIL_OK) return true;
  *reason = presil_error_text();
  if (status == PRESIL_EUNSUPPORTED) remember_refusal(index, own, *reason);
  return false;
}

bool Question::enqueue(const at::Tensor& output, std::string* reason, c10::ArrayRef<int> order) {
  if (!finish(output, reason, order)) return false;
  const int index = device_index_of(output);
  const std::string own = key();
  if (refused_before(index, own, reason)) return false;
  const presil_op op = as_op();
  if (chip_operator(op, {tensors_.data(), input_count_}, {written_.data(), output_count_})) return true;
  *reason = presil_error_text();
  if (presil_op_supported(device(index), &op) == PRESIL_EUNSUPPORTED) remember_refusal(index, own, *reason);
  return false;
}

}  // namespace presil
