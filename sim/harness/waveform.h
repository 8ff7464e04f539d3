// SPDX-License-Identifier: Apache-2.0
// A window of cycles of a verilated model, written to an FST. Cycle c is at time 1000 c, what is seen half a period
// later at 1000 c + 500.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "verilated_fst_c.h"

namespace presil {

[[noreturn]] void trace_failed(const char* what);  // what Verilator's writer calls (fst_checks.h); throws Stopped

class Waveform {
 public:
  static constexpr uint64_t kHalfPeriod = 500;

  // Cycles first to last, both counted as in dump(). False: the file can't be made. Ends the one before (and may throw
  // as end() does).
  template <class Model> bool start(Model& model, const std::string& path, uint64_t first, uint64_t last) {
    end();
    if (!can_write(path)) return false;
    if (!writer_) {
      writer_ = std::make_unique<VerilatedFstC>();
      model.trace(writer_.get(), 99);
    }
    path_ = path;
    first_ = first;
    cycles_ = last - first + 1 ? last - first + 1 : UINT64_MAX;
    return true;
  }

  // phase: 0 or kHalfPeriod. Throws Stopped where it can't be written.
  void dump(uint64_t cycle, uint64_t phase) {
    if (cycle - first_ < cycles_) write(cycle, phase);
  }
  void end();            // throws Stopped where the file is not whole
  void drop() noexcept;  // as end(), on the way out

  // The model is about to go.
  void detach() {
    drop();
    writer_.reset();
  }

 private:
  static bool can_write(const std::string& path);
  void write(uint64_t cycle, uint64_t phase);
  [[noreturn]] void fail(const char* why);

  std::unique_ptr<VerilatedFstC> writer_;
  std::string path_;
  uint64_t first_ = 0, cycles_ = 0;
};

}  // namespace presil
