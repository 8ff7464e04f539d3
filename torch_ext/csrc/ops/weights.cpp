// SPDX-License-Identifier: Apache-2.0
#include "ops/placed_weights.h"
#include "host/alias.h"

#include <presil_image.h>
#include "runtime/allocator.h"
#include "observe/recorder.h"

#include <algorithm>
#include <list>
#include <mutex>

namespace presil {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// What identifies a tensor's content as long as its storage is neither written nor freed.
struct TensorKey {
  c10::StorageImpl* storage = nullptr;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::kFloat;
  std::vector<int64_t> sizes, strides;

  TensorKey() = default;
  explicit TensorKey(const at::Tensor& t) {
    if (!t.defined()) return;
    storage = t.storage().unsafeGetStorageImpl();
    offset = t.storage_offset();
    dtype = t.scalar_type();
    sizes = t.sizes().vec();
    strides = t.strides().vec();
  }
  bool operator==(const TensorKey& o) const { return storage == o.storage && offset == o.offset && dtype == o.dtype && sizes == o.sizes && strides == o.strides; }
};

struct Entry {
  TensorKey weight, bias, scale;
  std::array<TensorKey, 4> norm;
  double norm_eps;
  presil_compute compute;
  int64_t groups;
  std::array<int64_t, 2> dilation, input_dilation;
  bool transposed;
  std::vector<WeakStorage> alive;  // a freed storage's address may be used again
  int device;
  std::shared_ptr<presil_weights> packed;

  explicit Entry(const WeightRequest& r)
      : weight(r.weight), bias(r.bias), scale(r.scale), norm{TensorKey(r.norm[0]), TensorKey(r.norm[1]), TensorKey(r.norm[2]), TensorKey(r.norm[3])}, norm_eps(r.norm_eps),
        compute(r.compute), groups(r.groups), dilation(r.dilation), input_dilation(r.input_dilation), transposed(r.transposed), device(r.weight.device().index()) {
    for (const auto* t : {&r.weight, &r.bias, &r.scale, &r.norm[0], &r.norm[1], &r.norm[2], &r.norm[3]})
      if (t->defined()) alive.emplace_back(t->storage().getWeakStorageImpl());
  }
  bool matches(const WeightRequest& r) const {
    for (size_t i = 0; i < norm.size(); i++)
      if (!(norm[i] == TensorKey(r.norm[i]))) return false;
    return norm_eps == r.norm_eps && compute == r.compute && groups == r.groups && dilation == r.dilation && input_dilation == r.input_dilation && transposed == r.transposed &&
           weight == TensorKey(r.weight) && bias == TensorKey(r.bias) && scale == TensorKey(r.scale);
  }
  bool uses(const c10::StorageImpl* s) const {
    return weight.storage == s || bias.storage == s || scale.storage == s || std::any_of(norm.begin(), norm.end(), [s](const TensorKey& k) { return k.storage == s; });
  }
  bool expired() const {
    for (const auto& w : alive)
      if (w.expired()) return true;
    return false;
  }
};

std::mutex cache_mutex;
std::atomic<size_t> cache_entries{0};
std::atomic<uint64_t> epoch{0};
std::unordered_multimap<c10::StorageImpl*, std::shared_ptr<Entry>>& cache() {
  static auto* m = new std::unordered_multimap<c10::StorageImpl*, std::shared_ptr<Entry>>;  // key: the weight's storage
  return *m;
}

template <typename Predicate>
void drop_entries(Predicate&& unwanted) {
  std::vector<std::shared_ptr<Entry>> dropped;
  {
    std::lock_guard<std::mutex> lock(cache_mutex);
    for (auto it = cache().begin(); it != cache().end();)
      if (unwanted(*it->second)) {
        dropped.push_back(it->second);
        it = cache().erase(it);
      } else {
        ++it;
      }
    cache_entries = cache().size();
    if (!dropped.empty()) epoch++;
  }
  for (auto& entry : dropped) wait_pending(entry->device);
}

presil_dtype driver_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat: return PRESIL_FP32;
    case c10::kBFloat16: return PRESIL_BF16;
    case c10::kChar: return PRESIL_INT8;
    case c10::kInt: return PRESIL_INT32;
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, "presil: weights of dtype ", type, " are not supported (float32, bfloat16, int8)");
  }
}

// The weight of the ordinary convolution that a transposed one is: input and output channels swapped inside each group, kernel flipped.
at::Tensor as_forward_kernel(const at::Tensor& w, int64_t groups) {
  const auto s = w.sizes();
  return w.reshape({groups, s[0] / groups, s[1], s[2], s[3]}).transpose(1, 2).reshape({groups * s[1], s[0] / groups, s[2], s[3]}).flip({2, 3}).contiguous();
}

