// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_pool.h"

#include "runtime/device.h"

#include <map>
#include <mutex>
#include <set>

namespace presil {
namespace {

struct Pools {
  std::mutex mutex;
  std::map<PoolId, std::weak_ptr<GraphPool>> known;  // by id; empty: handed out, not used yet
  std::set<std::pair<int, uint32_t>> numbers;        // device, driver's number
  uint64_t last = 0;
};
Pools& pools() {
  static auto* p = new Pools;
  return *p;
}

}  // namespace

PoolId GraphPool::new_id() {
  auto& p = pools();
  std::lock_guard<std::mutex> lock(p.mutex);
  const PoolId id{++p.last, 0};  // as torch.cuda's of graphs; those of MemPool are {0, n}
  p.known[id] = {};
  return id;
}

std::shared_ptr<GraphPool> GraphPool::get(int index, PoolId id) {
  if (id == PoolId{0, 0}) id = new_id();
  auto& p = pools();
  {
    std::lock_guard<std::mutex> lock(p.mutex);
    const auto it = p.known.find(id);
    TORCH_CHECK_VALUE(it != p.known.end(), "presil: there is no graph's memory pool (", id.first, ", ", id.second,
                      "): pass torch.presil.graph_pool_handle() or graph.pool()");
    if (auto existing = it->second.lock()) {
      TORCH_CHECK_VALUE(existing->index_ == index, "presil: the graph's memory pool is on presil:", existing->index_,
                        ", the capture on presil:", index);
      return existing;
    }
  }
  std::shared_ptr<GraphPool> created(new GraphPool(index, id));
  std::lock_guard<std::mutex> lock(p.mutex);
  p.known[id] = created;
  p.numbers.emplace(index, created->number_);
  return created;
}

GraphPool::GraphPool(int index, PoolId id) : index_(index), id_(id) {
  check(presil_pool_create(device(index), &handle_), "creating a graph's memory pool");
  presil_pool_keep(handle_, 1);
  number_ = presil_pool_number(handle_);
}

GraphPool::~GraphPool() {
  auto& p = pools();
  std::lock_guard<std::mutex> lock(p.mutex);
  p.numbers.erase({index_, number_});
  presil_pool_destroy(handle_);
}

GraphPool::Owner GraphPool::owner(const void* block) const {
  presil_daddr address{};
  uint32_t number = 0;
  if (!block || !presil_device_address(device(index_), block, &address) ||
      !presil_memory_pool_of(device(index_), address, &number))
    return Owner::none;
  if (number == number_) return Owner::ours;
  auto& p = pools();
  std::lock_guard<std::mutex> lock(p.mutex);
  return p.numbers.count({index_, number}) ? Owner::others : Owner::none;
}

}  // namespace presil
