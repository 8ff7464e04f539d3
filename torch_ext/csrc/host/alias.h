// SPDX-License-Identifier: Apache-2.0
// CPU views of device tensors over the same memory, for operators that the host computes: no copies in, none out.
// A view set lives for one operator call. finish() carries back what the CPU kernel changed of its inputs (resize_,
// set_, strides); to_device() maps results: an input's view to the input itself, a view of known storage to a device
// view, new memory is adopted.
#pragma once
#include "runtime/device.h"

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <memory>

namespace presil {

// Position of a pointer in a list that is short but for lists of tensors (foreach operators).
class PointerIndex {
 public:
  int find(const void* key) const;  // -1: unknown
  void add(const void* key);        // at the next position

 private:
  c10::SmallVector<const void*, 8> keys_;
  std::unique_ptr<ska::flat_hash_map<const void*, int>> many_;
};

class HostViews {
 public:
  // CPU view of a device tensor; others pass through. Raises on operands of different presil devices and on layouts
  // without a CPU view (sparse, quantized).
  at::Tensor to_host(const at::Tensor& t);
  c10::Storage to_host(const c10::Storage& s);
  // Raises NotImplementedError for a result that can't live on the device (sparse, mkldnn, quantized).
  at::Tensor to_device(const at::Tensor& t);
  void finish();
  // Host access comes after this: waits for the chip, and brings what the views so far have, and at once what later
  // ones have. index: of the operands, or -1 for what the views say.
  void settle(int index = -1);

  int index() const { return index_; }  // device of the operands, -1: none yet
  void set_index(int index) { index_ = index; }
  bool has_cpu_tensor() const { return cpu_tensor_; }  // a CPU operand with dimensions, or a CPU storage, was passed

 private:
  struct StoragePair {
    c10::StorageImpl* dev;
    c10::Storage cpu;
    void* data;
    size_t bytes;
  };
  struct TensorPair {
    at::Tensor dev, cpu;
    int storage;  // position in storages_
  };
  int storage_position(c10::StorageImpl* dev);
  static void bring(const StoragePair& pair);
  c10::Storage device_storage(const c10::Storage& cpu);
  c10::DataPtr adopt(c10::StorageImpl* cpu, size_t bytes);

  c10::SmallVector<StoragePair, 4> storages_;
  c10::SmallVector<TensorPair, 4> tensors_;
  PointerIndex dev_storages_, cpu_storages_, dev_tensors_, cpu_tensors_;
  c10::SmallVector<std::pair<c10::StorageImpl*, c10::Storage>, 2> adopted_;
  c10::SmallVector<c10::StorageImpl*, 4> cpu_inputs_;
  c10::SmallVector<at::Tensor, 4> keep_;
  int index_ = -1;
  bool cpu_tensor_ = false, settled_ = false;
};

// While alive, CPU allocations of this thread come from the device's memory, so that results need no copy.
class AllocateOnDevice {
 public:
  explicit AllocateOnDevice(int index);
  ~AllocateOnDevice();
  AllocateOnDevice(const AllocateOnDevice&) = delete;
  AllocateOnDevice& operator=(const AllocateOnDevice&) = delete;

 private:
  int previous_;
};

// What the CPU kernel of one operator allocates, in order. A graph notes it, and hands the memory of the results out
// again when it replays the operator.
struct AllocationPlan {
  struct Block {
    void* data;
    size_t bytes;
    bool result;
  };
  c10::SmallVector<Block, 4> blocks;
  size_t next = 0;
  bool replaying = false;
};
AllocationPlan* exchange_allocation_plan(AllocationPlan* plan) noexcept;  // the calling thread's; null: none

void copy_metadata(const c10::TensorImpl* from,
                   c10::TensorImpl* to);  // sizes, strides, offset, conjugate and negative bits

}  // namespace presil
