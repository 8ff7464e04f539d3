// SPDX-License-Identifier: Apache-2.0
// AXI4's bursts (ARM IHI 0022, A3.4): what is allowed, and which bytes each beat moves on which lanes.
#pragma once
#include <cstdint>
#include <string>

namespace presil {

enum : uint8_t { kFixed = 0, kIncr = 1, kWrap = 2 };
enum : uint8_t { kOkay = 0, kSlverr = 2, kDecerr = 3 };  // responses
constexpr unsigned kPageBytes = 4096;                    // no burst crosses it

// A burst as its request has it; `address` moves on with its beats.
struct BurstShape {
  uint64_t address;  // of the beat
  uint16_t beats;    // of the burst
  uint8_t size;      // log2 of a beat's bytes
  uint8_t kind;      // kFixed, kIncr, kWrap

  unsigned bytes() const { return 1u << size; }
  // The lanes that the beat moves: [first, end).
  unsigned first_lane(unsigned word) const { return static_cast<unsigned>(address % word); }
  unsigned end_lane(unsigned word) const { return static_cast<unsigned>(aligned() % word) + bytes(); }
  uint64_t aligned() const { return address & ~uint64_t{bytes() - 1}; }
  // At the first beat: the lowest address of the burst, and how many bytes from there on it can touch.
  uint64_t lowest() const { return kind == kWrap ? address & ~uint64_t{span() - 1} : aligned(); }
  unsigned span() const { return kind == kFixed ? bytes() : beats * bytes(); }
  // To the next beat.
  void advance() {
    if (kind == kFixed) return;
    const uint64_t next = aligned() + bytes();
    address = kind == kWrap && !(next & (span() - 1)) ? next - span() : next;
  }
};

// Why a legal master would not ask for this on a bus of `word` bytes; empty: it might.
std::string why_illegal(const BurstShape& burst, unsigned word);
// For people, to be put behind kChipBroke: the request and what is wrong with it. channel: "AR", "AW".
std::string describe_illegal(const char* channel, const BurstShape& burst, unsigned word);
// The strobes of a beat, where one is set on a lane that the beat doesn't move; else empty.
std::string describe_strobes(const BurstShape& beat, const uint8_t* strobes, unsigned word);

constexpr const char* kChipBroke = "the chip broke the bus protocol: ";
constexpr int kUnaskedLanes = 0xa5;  // what a read has on lanes that its beat doesn't move

}  // namespace presil
