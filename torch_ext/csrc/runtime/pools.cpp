// SPDX-License-Identifier: Apache-2.0
#include "runtime/pools.h"
#include "runtime/device.h"

#include <array>
#include <map>
#include <mutex>

namespace presil {
namespace {

struct Entry {
  int index;
  presil_pool* handle;
};
struct Table {
  std::mutex mutex;
  std::map<uint64_t, Entry> pools;  // by id.second
  uint64_t last = 0;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

struct Current {
  uint64_t id = 0;
  presil_pool* handle = nullptr;
};
thread_local std::array<Current, kMaxDevices> tls_pool{};

}  // namespace

PoolId create_pool(int index) {
  presil_pool* handle = nullptr;
  check(presil_pool_create(device(index), &handle), "creating a memory pool");
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.pools[++t.last] = {index, handle};
  return {0, t.last};
}

void destroy_pool(PoolId id) {
  presil_pool* handle = nullptr;
  {
    Table& t = table();
    std::lock_guard<std::mutex> lock(t.mutex);
    const auto it = t.pools.find(id.second);
    if (it == t.pools.end()) return;
    handle = it->second.handle;
    for (Current& current : tls_pool)
      if (current.id == id.second) current = {};
    t.pools.erase(it);
  }
  presil_pool_destroy(handle);
}

int pool_device(PoolId id) {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  const auto it = t.pools.find(id.second);
  return it == t.pools.end() ? -1 : it->second.index;
}

presil_pool* pool_of(PoolId id) {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  const auto it = t.pools.find(id.second);
  return it == t.pools.end() ? nullptr : it->second.handle;
}

PoolId pool_by_number(int index, uint32_t number) {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  for (const auto& [id, entry] : t.pools)
    if (number && entry.index == index && presil_pool_number(entry.handle) == number) return {0, id};
  return {0, 0};
}

PoolId current_pool(int index) noexcept { return {0, tls_pool[index].id}; }

PoolId exchange_pool(int index, PoolId id) {
  Current& current = tls_pool[checked_index(index)];
  const PoolId before{0, current.id};
  if (id == PoolId{0, 0}) {
    current = {};
    return before;
  }
  const int owner = pool_device(id);
  TORCH_CHECK_VALUE(owner >= 0, "presil: there is no memory pool {", id.first, ", ", id.second, "} (any more)");
  TORCH_CHECK_VALUE(owner == index, "presil: the memory pool is of presil:", owner, ", not of presil:", index);
  current = {id.second, pool_of(id)};
  return before;
}

presil_pool* current_pool_handle(int index) noexcept { return tls_pool[index].handle; }

}  // namespace presil