// Weight and bias of the layer with the batch-norm behind it in fp32: the chip rounds them once, when it loads them.
void fold_norm(HostViews& views, const WeightRequest& r, at::Tensor& weight, at::Tensor& bias) {
  const auto value = [&](size_t i) { return views.to_host(r.norm[i]).to(c10::kFloat); };
  at::Tensor factor = (value(1) + r.norm_eps).rsqrt();
  if (r.norm[2].defined()) factor = factor * value(2);
  at::Tensor shift = -value(0);
  if (bias.defined()) shift = shift + bias.to(c10::kFloat);
  bias = shift * factor;
  if (r.norm[3].defined()) bias = bias + value(3);
  weight = (weight.to(c10::kFloat) * factor.view({-1, 1, 1, 1})).contiguous();
}

std::shared_ptr<presil_weights> pack(const WeightRequest& r, int index, presil_daddr place = {}, uint64_t place_bytes = 0) {
  wait_pending(index);
  const uint64_t start = observe_now_ns();
  HostViews views;
  at::Tensor weight = views.to_host(r.weight);
  if (weight.scalar_type() == c10::kHalf) weight = weight.to(c10::kFloat);
  if (weight.scalar_type() == c10::kFloat || weight.scalar_type() == c10::kBFloat16 || weight.scalar_type() == c10::kChar) {
    if (r.transposed) weight = as_forward_kernel(weight, r.groups);
  }
  at::Tensor bias = r.bias.defined() ? views.to_host(r.bias) : at::Tensor();
  if (r.norm[0].defined()) fold_norm(views, r, weight, bias);
  if (bias.defined()) bias = bias.to(r.compute == PRESIL_COMPUTE_INT8 ? c10::kInt : c10::kFloat).contiguous();
  const at::Tensor scale = r.scale.defined() ? views.to_host(r.scale).to(c10::kFloat).contiguous() : at::Tensor();

  presil_weights_desc desc{};
  desc.size = sizeof desc;
  desc.compute = r.compute;
  desc.weight = weight.const_data_ptr();
  desc.weight_dtype = driver_dtype(weight.scalar_type());
  desc.groups = static_cast<uint32_t>(r.groups);
  for (int i = 0; i < 4; i++) {
    desc.shape[i] = weight.size(i);
    desc.stride[i] = weight.stride(i);
  }
  desc.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
  desc.scale = scale.defined() ? scale.const_data_ptr<float>() : nullptr;
  for (int i = 0; i < 2; i++) {
    desc.dilation[i] = r.dilation[i];
    desc.input_dilation[i] = r.input_dilation[i];
  }
  presil_weights* out = nullptr;
  check(presil_weights_create_at(device(index), &desc, place, place_bytes, &out), "packing weights");
  observe_step("presil::pack_weights", "weights are packed for the chip once", presil_weights_bytes(out), observe_now_ns() - start);
  return std::shared_ptr<presil_weights>(out, [](presil_weights* w) { presil_weights_destroy(w); });
}

}  // namespace

std::shared_ptr<presil_weights> packed_weights(const WeightRequest& r) {
  auto* storage = r.weight.storage().unsafeGetStorageImpl();
  {
    std::lock_guard<std::mutex> lock(cache_mutex);
    auto range = cache().equal_range(storage);
    for (auto it = range.first; it != range.second; ++it)
      if (it->second->matches(r) && !it->second->expired()) return it->second->packed;
  }
  drop_entries([](const Entry& e) { return e.expired(); });
  auto entry = std::make_shared<Entry>(r);
  entry->packed = pack(r, entry->device);
  std::lock_guard<std::mutex> lock(cache_mutex);
  cache().emplace(storage, entry);
  cache_entries = cache().size();
  return entry->packed;
}

std::shared_ptr<presil_weights> packed_weights_at(const WeightRequest& r, presil_daddr place, uint64_t bytes) { return pack(r, r.weight.device().index(), place, bytes); }

void weights_changed(const at::Tensor& written) {
  if (cache_entries.load(std::memory_order_relaxed) == 0 || !written.has_storage()) return;
  const auto* s = written.storage().unsafeGetStorageImpl();
  drop_entries([s](const Entry& e) { return e.uses(s); });
}

void clear_weights_cache() {
  drop_entries([](const Entry&) { return true; });
}
uint64_t weights_epoch() { return epoch.load(); }
size_t weights_cache_entries() { return cache_entries.load(); }

static const int registered = (register_cache(&clear_weights_cache), 0);

}  // namespace presil
