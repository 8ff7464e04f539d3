// SPDX-License-Identifier: Apache-2.0
#include "write_log.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace presil {

WriteLog::~WriteLog() { stop(); }

void WriteLog::start(uint64_t bytes) {
  stop();
  const uint64_t chunks = (bytes + kChunk - 1) / kChunk;
  touched_.assign(chunks, 0);
  mapped_ = chunks * (kChunk / 8);
  void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  bits_ = static_cast<uint64_t*>(p);
}

void WriteLog::stop() {
  if (bits_) munmap(bits_, mapped_);
  bits_ = nullptr;
  touched_.clear();
  chunks_.clear();
  journal_ = {};
  epochs_.clear();
  armed_ = taken_ = false;
}

void WriteLog::launches() {
  if (!on()) return;
  if (taken_) {
    journal_.clear();
    epochs_.clear();
    taken_ = false;
  }
  epochs_.push_back(0);
  armed_ = true;
}

void WriteLog::enter(uint64_t offset, uint64_t mask, uint64_t now) {
  if (journal_.size() == kMostEntries) return;
  if (epochs_.empty()) epochs_.push_back(0);
  journal_.push_back({offset, mask, now, 1, 0, static_cast<uint32_t>(epochs_.size() - 1)});
}

bool WriteLog::times(uint64_t offset, presil_write_time* out) const {
  bool found = false;
  for (const Entry& e : journal_) {
    // Of the beats only one can have the byte: they are at least as far apart as a mask is wide, or one.
    if (offset < e.offset) continue;
    const uint64_t beat = e.step ? std::min<uint64_t>((offset - e.offset) / e.step, e.beats - 1) : 0;
    const uint64_t at = offset - e.offset - beat * e.step;
    if (at >= 64 || !(e.mask >> at & 1)) continue;
    const uint64_t epoch = epochs_[e.launch], cycle = e.cycle + beat;
    out->last_cycle = cycle > epoch ? cycle - epoch : 0;
    out->last_launch = e.launch;
    if (found) continue;
    found = true;
    out->first_cycle = out->last_cycle;
    out->first_launch = out->last_launch;
  }
  // What came when the journal was full is not in it: a last time would be a guess.
  return found && journal_.size() < kMostEntries;
}

void WriteLog::touch(uint64_t chunk) {
  touched_[chunk] = 1;
  chunks_.push_back(chunk);
}

namespace {
// Appends [from, to), or extends the last range by it.
void append(std::vector<presil_write_range>* out, uint64_t from, uint64_t to) {
  if (!out->empty() && out->back().base.value + out->back().bytes == from) {
    out->back().bytes += to - from;
  } else {
    out->push_back({{from}, to - from});
  }
}

void append_word(std::vector<presil_write_range>* out, uint64_t address, uint64_t word) {
  for (unsigned at = 0; word;) {
    const unsigned skip = static_cast<unsigned>(__builtin_ctzll(word));
    word >>= skip;
    const unsigned run = ~word ? static_cast<unsigned>(__builtin_ctzll(~word)) : 64;
    append(out, address + at + skip, address + at + skip + run);
    at += skip + run;
    word = run == 64 ? 0 : word >> run;
  }
}
}  // namespace

void WriteLog::take(uint64_t base, std::vector<presil_write_range>* out) {
  out->clear();
  std::sort(chunks_.begin(), chunks_.end());
  for (const uint64_t chunk : chunks_) {
    uint64_t* words = bits_ + chunk * (kChunk / 64);
    for (uint64_t i = 0; i < kChunk / 64; i++) {
      if (words[i]) append_word(out, base + chunk * kChunk + i * 64, words[i]);
    }
    memset(words, 0, kChunk / 8);
    touched_[chunk] = 0;
  }
  chunks_.clear();
  taken_ = true;
}

}  // namespace presil
