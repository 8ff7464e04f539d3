// SPDX-License-Identifier: Apache-2.0
#include "waveform.h"

#include <cstdio>

#include "stopped.h"

namespace presil {

namespace {

// An FST is blocks of a type, a length (8 bytes, the first is the highest) that counts itself, and contents; the first
// block is the header, written last. The writer does not look whether its stream failed.
bool is_whole(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return false;
  std::fseek(file, 0, SEEK_END);
  const long size = std::ftell(file);
  long at = 0;
  unsigned char head[9];
  bool good = size > 0;
  while (good && at < size) {
    std::fseek(file, at, SEEK_SET);
    good = std::fread(head, 1, sizeof head, file) == sizeof head && head[0] != 255;
    uint64_t length = 0;
    for (int i = 1; i < 9; i++) length = length << 8 | head[i];
    good = good && length >= 8 && length <= static_cast<uint64_t>(size - at - 1);
    at += 1 + static_cast<long>(length);
  }
  std::fclose(file);
  return good;
}

}  // namespace

void trace_failed(const char* what) { throw Stopped(std::string("the writer of waveforms failed (") + what + ")"); }

// An early answer: the writer itself opens the file when the window begins.
bool Waveform::can_write(const std::string& path) {
  std::FILE* probe = std::fopen(path.c_str(), "wb");
  if (probe) std::fclose(probe);
  return probe != nullptr;
}

void Waveform::write(uint64_t cycle, uint64_t phase) {
  try {
    if (!writer_->isOpen()) writer_->open(path_.c_str());
    writer_->dump(cycle * 2 * kHalfPeriod + phase);
  } catch (const Stopped& stop) {
    fail(stop.what());
  }
  if (phase && cycle - first_ == cycles_ - 1) end();
}

void Waveform::end() {
  cycles_ = 0;
  if (!writer_ || !writer_->isOpen()) return;
  try {
    writer_->close();
  } catch (const Stopped& stop) {
    fail(stop.what());
  }
  if (!is_whole(path_)) fail("its end is missing");
}

// The writer can't be used any more, not even destroyed: that writes too.
void Waveform::fail(const char* why) {
  cycles_ = 0;
  (void)writer_.release();
  throw Stopped("the waveform " + path_ + " can't be written: is the disk full? " + why);
}

void Waveform::drop() noexcept {
  try {
    end();
  } catch (const Stopped&) {
    // it was on the way out anyway
  }
}

}  // namespace presil
