// SPDX-License-Identifier: Apache-2.0
#include "traffic.h"

#include <cstring>

#include "counter_random.h"

namespace presil {

Traffic::Traffic(sc_core::sc_module_name name, Clock& clock, unsigned word, const TrafficSettings& settings)
    : sc_module(name), AxiMaster(socket), socket("socket"), settings_(settings), word_(word) {
  socket.register_nb_transport_bw(this, &Traffic::nb_transport_bw);
  clock.add(this, Clock::kEdge | Clock::kPresent);
}

void Traffic::forget() {
  abandon();
  arready_ = awready_ = wready_ = rvalid_ = bvalid_ = false;
  ar_ = aw_ = w_ = r_ = b_ = false;
  outstanding_ = 0;
}

void Traffic::launch(uint64_t launch, uint64_t base) {
  forget();
  base_ = base;
  key_ = mix64(settings_.seed + mix64(launch + 1));
  drawn_ = credit_ = moved_ = 0;
  running_ = settings_.load > 0;
}

void Traffic::edge() {
  ar_ = arready_, aw_ = awready_, w_ = wready_, r_ = rvalid_, b_ = bvalid_;
  arready_ = awready_ = wready_ = rvalid_ = bvalid_ = false;
}

void Traffic::present() {
  moved_ += w_ + r_;
  if (ar_) read_taken();
  if (aw_) write_taken();
  if (w_) write_beat_taken();
  if (r_) {
    outstanding_ -= rlast_;
    beat_taken();
  }
  if (b_) {
    outstanding_--;
    answer_taken();
  }
  ar_ = aw_ = w_ = r_ = b_ = false;
  if (!running_) return;
  const uint64_t cost = 100 * settings_.burst;
  credit_ = credit_ + settings_.load < 4 * cost ? credit_ + settings_.load
                                                : 4 * cost;  // what the bus refused for long is not made up for
  if (credit_ >= cost && outstanding_ < kOutstanding) ask_for_burst();
  if (beat_wanted()) {
    memset(collecting()->axi.strobes, 0, sizeof collecting()->axi.strobes);
    offer_write_beat();
  }
  stream();
}

// Address and direction are functions of the number of the burst. Bursts are aligned to their length, so none crosses 4
// KiB.
void Traffic::ask_for_burst() {
  const uint64_t draw = random64(key_, drawn_);
  const bool read = draw % 100 < settings_.reads;
  if (read ? !may_read() : !may_write()) return;
  uint64_t span = word_;
  while (span < uint64_t{settings_.burst} * word_) span *= 2;
  const uint64_t address = base_ + (draw >> 8) % (settings_.bytes / span) * span;
  AxiRequest request;
  request.word = static_cast<uint8_t>(word_);
  request.size = static_cast<uint8_t>(__builtin_ctz(word_));
  request.start = address;
  request.beats = static_cast<uint16_t>(settings_.burst);
  read ? request_read(request) : request_write(request);
  drawn_++;
  outstanding_++;
  credit_ -= 100 * settings_.burst;
}

}  // namespace presil
