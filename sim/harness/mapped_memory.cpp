// SPDX-License-Identifier: Apache-2.0
#include "mapped_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace presil {

DeviceMemory::~DeviceMemory() {
  if (host_) munmap(host_, bytes_);
}

bool DeviceMemory::open(int fd, uint64_t base, uint64_t bytes, std::string* error) {
  if (!bytes || bytes % 4096 || base % 4096 || base + bytes < base) {
    *error = "memory: base and size must be multiples of 4096, the size above 0 and the end below 2^64";
    return false;
  }
  struct stat status;
  if (fd >= 0 && (fstat(fd, &status) || static_cast<uint64_t>(status.st_size) < bytes)) {
    *error = "memory: memory_fd must be an open file of at least memory_bytes";
    return false;
  }
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) {
    *error = std::string("memory: mmap: ") + strerror(errno);
    return false;
  }
  base_ = base;
  bytes_ = bytes;
  host_ = static_cast<uint8_t*>(p);
  return true;
}

}  // namespace presil
