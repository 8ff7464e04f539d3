// SPDX-License-Identifier: Apache-2.0
// When a DRAM behind the memory's port has moved what is asked of it: channels, banks with open rows, refresh,
// turnaround. In the order of arrival, channel by channel; rules and presets: docs/dram.md.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace presil {

// Times are in clocks of the memory; 0 channels: no DRAM is modelled.
struct DramSettings {
  const char* name = "";
  uint32_t clock = 0;  // MHz of the chip; 0: what its configuration says
  uint32_t channels = 0, stripe = 256, groups = 1, banks = 8, row = 2048, atom = 64, mhz = 1200, burst = 4;
  uint32_t cl = 0, cwl = 0, rcd = 0, rp = 0, ras = 0, rtp = 0, wr = 0, ccd_s = 0, ccd_l = 0, rrd_s = 0, rrd_l = 0,
           faw = 0, wtr_s = 0, wtr_l = 0, refi = 0, rfc = 0;

  bool on() const { return channels != 0; }
};

// Sets `out` to the one of this name; false: there is none.
bool dram_preset(const std::string& name, DramSettings* out);
// "ddr4-2400, ..."
std::string dram_presets();
// The parameter of that name, or nullptr.
uint32_t* dram_parameter(DramSettings* settings, const std::string& name);
// What is wrong with them; empty: nothing.
std::string wrong_dram(const DramSettings& settings);
// Of all of them.
std::string dram_text(const DramSettings& settings);

class DramTiming {
 public:
  explicit DramTiming(const DramSettings& settings);

  // All banks closed, nothing on the way, the first refresh one tREFI after `now`.
  void launch(uint64_t now);
  // Asks for the atom with that byte in cycle `now` of the chip, never before the last one asked for. The cycle at
  // which the last of its data have crossed the DRAM's bus.
  uint64_t access(uint64_t address, bool write, uint64_t now);
  uint64_t atom() const { return s_.atom; }

 private:
  static constexpr int64_t kNever = -(int64_t{1} << 40);  // long ago

  struct Bank {
    int64_t row, activate, precharge, column;  // row: -1 closed; the rest: the earliest of each command
  };
  struct Group {
    int64_t activated, read, written;  // the last of each
  };
  struct Channel {
    std::vector<Bank> banks;
    std::vector<Group> groups;
    int64_t activations[4];  // the last four, the oldest at `oldest`
    unsigned oldest;
    int64_t activated, read, written, refresh;  // the last ones; when the next refresh is due
  };
  struct Place {
    unsigned channel, group, bank;  // bank: of the channel
    int64_t row;
  };
  struct Commands {
    bool activates;
    int64_t activate, column;
  };

  Place place(uint64_t address) const;
  Commands plan(const Channel& c, const Place& at, bool write, int64_t arrival) const;
  int64_t column_gap(const Channel& c, const Group& group, bool write) const;
  void refresh(Channel* c) const;
  void issue(Channel* c, const Place& at, const Commands& what, bool write) const;

  DramSettings s_;
  std::vector<Channel> channels_;
  uint64_t start_ = 0;
};

}  // namespace presil
