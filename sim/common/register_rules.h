// SPDX-License-Identifier: Apache-2.0
// What every kind of simulation agrees on about registers, resets and addresses: the limits, and how a breach of them
// is told.
#pragma once
#include <cinttypes>
#include <cstdio>
#include <string>

namespace presil {

constexpr unsigned kResetCycles = 8;         // the reset pin is held so long; then so long again nothing is asked
constexpr unsigned kRegisterTimeout = 1000;  // cycles until an access is given up
constexpr uint32_t kRegisterBytes = 0x1000;  // where no port map says otherwise

inline std::string hex(uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

// registers: bytes of them.
inline bool register_exists(uint32_t offset, uint32_t registers) { return offset % 4 == 0 && offset < registers; }

// call: "read32", "write32".
inline std::string no_such_register(const char* call, uint32_t offset, uint32_t registers) {
  return std::string(call) + ": offset " + hex(offset) + " is not a multiple of 4 below " + hex(registers);
}

constexpr int kUnclear = -2;  // of a response that came through TLM: an error, or none

// what: "read", "write". response: of the bus, not okay; -1: none within kRegisterTimeout.
inline std::string register_failed(const char* what, uint32_t offset, int response) {
  return std::string(what) + " of register " + hex(offset) +
         (response == kUnclear ? ": answered with an error, or not at all"
          : response < 0       ? ": no answer"
          : response == 3      ? ": answered DECERR"
                               : ": answered SLVERR");
}

inline std::string outside_memory(const char* call, uint64_t address, uint64_t bytes, uint64_t base, uint64_t size) {
  return std::string(call) + ": " + std::to_string(bytes) + " bytes at " + hex(address) + " are outside the memory, " +
         hex(base) + " to " + hex(base + size);
}

}  // namespace presil
