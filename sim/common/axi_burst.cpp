// SPDX-License-Identifier: Apache-2.0
#include "axi_burst.h"

#include <cinttypes>
#include <cstdio>

namespace presil {

namespace {

template <class... Values> std::string text(const char* format, Values... values) {
  char buffer[256];
  snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

}  // namespace

std::string why_illegal(const BurstShape& b, unsigned word) {
  const unsigned beats = b.beats;
  if (b.bytes() > word)
    return text("a beat of %u bytes is wider than the bus, %u bytes (size %d at most)", b.bytes(), word,
                __builtin_ctz(word));
  if (b.kind == kFixed) return beats <= 16 ? "" : text("a FIXED burst of %u beats: expected 16 at most", beats);
  if (b.kind == kWrap) {
    if (beats != 2 && beats != 4 && beats != 8 && beats != 16)
      return text("a WRAP burst of %u beats: expected 2, 4, 8 or 16", beats);
    if (b.address != b.aligned())
      return text("a WRAP burst that begins in the middle of a beat: expected a multiple of %u bytes", b.bytes());
    return "";
  }
  if (b.kind != kIncr) return text("burst %u is reserved: expected FIXED (0), INCR (1) or WRAP (2)", unsigned{b.kind});
  const uint64_t last = b.aligned() + b.span() - 1;
  if (b.address / kPageBytes != last / kPageBytes)
    return text("an INCR burst up to 0x%" PRIx64 ": expected none that crosses 4 KiB", last);
  return "";
}

std::string describe_illegal(const char* channel, const BurstShape& b, unsigned word) {
  return text("%s at 0x%" PRIx64 " with length %d (%u beats), size %u, burst %u: ", channel, b.address, b.beats - 1,
              unsigned{b.beats}, unsigned{b.size}, unsigned{b.kind}) +
         why_illegal(b, word);
}

std::string describe_strobes(const BurstShape& b, const uint8_t* strobes, unsigned word) {
  for (unsigned i = 0; i < word; i++) {
    if ((i < b.first_lane(word) || i >= b.end_lane(word)) && strobes[i / 8] >> i % 8 & 1)
      return text("WSTRB of byte lane %u is set in a beat of %u bytes at 0x%" PRIx64 ", which moves lanes %u to %u", i,
                  b.bytes(), b.address, b.first_lane(word), b.end_lane(word) - 1);
  }
  return "";
}

}  // namespace presil
