// SPDX-License-Identifier: Apache-2.0
// Memory pools of torch.presil.MemPool and of captured graphs: blocks of one are never handed out by another.
#pragma once
#include <presil.h>

#include <c10/core/CachingDeviceAllocator.h>

namespace presil {

using PoolId = c10::MempoolId_t;  // as torch.cuda has them: {0, 0} is the default pool, ours are {0, n}

PoolId create_pool(int index);
void destroy_pool(PoolId id);                       // live blocks move to the default pool; unknown ids are ignored
int pool_device(PoolId id);                         // -1: unknown
presil_pool* pool_of(PoolId id);                    // null: the default pool, or unknown
PoolId pool_by_number(int index, uint32_t number);  // of presil_memory_block.pool

// The pool that the calling thread allocates from, a device.
PoolId current_pool(int index) noexcept;
PoolId exchange_pool(int index, PoolId id);  // returns the one before; raises on an unknown id or another device's
presil_pool* current_pool_handle(int index) noexcept;

// The calling thread allocates from the pool while this lives.
class UsePool {
 public:
  UsePool(int index, PoolId id) : index_(index), previous_(exchange_pool(index, id)) {}
  ~UsePool() { exchange_pool(index_, previous_); }
  UsePool(const UsePool&) = delete;
  UsePool& operator=(const UsePool&) = delete;

 private:
  int index_;
  PoolId previous_;
};

}  // namespace presil
