// SPDX-License-Identifier: Apache-2.0
#include "graph/capture.h"
#include "host/alias.h"
#include "observe/moves.h"
#include "observe/recorder.h"
#include "ops/placed_weights.h"
#include "runtime/allocator.h"

#include <presil_image.h>

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
  bool operator==(const TensorKey& o) const {
    return storage == o.storage && offset == o.offset && dtype == o.dtype && sizes == o.sizes && strides == o.strides;
  }
};

struct Entry {
  TensorKey weight, bias, scale;
  std::array<TensorKey, 4> norm;
  double norm_eps;
  c10::ScalarType rounded;
  presil_compute compute;
  int64_t groups;
  std::array<int64_t, 2> dilation, input_dilation;
  bool transposed;
  std::vector<WeakStorage> alive;  // a freed storage's address may be used again
  int device;
  std::shared_ptr<presil_weights> packed;

  explicit Entry(const WeightRequest& r)
      : weight(r.weight), bias(r.bias), scale(r.scale),
        norm{TensorKey(r.norm[0]), TensorKey(r.norm[1]), TensorKey(r.norm[2]), TensorKey(r.norm[3])},
        norm_eps(r.norm_eps), rounded(r.rounded), compute(r.compute), groups(r.groups), dilation(r.dilation),
        input_dilation(r.input_dilation), transposed(r.transposed), device(r.weight.device().index()) {
    for (const auto* t : r.operands())
      if (t->defined()) alive.emplace_back(t->storage().getWeakStorageImpl());
  }
  bool matches(const WeightRequest& r) const {
    for (size_t i = 0; i < norm.size(); i++)
      if (!(norm[i] == TensorKey(r.norm[i]))) return false;
    return norm_eps == r.norm_eps && rounded == r.rounded && compute == r.compute && groups == r.groups &&
           dilation == r.dilation && input_dilation == r.input_dilation && transposed == r.transposed &&
           weight == TensorKey(r.weight) && bias == TensorKey(r.bias) && scale == TensorKey(r.scale);
  }
  bool uses(const c10::StorageImpl* s) const {
    return weight.storage == s || bias.storage == s || scale.storage == s ||
           std::any_of(norm.begin(), norm.end(), [s](const TensorKey& k) { return k.storage == s; });
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

template <typename Predicate> void drop_entries(Predicate&& unwanted) {
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
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "presil: weights of dtype ", type,
                                  " are not supported (float32, bfloat16, int8)");
  }
}

// The weight of the ordinary convolution that a transposed one is: input and output channels swapped inside each group,
// kernel flipped.
at::Tensor as_forward_kernel(const at::Tensor& w, int64_t groups) {
  const auto s = w.sizes();
  return w.reshape({groups, s[0] / groups, s[1], s[2], s[3]})
      .transpose(1, 2)
      .reshape({groups * s[1], s[0] / groups, s[2], s[3]})
      .flip({2, 3})
      .contiguous();
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

// What the driver packs, with the tensors that it points to.
struct Prepared {
  at::Tensor weight, bias, scale;
  presil_weights_desc desc{};
};

Prepared prepare(const WeightRequest& r, int index) {
  wait_pending(index);
  HostViews views;
  Prepared p;
  p.weight = views.to_host(r.weight);
  if (r.bias.defined()) p.bias = views.to_host(r.bias);
  if (r.rounded != c10::ScalarType::Undefined) {
    p.weight = p.weight.to(r.rounded);
    if (p.bias.defined()) p.bias = p.bias.to(r.rounded);
  }
  if (p.weight.scalar_type() == c10::kHalf) p.weight = p.weight.to(c10::kFloat);
  if (p.weight.scalar_type() == c10::kFloat || p.weight.scalar_type() == c10::kBFloat16 ||
      p.weight.scalar_type() == c10::kChar) {
    if (r.transposed) p.weight = as_forward_kernel(p.weight, r.groups);
  }
  if (r.norm[0].defined()) fold_norm(views, r, p.weight, p.bias);
  if (p.bias.defined()) p.bias = p.bias.to(r.compute == PRESIL_COMPUTE_INT8 ? c10::kInt : c10::kFloat).contiguous();
  if (r.scale.defined()) p.scale = views.to_host(r.scale).to(c10::kFloat).contiguous();
  p.desc.size = sizeof p.desc;
  p.desc.compute = r.compute;
  p.desc.weight = p.weight.const_data_ptr();
  p.desc.weight_dtype = driver_dtype(p.weight.scalar_type());
  p.desc.groups = static_cast<uint32_t>(r.groups);
  for (int i = 0; i < 4; i++) {
    p.desc.shape[i] = p.weight.size(i);
    p.desc.stride[i] = p.weight.stride(i);
  }
  p.desc.bias = p.bias.defined() ? p.bias.const_data_ptr() : nullptr;
  p.desc.scale = p.scale.defined() ? p.scale.const_data_ptr<float>() : nullptr;
  for (int i = 0; i < 2; i++) {
    p.desc.dilation[i] = r.dilation[i];
    p.desc.input_dilation[i] = r.input_dilation[i];
  }
  return p;
}

std::shared_ptr<presil_weights> pack(const WeightRequest& r, int index, presil_daddr place = {},
                                     uint64_t place_bytes = 0) {
  wait_pending(index);
  const uint64_t start = observe_now_ns();
  const Prepared prepared = prepare(r, index);
  presil_weights* out = nullptr;
  check(presil_weights_create_at(device(index), &prepared.desc, place, place_bytes, &out), "packing weights");
  const uint64_t ns = observe_now_ns() - start;
  note_move(Move::kPackWeights, presil_weights_bytes(out), static_cast<int64_t>(ns));
  observe_step("presil::pack_weights", "weights are packed for the chip once", presil_weights_bytes(out), ns);
  return std::shared_ptr<presil_weights>(out, [](presil_weights* w) { presil_weights_destroy(w); });
}

std::vector<std::pair<CapturedWeights*, std::array<const c10::StorageImpl*, 7>>>& captured() {
  static auto* list =
      new std::vector<std::pair<CapturedWeights*, std::array<const c10::StorageImpl*, 7>>>;  // under cache_mutex
  return *list;
}
std::atomic<size_t> captured_entries{0};

}  // namespace

