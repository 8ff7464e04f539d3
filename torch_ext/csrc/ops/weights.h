// SPDX-License-Identifier: Apache-2.0
// Packed weights: each (weight, bias, scale, geometry, compute type) is packed for the chip once and dropped when any
// of its storages is written or freed.
#pragma once
#include "runtime/device.h"

#include <ATen/ATen.h>

#include <atomic>
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

// Shared: launches that were enqueued with it must finish before the last reference goes; weights_changed and the cache
// wait for them.
std::shared_ptr<presil_weights> packed_weights(const WeightRequest& request);
void weights_changed(const at::Tensor& written);  // a kernel is about to write this tensor
void weights_changed(const c10::StorageImpl* written);
uint64_t weights_epoch();  // changes whenever packed weights are dropped
void clear_weights_cache();
size_t weights_cache_entries();

// Packed weights of a captured launch. They keep their address, and are packed again, in place, for a replay that finds
// one of their tensors written since.
class CapturedWeights {
 public:
  explicit CapturedWeights(const WeightRequest& request);
  ~CapturedWeights();
  CapturedWeights(const CapturedWeights&) = delete;
  CapturedWeights& operator=(const CapturedWeights&) = delete;

  const std::shared_ptr<presil_weights>& packed() const { return packed_; }
  bool reads(const void* memory) const;  // first byte of a storage
  void mark_stale() { stale_ = true; }
  void refresh();  // if stale: waits for the chip

 private:
  const WeightRequest request_;
  const int index_;
  std::shared_ptr<presil_weights> packed_;
  std::atomic<bool> stale_{false};
};

}  // namespace presil
