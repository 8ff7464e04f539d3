// SPDX-License-Identifier: Apache-2.0
#include "weights/watch.h"
#include "runtime/writes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace presil {
namespace {

std::atomic<uint64_t> epoch{0};
std::atomic<size_t> compared{0};

struct Extent {
  const char* begin;
  size_t bytes;
};

// From the first to the last byte of its elements.
Extent extent_of(const at::Tensor& t) {
  const auto* start = static_cast<const char*>(t.storage().data());
  if (!start || t.numel() == 0) return {nullptr, 0};
  size_t last = 0;
  for (int64_t d = 0; d < t.dim(); d++) last += static_cast<size_t>((t.size(d) - 1) * t.stride(d));
  return {start + static_cast<size_t>(t.storage_offset()) * t.element_size(), (last + 1) * t.element_size()};
}

}  // namespace

// All watches, by address: disjoint regions, each with the watches that have a range in it. Regions that a new range
// overlaps become one.
class Watches {
 public:
  static Watches& all() {
    static auto* w = new Watches;  // never destroyed: tensors may be freed after static destruction
    return *w;
  }

  void add(Watch* watch) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& range : watch->ranges_) {
      auto begin = address(range.begin), end = begin + range.bytes;
      std::vector<Watch*> inside{watch};
      for (auto it = first(begin); it != regions_.end() && it->first < end; it = regions_.erase(it)) {
        begin = std::min(begin, it->first);
        end = std::max(end, it->second.end);
        for (auto* other : it->second.watches)
          if (std::find(inside.begin(), inside.end(), other) == inside.end()) inside.push_back(other);
      }
      regions_.emplace(begin, Region{end, std::move(inside)});
    }
    listen();
    note_exposed(watch);
  }

  void remove(Watch* watch) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& range : watch->ranges_) {
      for (auto it = first(address(range.begin));
           it != regions_.end() && it->first < address(range.begin) + range.bytes;) {
        auto& list = it->second.watches;
        list.erase(std::remove(list.begin(), list.end(), watch), list.end());
        it = list.empty() ? regions_.erase(it) : std::next(it);
      }
    }
    if (watch->exposed_) compared--;
    listen();
  }

  void renew(Watch* watch) {
    std::lock_guard<std::mutex> lock(mutex_);
    watch->written_ = false;
    note_exposed(watch);
  }

  void written(const void* at, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    mark(address(at), address(at) + bytes);
  }

  void given_back(const void* at, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto begin = address(at), end = begin + bytes;
    mark(begin, end);
    for (auto it = exposed_.lower_bound(begin); it != exposed_.end() && it->first < end;) it = exposed_.erase(it);
    listen();
  }

  // What was packed of them is packed again: then with a copy to compare with.
  void expose(const void* at, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto begin = address(at), end = begin + bytes;
    auto& known = exposed_[begin];
    if (known >= end) return;
    known = end;
    mark(begin, end);
    listen();
  }

 private:
  using Address = uintptr_t;
  struct Region {
    Address end;
    std::vector<Watch*> watches;
  };
  static Address address(const void* p) { return reinterpret_cast<Address>(p); }

  // The first region that ends behind `begin`.
  std::map<Address, Region>::iterator first(Address begin) {
    auto it = regions_.upper_bound(begin);
    if (it != regions_.begin() && std::prev(it)->second.end > begin) --it;
    return it;
  }

  void mark(Address begin, Address end) {
    for (auto it = first(begin); it != regions_.end() && it->first < end; ++it)
      for (auto* watch : it->second.watches)
        for (const auto& range : watch->ranges_)
          if (address(range.begin) < end && begin < address(range.begin) + range.bytes) watch->note_written();
  }

  void note_exposed(Watch* watch) {
    bool any = false;
    for (auto& range : watch->ranges_) {
      const auto begin = address(range.begin), end = begin + range.bytes;
      const bool exposed = std::any_of(exposed_.begin(), exposed_.end(),
                                       [&](const auto& e) { return e.first < end && begin < e.second; });
      if (exposed)
        range.copy.assign(range.begin, range.begin + range.bytes);
      else
        range.copy.clear();
      any |= exposed;
    }
    if (any != watch->exposed_) compared += any ? 1 : -1;
    watch->exposed_ = any;
  }

  void listen();

  std::mutex mutex_;
  std::map<Address, Region> regions_;
  std::map<Address, Address> exposed_;  // begin, end
};

namespace {
void hear(const void* begin, size_t bytes, bool given_back) {
  if (!begin || !bytes) return;
  if (given_back)
    Watches::all().given_back(begin, bytes);
  else
    Watches::all().written(begin, bytes);
}
}  // namespace

void Watches::listen() { write_listener = regions_.empty() && exposed_.empty() ? nullptr : &hear; }

void Watch::note_written() {
  if (!written_.exchange(true, std::memory_order_acq_rel)) epoch++;
}

Watch::Watch(c10::ArrayRef<const at::Tensor*> tensors) {
  for (const auto* t : tensors) {
    if (!t->defined()) continue;
    const Extent extent = extent_of(*t);
    if (extent.bytes) ranges_.push_back({extent.begin, extent.bytes, {}});
  }
  Watches::all().add(this);
}
Watch::~Watch() { Watches::all().remove(this); }

bool Watch::current() {
  if (!unwritten()) return false;
  if (C10_LIKELY(!exposed_.load(std::memory_order_relaxed))) return true;
  for (const auto& range : ranges_)
    if (!range.copy.empty() && memcmp(range.begin, range.copy.data(), range.bytes) != 0) {
      note_written();
      return false;
    }
  return true;
}
void Watch::renew() { Watches::all().renew(this); }

void expose(const void* begin, size_t bytes) {
  if (!begin || !bytes) return;
  memory_exposed = true;
  Watches::all().expose(begin, bytes);
}
void expose(const at::Tensor& t) {
  if (t.defined() && t.has_storage()) expose(t.storage().data(), t.storage().nbytes());
}

uint64_t watch_epoch() noexcept { return epoch.load(std::memory_order_acquire); }
size_t compared_watches() noexcept { return compared.load(std::memory_order_relaxed); }

}  // namespace presil
