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
}

}  // namespace presil
