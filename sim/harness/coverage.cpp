// SPDX-License-Identifier: Apache-2.0
#include "coverage.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace presil {

namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 64, kIdBytes = 32;
constexpr unsigned kMostFiles = 1000000;

bool write_all(int file, const void* from, size_t bytes, uint64_t at) noexcept {
  const char* p = static_cast<const char*>(from);
  while (bytes) {
    const ssize_t n = pwrite(file, p, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    at += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::string cannot(const std::string& path) { return "coverage: " + path + " can't be written: " + strerror(errno); }

}  // namespace

Coverage::~Coverage() {
  if (file_ >= 0) close(file_);
}

bool Coverage::open(const std::string& prefix, const CoveragePoints& points, bool launches, std::string* error) {
  if (!points.count) return true;
  if (!write_points(prefix + ".points-" + points.id, points, error)) return false;
  std::string path;
  for (unsigned i = 1; file_ < 0 && i < kMostFiles; i++) {
    path = prefix + "." + std::to_string(i);
    file_ = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) break;
  }
  uint8_t header[kHeaderBytes] = "PRESILCV";
  memcpy(header + 8, &kVersion, 4);
  memcpy(header + 12, &points.count, 4);
  memcpy(header + 16, points.id, kIdBytes);
  launches_ = launches;
  counts_.assign(points.count, 0);
  record_.assign(8 + (points.count + 7) / 8, 0);
  if (file_ >= 0 && put(header, sizeof header, 0) && put(counts_.data(), 4 * counts_.size(), kHeaderBytes)) return true;
  *error = cannot(path);
  return false;
}

// Whole or not at all, whoever else writes it.
bool Coverage::write_points(const std::string& path, const CoveragePoints& points, std::string* error) {
  if (access(path.c_str(), R_OK) == 0) return true;
  const std::string part = path + "." + std::to_string(getpid());
  const int file = ::open(part.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  bool good = file >= 0 && write_all(file, points.text, points.bytes, 0);
  if (file >= 0) good = close(file) == 0 && good;
  if (good && rename(part.c_str(), path.c_str()) == 0) return true;
  *error = cannot(path);
  unlink(part.c_str());
  return false;
}

bool Coverage::put(const void* from, size_t bytes, uint64_t at) noexcept {
  if (!write_all(file_, from, bytes, at)) failed_ = true;
  return !failed_;
}

void Coverage::launch() noexcept {
  launch_++;
  std::fill(record_.begin(), record_.end(), uint8_t{0});
}

void Coverage::collect(uint32_t* counters) noexcept {
  if (file_ < 0 || failed_) return;
  for (size_t i = 0; i < counts_.size(); i++) {
    const uint32_t n = counters[i];
    if (!n) continue;
    counts_[i] = counts_[i] > UINT32_MAX - n ? UINT32_MAX : counts_[i] + n;
    record_[8 + i / 8] = static_cast<uint8_t>(record_[8 + i / 8] | 1u << i % 8);
    counters[i] = 0;
  }
  if (!put(counts_.data(), 4 * counts_.size(), kHeaderBytes) || !launches_ || !launch_) return;
  memcpy(record_.data(), &launch_, 8);
  put(record_.data(), record_.size(), kHeaderBytes + 4 * counts_.size() + (launch_ - 1) * record_.size());
}

}  // namespace presil
