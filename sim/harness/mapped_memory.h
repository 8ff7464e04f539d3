// SPDX-License-Identifier: Apache-2.0
// The device's DRAM: a mapping of the caller's memfd, or of one of our own.
#pragma once
#include <cstdint>
#include <string>

namespace presil {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // fd -1: anonymous memory. Returns false and sets error.
  bool open(int fd, uint64_t base, uint64_t bytes, std::string* error);

  uint64_t base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  uint8_t* host() const { return host_; }
  // Host address of [address, address + bytes), or nullptr where it isn't all inside.
  uint8_t* at(uint64_t address, uint64_t bytes) const {
    return address >= base_ && address - base_ <= bytes_ && bytes <= bytes_ - (address - base_)
               ? host_ + (address - base_)
               : nullptr;
  }

 private:
  uint64_t base_ = 0, bytes_ = 0;
  uint8_t* host_ = nullptr;
};

}  // namespace presil
