// SPDX-License-Identifier: Apache-2.0
// What a platform is told, without SystemC: for who reads it from a file.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace presil {

class Chip;
class Clock;

struct TrafficSettings {
  uint32_t load = 0;    // percent of the bus cycles in which it wants to move a beat, 0 to 100
  uint32_t burst = 16;  // beats
  uint32_t reads = 50;  // percent of the bursts
  uint64_t seed = 1;
  uint64_t bytes = 1 << 20;  // of the window in which it works, from the start of the memory; a multiple of 4096
};

constexpr uint64_t kBehind = UINT64_MAX;  // right behind the chip's registers

struct PlatformSettings {
  std::function<Chip*(const char* name, Clock& clock, uint64_t seed, std::string* error)> make;  // ChipMaker
  std::string build;                                                                             // for info()
  uint32_t clock_mhz = 1000;                                                                     // of the chip
  uint32_t bus_mhz = 0;           // of bus and memory; 0: the chip's clock
  uint64_t seed = 0;              // of the model's start values
  uint64_t registers = 0x0;       // addresses on the register bus: the chip's registers,
  uint64_t interrupts = kBehind;  // and the interrupt controller's
  uint32_t quantum_ns = 1000;     // of a loosely timed chip (build twin): how far time may be run ahead
  bool check = false;             // a protocol checker on every socket; check builds have them anyway
  TrafficSettings traffic;
};

}  // namespace presil
