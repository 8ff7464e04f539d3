// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: the value depends on (key, counter) alone, so a cycle's stalls don't depend on what was
// drawn before.
#pragma once
#include <cstdint>

namespace presil {

// The finaliser of splitmix64: a bijection of 64 bits with good avalanche.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t random64(uint64_t key, uint64_t counter) { return mix64(key + counter * 0x9e3779b97f4a7c15u); }

}  // namespace presil
