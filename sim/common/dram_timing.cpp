// SPDX-License-Identifier: Apache-2.0
#include "dram_timing.h"

#include <algorithm>

namespace presil {

namespace {

// Typical of the speed grade, as data sheets and JEDEC's tables have them; which: docs/dram.md.
constexpr DramSettings kPresets[] = {
    {"ddr4-2400", 0, 1, 256, 4, 4, 8192, 64, 1200, 4, 17, 12, 17, 17, 39, 9, 18, 4, 6, 4, 6, 26, 3, 9, 9360, 420},
    {"ddr4-3200", 0, 1, 256, 4, 4, 8192, 64, 1600, 4, 22, 16, 22, 22, 52, 12, 24, 4, 8, 4, 8, 34, 4, 12, 12480, 560},
    {"lpddr4-3200", 0,  2, 256, 1, 8, 2048, 32, 1600, 8, 28, 14, 29, 29, 68, 12, 29, 8, 8, 16, 16, 64, 16, 16,
     6246,          448},
    {"lpddr5-6400", 0, 2, 256, 4, 4, 2048, 32, 800, 2, 17, 9, 15, 15, 34, 6, 28, 2, 4, 4, 4, 16, 5, 10, 3123, 224},
    {"hbm2-2000", 0, 16, 256, 4, 4, 1024, 32, 1000, 2, 14, 4, 14, 14, 33, 5, 16, 2, 3, 4, 6, 16, 3, 8, 3900, 260},
};

constexpr struct {
  const char* name;
  uint32_t DramSettings::* member;
} kParameters[] = {
    {"clock", &DramSettings::clock},   {"channels", &DramSettings::channels}, {"stripe", &DramSettings::stripe},
    {"groups", &DramSettings::groups}, {"banks", &DramSettings::banks},       {"row", &DramSettings::row},
    {"atom", &DramSettings::atom},     {"mhz", &DramSettings::mhz},           {"burst", &DramSettings::burst},
    {"cl", &DramSettings::cl},         {"cwl", &DramSettings::cwl},           {"trcd", &DramSettings::rcd},
    {"trp", &DramSettings::rp},        {"tras", &DramSettings::ras},          {"trtp", &DramSettings::rtp},
    {"twr", &DramSettings::wr},        {"tccd_s", &DramSettings::ccd_s},      {"tccd_l", &DramSettings::ccd_l},
    {"trrd_s", &DramSettings::rrd_s},  {"trrd_l", &DramSettings::rrd_l},      {"tfaw", &DramSettings::faw},
    {"twtr_s", &DramSettings::wtr_s},  {"twtr_l", &DramSettings::wtr_l},      {"trefi", &DramSettings::refi},
    {"trfc", &DramSettings::rfc},
};

bool power_of_two(uint32_t n) { return n && !(n & (n - 1)); }

uint64_t up(uint64_t number, uint64_t by) { return (number + by - 1) / by; }

}  // namespace

bool dram_preset(const std::string& name, DramSettings* out) {
  for (const DramSettings& preset : kPresets) {
    if (name != preset.name) continue;
    *out = preset;
    return true;
  }
  return false;
}

std::string dram_presets() {
  std::string text;
  for (const DramSettings& preset : kPresets) text += (text.empty() ? "" : ", ") + std::string(preset.name);
  return text;
}

uint32_t* dram_parameter(DramSettings* settings, const std::string& name) {
  for (const auto& parameter : kParameters) {
    if (name == parameter.name) return &(settings->*parameter.member);
  }
  return nullptr;
}

std::string wrong_dram(const DramSettings& s) {
  if (!power_of_two(s.channels) || s.channels > 64) return "channels: a power of two up to 64";
  if (!power_of_two(s.groups) || !power_of_two(s.banks) || s.groups * s.banks > 64)
    return "groups, banks: powers of two, together up to 64 banks a channel";
  if (!power_of_two(s.atom) || !power_of_two(s.row) || !power_of_two(s.stripe) || s.atom > s.stripe || s.atom > s.row)
    return "atom, stripe, row: powers of two, the atom the smallest";
  if (!s.mhz || !s.burst) return "mhz, burst: at least 1";
  if (s.cl + s.burst + 2 <= s.cwl) return "cl, cwl: a read's data are not after a later write's";
  if (s.refi && s.refi <= s.rfc + s.rp + s.rcd + s.ras) return "trefi: longer than trfc, trp, trcd and tras (0: never)";
  return "";
}

std::string dram_text(const DramSettings& s) {
  std::string text;
  for (const auto& parameter : kParameters)
    text += (text.empty() ? "" : ",") + std::string(parameter.name) + "=" + std::to_string(s.*parameter.member);
  return text;
}

DramTiming::DramTiming(const DramSettings& settings) : s_(settings), channels_(settings.channels) { launch(0); }

void DramTiming::launch(uint64_t now) {
  start_ = now;
  for (Channel& c : channels_) {
    c.banks.assign(s_.groups * s_.banks, {-1, 0, 0, 0});
    c.groups.assign(s_.groups, {kNever, kNever, kNever});
    std::fill(std::begin(c.activations), std::end(c.activations), kNever);
    c.oldest = 0;
    c.activated = c.read = c.written = kNever;
    c.refresh = s_.refi;
  }
}

// From the lowest bits: byte of the stripe, channel, rest of the line, group, column, bank, row. Neighbouring atoms are
// of different groups, so that they follow each other at tCCD_S.
DramTiming::Place DramTiming::place(uint64_t address) const {
  const uint64_t stripe = address / s_.stripe;
  uint64_t n = (stripe / s_.channels * s_.stripe + address % s_.stripe) / s_.atom;
  const unsigned group = n % s_.groups;
  n /= s_.groups;
  n /= s_.row / s_.atom;
  const unsigned bank = n % s_.banks;
  return {static_cast<unsigned>(stripe % s_.channels), group, group * s_.banks + bank,
          static_cast<int64_t>(n / s_.banks)};
}

int64_t DramTiming::column_gap(const Channel& c, const Group& group, bool write) const {
  const int64_t written = s_.cwl + s_.burst, turn = s_.cl + s_.burst + 2 - s_.cwl;
  if (write) return std::max({c.written + s_.ccd_s, group.written + s_.ccd_l, c.read + turn});
  return std::max(
      {c.read + s_.ccd_s, group.read + s_.ccd_l, c.written + written + s_.wtr_s, group.written + written + s_.wtr_l});
}

DramTiming::Commands DramTiming::plan(const Channel& c, const Place& at, bool write, int64_t arrival) const {
  const Bank& bank = c.banks[at.bank];
  const Group& group = c.groups[at.group];
  Commands what = {bank.row != at.row, 0, std::max(arrival, bank.column)};
  if (what.activates) {
    const int64_t closed = bank.row < 0 ? arrival : std::max(arrival, bank.precharge) + s_.rp;
    what.activate = std::max(
        {closed, bank.activate, c.activated + s_.rrd_s, group.activated + s_.rrd_l, c.activations[c.oldest] + s_.faw});
    what.column = what.activate + s_.rcd;
  }
  what.column = std::max(what.column, column_gap(c, group, write));
  return what;
}

void DramTiming::refresh(Channel* c) const {
  int64_t start = c->refresh;
  for (const Bank& bank : c->banks) {
    if (bank.row >= 0) start = std::max(start, std::max(c->refresh, bank.precharge) + s_.rp);
  }
  for (Bank& bank : c->banks) {
    bank.row = -1;
    bank.activate = std::max(bank.activate, start + s_.rfc);
  }
  c->refresh += s_.refi;
}

void DramTiming::issue(Channel* c, const Place& at, const Commands& what, bool write) const {
  Bank& bank = c->banks[at.bank];
  Group& group = c->groups[at.group];
  if (what.activates) {
    bank.row = at.row;
    bank.column = what.activate + s_.rcd;
    bank.precharge = what.activate + s_.ras;
    c->activations[c->oldest] = c->activated = group.activated = what.activate;
    c->oldest = (c->oldest + 1) % 4;
  }
  const int64_t kept = write ? s_.cwl + s_.burst + s_.wr : s_.rtp;
  bank.precharge = std::max(bank.precharge, what.column + kept);
  (write ? c->written : c->read) = what.column;
  (write ? group.written : group.read) = what.column;
}

uint64_t DramTiming::access(uint64_t address, bool write, uint64_t now) {
  const auto arrival = static_cast<int64_t>(up((now - start_) * s_.mhz, s_.clock));
  const Place at = place(address);
  Channel& c = channels_[at.channel];
  Commands what = plan(c, at, write, arrival);
  while (s_.refi && what.column >= c.refresh) {
    refresh(&c);
    what = plan(c, at, write, arrival);
  }
  issue(&c, at, what, write);
  const int64_t end = what.column + (write ? s_.cwl : s_.cl) + s_.burst;
  return start_ + up(static_cast<uint64_t>(end) * s_.clock, s_.mhz);
}

}  // namespace presil
