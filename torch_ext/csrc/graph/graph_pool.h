// SPDX-License-Identifier: Apache-2.0
// The memory of graphs: a pool of its own, whose blocks keep to it (freed ones too) as long as a graph that was
// captured in it lives.
#pragma once
#include <presil.h>

#include <c10/core/CachingDeviceAllocator.h>

#include <memory>

namespace presil {

using PoolId = c10::MempoolId_t;

class GraphPool {
 public:
  // {0, 0}: a new pool. An id of new_pool_id() or of another graph: shared with whoever has it. Raises for an id that
  // is unknown, or of another device.
  static std::shared_ptr<GraphPool> get(int index, PoolId id);
  static PoolId new_id();  // for get(), before there is a graph

  ~GraphPool();
  PoolId id() const { return id_; }
  presil_pool* handle() const { return handle_; }
  enum class Owner { ours, others, none };
  Owner owner(const void* block) const;  // of a live block's first byte; none: not a graph's memory

 private:
  GraphPool(int index, PoolId id);

  const int index_;
  const PoolId id_;
  presil_pool* handle_ = nullptr;
  uint32_t number_ = 0;
};

}  // namespace presil