std::shared_ptr<presil_weights> packed_weights(const WeightRequest& r) {
  if (auto* recorder = capturing(r.weight.device().index(), "packing weights")) return record_weights(recorder, r);
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

std::shared_ptr<presil_weights> packed_weights_at(const WeightRequest& r, presil_daddr place, uint64_t bytes) {
  return pack(r, r.weight.device().index(), place, bytes);
}

void weights_changed(const at::Tensor& written) {
  if ((cache_entries.load(std::memory_order_relaxed) || captured_entries.load(std::memory_order_relaxed)) &&
      written.has_storage())
    weights_changed(written.storage().unsafeGetStorageImpl());
}
void weights_changed(const c10::StorageImpl* s) {
  if (captured_entries.load(std::memory_order_relaxed)) {
    std::lock_guard<std::mutex> lock(cache_mutex);
    for (auto& [weights, storages] : captured())
      if (std::find(storages.begin(), storages.end(), s) != storages.end()) weights->mark_stale();
  }
  if (cache_entries.load(std::memory_order_relaxed)) drop_entries([s](const Entry& e) { return e.uses(s); });
}

CapturedWeights::CapturedWeights(const WeightRequest& request)
    : request_(request), index_(request.weight.device().index()), packed_(pack(request, index_)) {
  std::array<const c10::StorageImpl*, 7> storages{};
  const auto operands = request_.operands();
  for (size_t i = 0; i < operands.size(); i++)
    if (operands[i]->defined()) storages[i] = operands[i]->storage().unsafeGetStorageImpl();
  std::lock_guard<std::mutex> lock(cache_mutex);
  captured().emplace_back(this, storages);
  captured_entries = captured().size();
}
CapturedWeights::~CapturedWeights() {
  std::lock_guard<std::mutex> lock(cache_mutex);
  auto& list = captured();
  list.erase(std::remove_if(list.begin(), list.end(), [this](const auto& e) { return e.first == this; }), list.end());
  captured_entries = list.size();
}
bool CapturedWeights::reads(const void* memory) const {
  for (const auto* t : request_.operands())
    if (t->defined() && t->storage().data() == memory) return true;
  return false;
}
void CapturedWeights::refresh() {
  if (!stale_.exchange(false)) return;
  const Prepared prepared = prepare(request_, index_);
  check(presil_weights_update(packed_.get(), &prepared.desc), "packing weights again");
}

void clear_weights_cache() {
  drop_entries([](const Entry&) { return true; });
}
uint64_t weights_epoch() { return epoch.load(); }
size_t weights_cache_entries() { return cache_entries.load(); }

static const int registered = (register_cache(&clear_weights_cache), 0);

}  // namespace presil
