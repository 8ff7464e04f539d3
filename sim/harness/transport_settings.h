// SPDX-License-Identifier: Apache-2.0
// "key=value,key=value" strings: the memory model's parameters, the transport's options and fault injection.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "dram_timing.h"
#include "pressure.h"

namespace presil {

// Parameters of the memory behind the AXI port; exact meaning in docs/simulation.md.
struct MemorySettings {
  uint64_t latency = 100;            // cycles from the AR handshake to the earliest handshake of its first R beat, >= 1
  uint64_t response = 40;            // cycles from the handshake of the last W beat to the earliest B handshake, >= 1
  uint64_t bytes = 0;                // bytes a cycle, reads and writes together; 0: no limit
  uint64_t bursts = 256;             // bursts that wait or move, in each direction, 1 to 256
  uint32_t stall = 0;                // chance, in 4096ths, that a channel is held up in a cycle
  Profile pressure[kChannels] = {};  // of each channel, besides
  bool commit_at_b = false;          // writes become visible at the B handshake, reads are of the AR handshake
  bool reorder = false;              // bursts of different IDs are answered in any order
  bool interleave = false;           // and their read data are mixed
  DramSettings dram;                 // what is behind latency and response; off: nothing
};

// text: NULL or "default", "ideal", a DRAM's name, or a list of parameters, which may start with one of these names.
// word: bytes of a bus beat. Returns true and sets out, or false and sets error (and leaves out alone).
bool parse_memory_settings(const char* text, unsigned word, MemorySettings* out, std::string* error);
// Of all of them, however they were written.
std::string memory_text(const MemorySettings& settings);

// Options of this transport: "map=0" (regions have no host pointer), "monitor=0|1" (the chip's bus handshakes are
// looked at: axi_monitor.h), "coverage_launches=1" (also which launch reached what), "coverage=PATH" (builds with
// coverage write to the first of PATH.1, PATH.2, ... that there is not: coverage.h; the last option: it takes the
// commas too).
struct TransportSettings {
  bool map = true;
  std::optional<bool> monitor;  // none: as the build has it, on in check
  std::string coverage;
  bool coverage_launches = false;
};
bool parse_transport_settings(const char* text, TransportSettings* out, std::string* error);

// One injected fault, as docs/simulation.md names them; numbers as in C.
struct Fault {
  enum Kind {
    kSlverr,  // value: an address
    kDecerr,
    kReadSlverr,  // value: a beat of the launch, from 0
    kReadDecerr,
    kWriteSlverr,
    kWriteDecerr,
    kFatal,  // value: a cycle of the launch
    kStop,
    kUpset,
    kSlow,  // value: ns a cycle
    kLate,  // value: cycles by which the interrupt is late; 0: it never comes
    kFlip,  // value: a bit of the memory
  } kind;
  uint64_t value;
  char name[64];  // kUpset: part of the name of what is upset
  static constexpr uint64_t kAnyBit = UINT64_MAX;
  uint64_t bit;  // kUpset: of the first that has the name, or kAnyBit of any

  bool on_bus() const { return kind <= kWriteDecerr; }
  bool of_beat() const { return kind >= kReadSlverr && kind <= kWriteDecerr; }
  bool of_cycle() const { return kind >= kFatal && kind <= kUpset; }
};
inline constexpr size_t kMaxFaults = 8;

// A comma-separated list of at most kMaxFaults; returns false and sets error on a bad one.
bool parse_faults(const char* text, Fault* out, size_t* count, std::string* error);

}  // namespace presil
