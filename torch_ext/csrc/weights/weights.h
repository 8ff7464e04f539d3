// SPDX-License-Identifier: Apache-2.0
// Packed weights: each (weight, bias, scale, geometry, compute type) is packed for the chip once, and the packed form
// is valid as long as the bytes that went into it are those (watch.h).
#pragma once
#include "runtime/device.h"
#include "weights/watch.h"

#include <ATen/ATen.h>

#include <memory>

namespace presil {

struct WeightRequest {
  at::Tensor weight;  // O, I/groups, KH, KW (transposed: I, O/groups, KH, KW); on the device
  at::Tensor bias;    // O values: floating point, or int32 for int8; may be undefined
  at::Tensor scale;   // O fp32 values; may be undefined
  c10::ScalarType rounded = c10::ScalarType::Undefined;  // weight and bias are converted to this first; Undefined: they
                                                         // are what the layer computes with
  presil_compute compute = PRESIL_COMPUTE_FP32;
  int64_t groups = 1;
  std::array<int64_t, 2> dilation{1, 1}, input_dilation{1, 1};
  bool transposed = false;  // the kernel of a transposed convolution
  std::array<at::Tensor, 4>
      norm;  // running mean and variance, weight, bias of a batch-norm in eval mode to fold in; undefined mean: none
  double norm_eps = 0;

  // Every tensor that goes into the packing; some are undefined.
  std::array<const at::Tensor*, 7> operands() const {
    return {&weight, &bias, &scale, &norm[0], &norm[1], &norm[2], &norm[3]};
  }
};

// The packed form of one request. Launches that were enqueued with it must finish before it goes.
class PackedWeights {
 public:
  // Waits for the chip and packs: into a block of its own, or into [place, place + bytes), which the caller keeps.
  explicit PackedWeights(const WeightRequest& request, presil_daddr place = {}, uint64_t place_bytes = 0);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  presil_weights* handle() const { return handle_; }
  int index() const { return index_; }
  // The tensors hold what was packed. unwritten(): as far as is known without looking at the bytes.
  bool current() { return watch_.current(); }
  bool unwritten() const { return watch_.unwritten(); }
  void renew(const WeightRequest& request);  // packs again, to the same address; the request differs in values only

 private:
  const int index_;
  Watch watch_;
  presil_weights* handle_ = nullptr;
};

// From the cache, or packed now. The caller's reference keeps them, whatever becomes of the cache.
std::shared_ptr<PackedWeights> cached_weights(const WeightRequest& request);
// For a launch of now: the handle of cached_weights; while a graph is captured, that graph's.
std::shared_ptr<presil_weights> packed_weights(const WeightRequest& request);
// Of meta tensors, which have no bytes: for questions alone (chip_ops.h). Null: the chip has no such weights.
std::shared_ptr<presil_weights> asked_weights(const WeightRequest& request, int index);
void clear_weights_cache();
size_t weights_cache_entries();  // that are not known to be outdated

// Packed weights of a captured launch. They keep their address, and are packed again, in place, for a replay that finds
// one of their tensors written since. The memory that was captured counts, not what a tensor is pointed to later.
class CapturedWeights {
 public:
  explicit CapturedWeights(const WeightRequest& request);
  const std::shared_ptr<PackedWeights>& packed() const { return packed_; }
  void refresh();  // if outdated: waits for the chip

 private:
  const WeightRequest request_;
  const std::shared_ptr<PackedWeights> packed_;
};

}  // namespace presil
