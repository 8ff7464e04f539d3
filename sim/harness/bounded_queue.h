// SPDX-License-Identifier: Apache-2.0
// A queue of at most N entries in place. The caller keeps count() within N.
#pragma once
#include <cstdint>

namespace presil {

template <class T, unsigned N> class Ring {
  static_assert((N & (N - 1)) == 0, "a power of two");

 public:
  unsigned count() const { return tail_ - head_; }
  T& front() { return entries_[head_ % N]; }
  T& back() { return entries_[(tail_ - 1) % N]; }
  T& at(unsigned i) { return entries_[(head_ + i) % N]; }  // 0: the front
  void push(const T& entry) { entries_[tail_++ % N] = entry; }
  void pop() { head_++; }
  void erase(unsigned i) {
    for (; i; i--) at(i) = at(i - 1);
    head_++;
  }
  void clear() { head_ = tail_ = 0; }

 private:
  uint32_t head_ = 0, tail_ = 0;  // free-running
  T entries_[N];
};

}  // namespace presil
