// SPDX-License-Identifier: Apache-2.0
// Whether the bytes of some tensors are still those that were read. Writes are heard of (runtime/writes.h), by bytes,
// so that it is the same through which tensor, storage or alias they go. Bytes that were handed to a stranger
// (expose) may be written unheard: of those a copy is kept and compared.
#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <vector>

namespace presil {

class Watch {
 public:
  // From here on: read the bytes after it. Undefined tensors are left out. It does not keep the memory: when that is
  // given back, the watch is stale.
  explicit Watch(c10::ArrayRef<const at::Tensor*> tensors);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Nothing was written since construction, or the last renew(), as far as was heard. Any thread.
  bool unwritten() const { return !written_.load(std::memory_order_acquire); }
  // The bytes are those. Not while another thread renews.
  bool current();
  void renew();  // from here on, anew

 private:
  friend class Watches;
  struct Range {
    const char* begin;
    size_t bytes;
    std::vector<char> copy;  // of exposed bytes
  };
  void note_written();

  std::vector<Range> ranges_;
  std::atomic<bool> written_{false}, exposed_{false};
};

// The memory is in a stranger's hands from now until it is given back.
void expose(const void* begin, size_t bytes);
void expose(const at::Tensor& t);  // all of its storage

// Grows when a watch becomes stale.
uint64_t watch_epoch() noexcept;
// How many watches have to be compared: their bytes are exposed.
size_t compared_watches() noexcept;

}  // namespace presil
