// SPDX-License-Identifier: Apache-2.0
// What a model's coverage counters saw, in a file: docs/coverage.md has its format. Verilator's own writer is not
// used: it would throw through whoever ends a model, and knows nothing of launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace presil {

// The counters' names: a text as sim/coverage_points.py writes it, and its hash (32 letters).
struct CoveragePoints {
  uint32_t count;
  const char* id;
  const char* text;
  size_t bytes;
};

class Coverage {
 public:
  Coverage() = default;
  ~Coverage();
  Coverage(const Coverage&) = delete;
  Coverage& operator=(const Coverage&) = delete;

  // Begins a file of its own, the first of PREFIX.1, PREFIX.2, ... that there is not, and PREFIX.points-ID beside it.
  // launches: also which launch reached what. False, with a text: it can't be written.
  bool open(const std::string& prefix, const CoveragePoints& points, bool launches, std::string* error);
  // From now on it is the next launch.
  void launch() noexcept;
  // Takes the counts, and leaves zeros. What it has taken is in the file when it returns, however the process ends.
  void collect(uint32_t* counters) noexcept;
  // Whether a write failed (a full disk): the file ends with what was in it before.
  bool failed() const noexcept { return failed_; }

 private:
  bool write_points(const std::string& path, const CoveragePoints& points, std::string* error);
  bool put(const void* from, size_t bytes, uint64_t at) noexcept;

  int file_ = -1;
  bool launches_ = false, failed_ = false;
  uint64_t launch_ = 0;  // 0: before the first
  std::vector<uint32_t> counts_;
  std::vector<uint8_t> record_;  // number, then a bit a counter
};

}  // namespace presil
