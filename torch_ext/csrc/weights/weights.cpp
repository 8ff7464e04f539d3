// SPDX-License-Identifier: Apache-2.0
#include "runtime/capturing.h"
#include "host/alias.h"
#include "observe/moves.h"
#include "observe/observer.h"
#include "runtime/allocator.h"
#include "runtime/float16.h"
#include "weights/weights.h"

#include <presil_image.h>

#include <algorithm>
#include <mutex>

namespace presil {
namespace {

// What identifies the bytes of a tensor, and how they are read.
struct TensorKey {
  const char* data = nullptr;
  c10::ScalarType dtype = c10::kFloat;
  std::vector<int64_t> sizes, strides;

  TensorKey() = default;
  explicit TensorKey(const at::Tensor& t) {
    if (!t.defined()) return;
    data = address_in(t);
    dtype = t.scalar_type();
    sizes = t.sizes().vec();
    strides = t.strides().vec();
  }
  bool of(const at::Tensor& t) const {
    if (!t.defined()) return !data;
    return data == address_in(t) && dtype == t.scalar_type() && t.sizes() == sizes && t.strides() == strides;
  }
  static const char* address_in(const at::Tensor& t) {
    return static_cast<const char*>(t.storage().data()) + t.storage_offset() * static_cast<int64_t>(t.element_size());
  }
};

struct Entry {
  std::array<TensorKey, 7> operands;
  double norm_eps;
  c10::ScalarType rounded;
  presil_compute compute;
  int64_t groups;
  std::array<int64_t, 2> dilation, input_dilation;
  bool transposed;
  std::shared_ptr<PackedWeights> packed;

