// SPDX-License-Identifier: Apache-2.0
// Copies of pages, for a memory in which a write is visible when its response has been taken, and no earlier: what a
// burst has written so far, what a burst reads. No burst crosses a page.
#pragma once
#include <cstdint>
#include <vector>

#include "axi_burst.h"

namespace presil {

class Shadow {
 public:
  static constexpr uint16_t kNone = UINT16_MAX;

  struct Page {
    uint64_t address;                // of its first byte
    uint64_t mask[kPageBytes / 64];  // a bit a byte: it is there
    uint8_t data[kPageBytes];
  };

  // count: pages, below kNone.
  explicit Shadow(unsigned count) : pages_(count) {
    free_.reserve(count);
    take_all_back();
  }

  // One of those that nobody has, without bytes. The caller asks for no more than there are.
  uint16_t take(uint64_t address) {
    const uint16_t index = free_.back();
    free_.pop_back();
    pages_[index].address = address & ~uint64_t{kPageBytes - 1};
    for (uint64_t& word : pages_[index].mask) word = 0;
    return index;
  }
  void give_back(uint16_t index) { free_.push_back(index); }
  void take_all_back() {
    free_.clear();
    for (unsigned i = 0; i < pages_.size(); i++) free_.push_back(static_cast<uint16_t>(i));
  }
  Page& at(uint16_t index) { return pages_[index]; }

 private:
  std::vector<Page> pages_;
  std::vector<uint16_t> free_;
};

}  // namespace presil
