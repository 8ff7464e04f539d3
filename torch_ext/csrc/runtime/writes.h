// SPDX-License-Identifier: Apache-2.0
// "Memory was written": whoever writes device memory says so once the write is done, or enqueued; giving memory back
// counts as a write. Who keeps something made of these bytes (packed weights) listens.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>

namespace presil {

// Hears of every write while it is set; host pointers into device memory. freed: the block is about to be given back.
// On any thread, with any lock held: must be short, must not free device memory or raise. One in the process; null:
// nobody.
using WriteListener = void (*)(const void* begin, size_t bytes, bool freed);
extern std::atomic<WriteListener> write_listener;

// Some memory is in a stranger's hands, who may look at it whenever the device is idle. It stays so.
extern std::atomic<bool> memory_exposed;

inline void memory_written(const void* begin, size_t bytes) {
  // Either the listener's owner, who set it before it read the bytes, finds what was written, or this finds it set.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (auto* listener = write_listener.load(std::memory_order_relaxed); C10_UNLIKELY(listener != nullptr))
    listener(begin, bytes, false);
}
inline void memory_written(const at::Tensor& t) {
  if (t.defined() && t.has_storage()) memory_written(t.storage().data(), t.storage().nbytes());
}

// Writes that are announced when this goes, whether the writer returned or raised.
class AnnouncedWrites {
 public:
  AnnouncedWrites() = default;
  explicit AnnouncedWrites(const at::Tensor& t) { add(t); }
  ~AnnouncedWrites() {
    for (const auto& [begin, bytes] : ranges_) memory_written(begin, bytes);
  }
  AnnouncedWrites(const AnnouncedWrites&) = delete;
  AnnouncedWrites& operator=(const AnnouncedWrites&) = delete;

  // The memory that it has now: what replaces it during the write is new to everybody.
  void add(const at::Tensor& t) {
    if (t.defined() && t.has_storage()) ranges_.emplace_back(t.storage().data(), t.storage().nbytes());
  }

 private:
  c10::SmallVector<std::pair<const void*, size_t>, 4> ranges_;
};

}  // namespace presil