  Entry(const WeightRequest& r, std::shared_ptr<PackedWeights> packed)
      : norm_eps(r.norm_eps), rounded(r.rounded), compute(r.compute), groups(r.groups), dilation(r.dilation),
        input_dilation(r.input_dilation), transposed(r.transposed), packed(std::move(packed)) {
    const auto tensors = r.operands();
    for (size_t i = 0; i < operands.size(); i++) operands[i] = TensorKey(*tensors[i]);
  }
  bool matches(const WeightRequest& r) const {
    const auto tensors = r.operands();
    for (size_t i = 0; i < operands.size(); i++)
      if (!operands[i].of(*tensors[i])) return false;
    return norm_eps == r.norm_eps && rounded == r.rounded && compute == r.compute && groups == r.groups &&
           dilation == r.dilation && input_dilation == r.input_dilation && transposed == r.transposed;
  }
};

std::mutex cache_mutex;
uint64_t swept = 0;                                     // watch_epoch() of the last sweep
std::unordered_multimap<const char*, Entry>& cache() {  // by the weight's address; under cache_mutex, as swept
  static auto* m = new std::unordered_multimap<const char*, Entry>;
  return *m;
}

template <typename Predicate> void drop_entries(Predicate&& unwanted) {
  std::vector<std::shared_ptr<PackedWeights>> dropped;
  {
    std::lock_guard<std::mutex> lock(cache_mutex);
    for (auto it = cache().begin(); it != cache().end();)
      if (unwanted(*it->second.packed)) {
        dropped.push_back(std::move(it->second.packed));
        it = cache().erase(it);
      } else {
        ++it;
      }
  }
  for (const auto& packed : dropped) wait_pending(packed->index());
}

void drop_outdated() {
  const uint64_t now = watch_epoch();
  {
    std::lock_guard<std::mutex> lock(cache_mutex);
    if (swept == now) return;
    swept = now;
  }
  drop_entries([](const PackedWeights& w) { return !w.unwritten(); });
}

presil_dtype driver_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat: return PRESIL_FP32;
    case c10::kBFloat16: return PRESIL_BF16;
    case c10::kHalf: return PRESIL_FP16;
    case c10::kChar: return PRESIL_INT8;
    case c10::kInt: return PRESIL_INT32;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "presil: weights of dtype ", type,
                                  " are not supported (float32, bfloat16, float16, int8)");
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

// What is packed: float16 only for a chip that takes it as it lies, and then of folded weights too.
c10::ScalarType packed_type(const WeightRequest& r, int index) {
  const auto type = r.rounded == c10::ScalarType::Undefined ? r.weight.scalar_type() : r.rounded;
  if (type == c10::kHalf) return has_float16(index) ? c10::kHalf : c10::kFloat;
  return r.norm[0].defined() ? c10::kFloat : type;
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
  const auto packed = packed_type(r, index);
  if (packed == c10::kFloat || packed == c10::kBFloat16 || packed == c10::kHalf || packed == c10::kChar) {
    if (r.transposed) p.weight = as_forward_kernel(p.weight, r.groups);
  }
  if (r.norm[0].defined()) fold_norm(views, r, p.weight, p.bias);
  p.weight = p.weight.to(packed);
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

std::array<const at::Tensor*, 7> settled(const WeightRequest& r, int index) {
  wait_pending(index);
  return r.operands();
}

// The same memory, whatever `t` is pointed to later.
at::Tensor alias_of(const at::Tensor& t) {
  if (!t.defined()) return t;
  return at::Tensor(t.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
}
WeightRequest alias_of(WeightRequest r) {
  for (auto* t : {&r.weight, &r.bias, &r.scale}) *t = alias_of(*t);
  for (auto& t : r.norm) t = alias_of(t);
  return r;
}

}  // namespace

// The watch comes first: what is written from then on makes it stale, whether it was read before or after.
PackedWeights::PackedWeights(const WeightRequest& request, presil_daddr place, uint64_t place_bytes)
    : index_(request.weight.device().index()), watch_(settled(request, index_)) {
  const uint64_t start = observe_now_ns();
  const Prepared prepared = prepare(request, index_);
  check(presil_weights_create_at(device(index_), &prepared.desc, place, place_bytes, &handle_), "packing weights");
  const uint64_t ns = observe_now_ns() - start;
  note_move(Move::kPackWeights, presil_weights_bytes(handle_), static_cast<int64_t>(ns));
  observe_step("presil::pack_weights", "weights are packed for the chip once", presil_weights_bytes(handle_), ns);
}
PackedWeights::~PackedWeights() { presil_weights_destroy(handle_); }

void PackedWeights::renew(const WeightRequest& request) {
  wait_pending(index_);
  watch_.renew();
  const Prepared prepared = prepare(request, index_);
  check(presil_weights_update(handle_, &prepared.desc), "packing weights again");
}

std::shared_ptr<PackedWeights> cached_weights(const WeightRequest& r) {
  const char* key = TensorKey::address_in(r.weight);
  std::shared_ptr<PackedWeights> found;
  {
    std::lock_guard<std::mutex> lock(cache_mutex);
    const auto range = cache().equal_range(key);
    for (auto it = range.first; it != range.second && !found; ++it)
      if (it->second.packed->unwritten() && it->second.matches(r)) found = it->second.packed;
  }
  if (found && found->current()) return found;
  drop_outdated();
  auto packed = std::make_shared<PackedWeights>(r);
  std::lock_guard<std::mutex> lock(cache_mutex);
  cache().emplace(key, Entry(r, packed));
  return packed;
}

std::shared_ptr<presil_weights> packed_weights(const WeightRequest& r) {
  auto* capture = capturing(r.weight.device().index(), "packing weights");
  try {
    if (capture) return capture->weights(r);
    const auto packed = cached_weights(r);
    return {packed, packed->handle()};
  } catch (const c10::NotImplementedError&) {
    return nullptr;  // EUNSUPPORTED: the chip has no such weights, and presil_error_text() says why
  }
}

std::shared_ptr<presil_weights> asked_weights(const WeightRequest& r, int index) {
  const at::Tensor& w = r.weight;
  presil_weights_desc desc{};
  desc.size = sizeof desc;
  desc.compute = r.compute;
  desc.weight_dtype = driver_dtype(packed_type(r, index));
  desc.groups = static_cast<uint32_t>(r.groups);
  const std::array<int64_t, 2> outer = r.transposed ? std::array<int64_t, 2>{w.size(1) * r.groups, w.size(0) / r.groups}
                                                    : std::array<int64_t, 2>{w.size(0), w.size(1)};
  for (int i = 0; i < 4; i++) desc.shape[i] = i < 2 ? outer[i] : w.size(i);
  for (int64_t i = 3, step = 1; i >= 0; step *= desc.shape[i--]) desc.stride[i] = step;
  static const float none = 0;  // that there is one
  if (r.bias.defined() || r.norm[0].defined()) desc.bias = &none;
  if (r.scale.defined()) desc.scale = &none;
  for (int i = 0; i < 2; i++) {
    desc.dilation[i] = r.dilation[i];
    desc.input_dilation[i] = r.input_dilation[i];
  }
  presil_weights* handle = nullptr;
  const int status = presil_weights_create(device(index), &desc, &handle);
  if (status == PRESIL_EUNSUPPORTED) return nullptr;
  check(status, "asking about weights");
  return {handle, presil_weights_destroy};
}

CapturedWeights::CapturedWeights(const WeightRequest& request)
    : request_(alias_of(request)), packed_(std::make_shared<PackedWeights>(request_)) {}
void CapturedWeights::refresh() {
  if (!packed_->current()) packed_->renew(request_);
}

void clear_weights_cache() {
  drop_entries([](const PackedWeights&) { return true; });
}
size_t weights_cache_entries() {
  std::lock_guard<std::mutex> lock(cache_mutex);
  return static_cast<size_t>(
      std::count_if(cache().begin(), cache().end(), [](const auto& e) { return e.second.packed->unwritten(); }));
}

static const int registered = (register_cache(&clear_weights_cache), 0);

}  // namespace presil
