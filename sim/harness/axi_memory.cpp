// SPDX-License-Identifier: Apache-2.0
// What happens once a launch, in faults, or to bursts and settings that are rare; the rest is in the header, to be
// inlined into the clock loop.
#include "axi_memory.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "counter_random.h"
#include "stopped.h"

namespace presil {

namespace {

constexpr uint64_t kOrderSalt = 99, kReadSalt = 1, kAnswerSalt = 2;

// Whether an older entry has the ID of entry i.
template <class Queue> bool waits_behind(Queue& queue, unsigned i) {
  for (unsigned older = 0; older < i; older++) {
    if (queue.at(older).id == queue.at(i).id) return true;
  }
  return false;
}

// The n-th of the entries that may be next: ready, and the oldest of their ID. Their number if there is none.
template <class Queue> unsigned pick(Queue& queue, uint64_t now, uint64_t draw) {
  uint64_t seen[4] = {};  // IDs modulo 256: most entries are the first of theirs, which is told without a search
  uint8_t free[256];
  unsigned count = 0;
  for (unsigned i = 0; i < queue.count(); i++) {
    uint64_t& word = seen[queue.at(i).id / 64 % 4];
    const uint64_t bit = uint64_t{1} << queue.at(i).id % 64;
    if (queue.at(i).ready <= now && !(word & bit && waits_behind(queue, i))) free[count++] = static_cast<uint8_t>(i);
    word |= bit;
  }
  return count ? free[draw % count] : queue.count();
}

}  // namespace

void AxiMemoryState::map(uint64_t base, uint8_t* host, uint64_t bytes) {
  base_ = base;
  host_ = host;
  bytes_ = bytes;
}

void AxiMemoryState::configure(const MemorySettings& settings, uint64_t seed) {
  std::unique_ptr<DramPort> dram;
  if (settings.dram.on())
    dram = std::make_unique<DramPort>(settings.dram, 2 * static_cast<unsigned>(settings.bursts) + 1);
  if (settings.commit_at_b && !shadow_) shadow_ = std::make_unique<Shadow>(2 * kRing + 1);
  if (!settings.commit_at_b) shadow_.reset();
  answered_ = Shadow::kNone;
  dram_ = std::move(dram);
  latency_ = settings.latency;
  response_ = settings.response;
  bursts_ = static_cast<unsigned>(settings.bursts);
  rate_ = settings.bytes ? settings.bytes : 2 * word_;
  credit_limit_ = rate_ + word_ - 1;
  free_order_ = settings.reorder || settings.interleave;
  interleave_ = settings.interleave;
  seed_ = seed;
  pressure_.configure(settings.stall, settings.pressure, seed);
}

void AxiMemoryState::set_faults(const Fault* faults, size_t count) {
  bus_fault_count_ = 0;
  for (size_t i = 0; i < count; i++) {
    if (faults[i].on_bus()) bus_faults_[bus_fault_count_++] = faults[i];
    if (faults[i].kind == Fault::kFlip && faults[i].value / 8 < bytes_)
      host_[faults[i].value / 8] ^= static_cast<uint8_t>(1u << faults[i].value % 8);
  }
}

void AxiMemoryState::start(uint64_t launch, uint64_t now) {
  credit_ = 0;
  read_last_ = false;
  pressure_.launch(launch, now);
  order_key_ = mix64(mix64(seed_ + mix64(launch + 1)) + kOrderSalt);
  launch_cycle_ = now;
  last_beat_ = now;
  if (dram_) dram_->launch(now);
  fault_ = {};
  beats_[0] = beats_[1] = 0;
  log_.launches();
}

void AxiMemoryState::forget() {
  reads_.clear();
  writes_.clear();
  answers_.clear();
  read_taken_ = answer_taken_ = false;
  answered_ = Shadow::kNone;
  if (shadow_) shadow_->take_all_back();
  if (dram_) dram_->forget();
}

bool AxiMemoryState::fault_near(uint64_t first, uint64_t bytes) const {
  for (size_t i = 0; i < bus_fault_count_; i++) {
    if (bus_faults_[i].of_beat() || bus_faults_[i].value - first < bytes) return true;
  }
  return false;
}

// What a fault answers to the beat, kOkay if it isn't its own. number: of the beat in the launch.
uint8_t AxiMemoryState::injected(const Fault& fault, uint64_t address, uint64_t bytes, bool is_write, uint64_t number) {
  const bool slverr =
      fault.kind == Fault::kSlverr || fault.kind == Fault::kReadSlverr || fault.kind == Fault::kWriteSlverr;
  const bool of_writes = fault.kind == Fault::kWriteSlverr || fault.kind == Fault::kWriteDecerr;
  const bool hit = fault.of_beat() ? of_writes == is_write && fault.value == number : fault.value - address < bytes;
  return !hit ? kOkay : slverr ? kSlverr : kDecerr;
}

uint8_t AxiMemoryState::check_beat(uint64_t address, uint64_t bytes, bool is_write, uint64_t now) {
  uint8_t response = inside(address) ? kOkay : kDecerr;
  const uint64_t number = beats_[is_write]++;
  for (size_t i = 0; i < bus_fault_count_ && response == kOkay; i++)
    response = injected(bus_faults_[i], address, bytes, is_write, number);
  if (response == kDecerr && !fault_.valid) fault_ = {1, is_write, {address}, now - launch_cycle_};
  return response;
}

void AxiMemoryState::store_strobed(uint8_t* to, const uint8_t* from, uint64_t mask) {
  const unsigned low = static_cast<unsigned>(__builtin_ctzll(mask));
  const uint64_t run = mask >> low;
  if ((run & (run + 1)) == 0) {  // one run of bytes, as in every burst of a contiguous store
    memcpy(to + low, from + low, static_cast<size_t>(__builtin_popcountll(mask)));
    return;
  }
  for (; mask; mask &= mask - 1) {
    const int i = __builtin_ctzll(mask);
    to[i] = from[i];
  }
}

unsigned AxiMemoryState::pick_read(uint64_t now) {
  if (!interleave_) {
    for (unsigned i = 0; i < reads_.count(); i++) {
      if (reads_.at(i).begun) return i;
    }
  }
  return pick(reads_, now, random64(order_key_ + kReadSalt, now - launch_cycle_));
}

unsigned AxiMemoryState::pick_answer(uint64_t now) {
  return pick(answers_, now, random64(order_key_ + kAnswerSalt, now - launch_cycle_));
}

// With a shadow a read has what is visible now, and a write a page to collect in.
void AxiMemoryState::prepare(Burst& b, bool is_write) {
  if (!shadow_) return;
  b.page = shadow_->take(b.shape.address);
  const uint64_t lowest = b.shape.lowest();
  if (is_write || !inside(lowest)) return;
  memcpy(shadow_->at(b.page).data + lowest % kPageBytes, host_ + (lowest - base_), b.shape.span());
}

uint8_t AxiMemoryState::read_odd_beat(Burst& b, uint8_t* data, uint64_t now) {
  const uint64_t address = b.shape.aligned();
  const unsigned bytes = b.shape.bytes(), lane = address % word_;
  const uint8_t response = check_beat(address, bytes, false, now);
  if (response == kOkay) {
    memset(data, kUnaskedLanes, word_);
    const uint8_t* from =
        b.page == Shadow::kNone ? host_ + (address - base_) : shadow_->at(b.page).data + address % kPageBytes;
    memcpy(data + lane, from, bytes);
  } else {
    memset(data, 0, word_);
  }
  b.shape.advance();
  return response;
}

void AxiMemoryState::write_odd_beat(Burst& b, const uint8_t* data, const uint8_t* strobes, uint64_t now) {
  const uint64_t address = b.shape.aligned();
  const unsigned first = b.shape.first_lane(word_), end = b.shape.end_lane(word_), lane = end - b.shape.bytes();
  const std::string wrong = describe_strobes(b.shape, strobes, word_);
  if (!wrong.empty()) throw Stopped(kChipBroke + wrong);
  const uint8_t response = check_beat(address, b.shape.bytes(), true, now);
  b.worst = std::max(b.worst, response);
  for (unsigned i = first; i < end && response == kOkay; i++) {
    if (!(strobes[i / 8] >> i % 8 & 1)) continue;
    const uint64_t at = address + (i - lane);
    if (b.page == Shadow::kNone) {
      host_[at - base_] = data[i];
      if (log_.on()) log_.add((at - base_) & ~uint64_t{63}, uint64_t{1} << at % 64, now);
    } else {
      Shadow::Page& page = shadow_->at(b.page);
      page.data[at % kPageBytes] = data[i];
      page.mask[at % kPageBytes / 64] |= uint64_t{1} << at % 64;
    }
  }
  b.shape.advance();
}

void AxiMemoryState::commit_answered(uint64_t now) {
  if (answered_ == Shadow::kNone) return;
  const Shadow::Page& page = shadow_->at(answered_);
  for (unsigned i = 0; i < kPageBytes / 64; i++) {
    const uint64_t offset = page.address - base_ + i * 64;
    if (!page.mask[i]) continue;
    store_strobed(host_ + offset, page.data + i * 64, page.mask[i]);
    if (log_.on()) log_.add(offset, page.mask[i], now);
  }
  shadow_->give_back(answered_);
  answered_ = Shadow::kNone;
}

uint64_t AxiMemoryState::ask_dram(Burst& b, uint64_t now) {
  ask_dram_later(b, now);
  return dram_->read(b.slot, now);
}

// Banks and rows are of the offset in the mapped memory, as commands are kept (the timing store).
void AxiMemoryState::ask_dram_later(Burst& b, uint64_t now) {
  BurstShape shape = b.shape;
  shape.address -= base_;
  b.slot = dram_->take(shape, now);
}

void AxiMemoryState::dram_beat(Burst& b) {
  if (b.left > 1) {
    b.ready = dram_->next(b.slot) + latency_;
  } else {
    dram_->give_back(b.slot);
  }
}

uint64_t AxiMemoryState::dram_wrote(const Burst& b, uint64_t now) {
  const uint64_t done = dram_->write(b.slot, now);
  dram_->give_back(b.slot);
  return done;
}

void AxiMemoryState::wrong_burst(const char* channel, const BurstShape& shape) const {
  throw Stopped(kChipBroke + describe_illegal(channel, shape, word_));
}

void AxiMemoryState::wrong_last(const Burst& b) {
  char text[160];
  snprintf(text, sizeof text, "%sWLAST is wrong in the write burst at 0x%" PRIx64 ": %u beats are left", kChipBroke,
           b.plain ? b.address : b.shape.address, b.left);
  throw Stopped(text);
}

}  // namespace presil
