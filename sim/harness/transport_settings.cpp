// SPDX-License-Identifier: Apache-2.0
#include "transport_settings.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace presil {

namespace {

// Cuts the next item off a comma-separated list; false at its end.
bool next_item(const char** at, std::string* item) {
  if (!**at) return false;
  const char* p = *at;
  while (*p && *p != ',') p++;
  item->assign(*at, p);
  *at = *p ? p + 1 : p;
  return true;
}

bool split(const std::string& item, char separator, std::string* key, std::string* value) {
  const size_t at = item.find(separator);
  if (at == std::string::npos) return false;
  *key = item.substr(0, at);
  *value = item.substr(at + 1);
  return true;
}

bool parse_number(const std::string& text, uint64_t low, uint64_t high, uint64_t* out) {
  if (text.empty() || text[0] == '-') return false;
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = strtoull(text.c_str(), &end, 0);
  if (*end || errno || value < low || value > high) return false;
  *out = value;
  return true;
}

bool parse_probability(const std::string& text, uint32_t* out) {
  char* end = nullptr;
  const double value = strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value >= 0.0 && value <= 0.9)) return false;
  *out = static_cast<uint32_t>(std::lround(value * 4096));
  return true;
}

bool parse_flag(const std::string& text, const char* off, const char* on, bool* out) {
  *out = text == on;
  return text == on || text == off;
}

bool parse_profile(const std::string& text, Profile* out) {
  static const char* const names[] = {"none", "sparse", "heavy", "starved", "bursty", "delayed", "dead"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    if (text != names[i]) continue;
    *out = static_cast<Profile>(i);
    return true;
  }
  return false;
}

// pressure: of all channels; ar, r, aw, w, b: of one. False: no such key, or (good false) no such profile.
bool set_pressure(const std::string& key, const std::string& value, MemorySettings* s, bool* good) {
  static const char* const channels[kChannels] = {"ar", "r", "aw", "w", "b"};
  bool known = false;
  for (unsigned i = 0; i < kChannels; i++) {
    if (key != "pressure" && key != channels[i]) continue;
    known = true;
    *good = parse_profile(value, &s->pressure[i]);
  }
  return known;
}

bool set_memory_parameter(const std::string& item, MemorySettings* s, std::string* error) {
  std::string key, value;
  if (!split(item, '=', &key, &value)) {
    *error = "memory model: \"" + item + "\": expected \"default\", \"ideal\", " + dram_presets() +
             " (as the first) or key=value";
    return false;
  }
  bool good = false;
  const char* range = "one of latency, response, bytes, bursts, stall, pressure, ar, r, aw, w, b, commit, reorder, "
                      "interleave";
  if (key == "latency" || key == "response") {
    range = "1 to 1000000 cycles";
    good = parse_number(value, 1, 1000000, key == "latency" ? &s->latency : &s->response);
  } else if (key == "bytes") {
    range = "bytes a cycle, 0 (no limit) to 65536";
    good = parse_number(value, 0, 65536, &s->bytes);
  } else if (key == "bursts") {
    range = "1 to 256";
    good = parse_number(value, 1, 256, &s->bursts);
  } else if (key == "stall") {
    range = "a probability, 0 to 0.9";
    good = parse_probability(value, &s->stall);
  } else if (set_pressure(key, value, s, &good)) {
    range = "none, sparse, heavy, starved, bursty, delayed or dead";
  } else if (key == "commit") {
    range = "w (writes are visible from the handshake of their data on) or b (from that of their response on)";
    good = parse_flag(value, "w", "b", &s->commit_at_b);
  } else if (key == "reorder" || key == "interleave") {
    range = "0 or 1";
    good = parse_flag(value, "0", "1", key == "reorder" ? &s->reorder : &s->interleave);
  } else if (uint32_t* parameter = dram_parameter(&s->dram, key)) {
    range = "0 to 1000000, behind the name of a DRAM (docs/dram.md)";
    uint64_t number = 0;
    good = s->dram.on() && parse_number(value, key == "clock" || key == "channels", 1000000, &number);
    *parameter = static_cast<uint32_t>(number);
  }
  if (!good) *error = "memory model: \"" + item + "\": expected " + range;
  return good;
}

// NAME or NAME+BIT.
bool parse_upset(const std::string& text, Fault* out) {
  std::string name = text, bit;
  if (split(text, '+', &name, &bit) && !parse_number(bit, 0, Fault::kAnyBit - 1, &out->bit)) return false;
  snprintf(out->name, sizeof out->name, "%s", name.c_str());
  return name.size() < sizeof out->name;
}

}  // namespace

bool parse_memory_settings(const char* text, unsigned word, MemorySettings* out, std::string* error) {
  MemorySettings s;
  s.bytes = word;
  std::string item;
  const char* at = text ? text : "";
  for (bool first = true; next_item(&at, &item); first = false) {
    if (first && item == "default") continue;
    if (first && item == "ideal") {
      s.latency = 1;
      s.response = 1;
      s.bytes = 0;
      continue;
    }
    if (first && dram_preset(item, &s.dram)) {  // a controller's way there and back; what it holds
      s.latency = s.response = 20;
      s.bursts = 16;
      continue;
    }
    if (!set_memory_parameter(item, &s, error)) return false;
  }
  const std::string wrong = s.dram.on() ? wrong_dram(s.dram) : "";
  if (!wrong.empty()) {
    *error = "memory model: \"" + std::string(text) + "\": expected " + wrong;
    return false;
  }
  *out = s;
  return true;
}

std::string memory_text(const MemorySettings& s) {
  std::string text = "latency=" + std::to_string(s.latency) + ",response=" + std::to_string(s.response) +
                     ",bytes=" + std::to_string(s.bytes) + ",bursts=" + std::to_string(s.bursts) +
                     ",stall=" + std::to_string(s.stall) + "/4096,pressure=";
  for (const Profile p : s.pressure) text += std::to_string(static_cast<unsigned>(p));
  return text + (s.commit_at_b ? ",commit=b" : ",commit=w") + ",reorder=" + std::to_string(s.reorder) +
         ",interleave=" + std::to_string(s.interleave) +
         (s.dram.on() ? ",dram=" + dram_text(s.dram) + " addresses=whole" : "");
}

bool parse_transport_settings(const char* text, TransportSettings* out, std::string* error) {
  TransportSettings s;
  std::string item;
  static constexpr char kCoverage[] = "coverage=";
  for (const char* at = text ? text : ""; *at;) {
    if (strncmp(at, kCoverage, sizeof kCoverage - 1) == 0) {  // the last one: a path may have commas in it
      s.coverage = at + sizeof kCoverage - 1;
      break;
    }
    if (!next_item(&at, &item)) break;
    if (item == "map=0" || item == "map=1") {
      s.map = item == "map=1";
    } else if (item == "monitor=0" || item == "monitor=1") {
      s.monitor = item == "monitor=1";
    } else if (item == "coverage_launches=0" || item == "coverage_launches=1") {
      s.coverage_launches = item == "coverage_launches=1";
    } else {
      *error =
          "options: expected map=0|1, monitor=0|1, coverage_launches=0|1 or, as the last, coverage=PATH; found \"" +
          item + "\"";
      return false;
    }
  }
  *out = s;
  return true;
}

bool parse_faults(const char* text, Fault* out, size_t* count, std::string* error) {
  static const struct {
    const char* name;
    char separator;
    Fault::Kind kind;
  } kinds[] = {{"slverr", '@', Fault::kSlverr},
               {"decerr", '@', Fault::kDecerr},
               {"read-slverr", '@', Fault::kReadSlverr},
               {"read-decerr", '@', Fault::kReadDecerr},
               {"write-slverr", '@', Fault::kWriteSlverr},
               {"write-decerr", '@', Fault::kWriteDecerr},
               {"fatal", '@', Fault::kFatal},
               {"stop", '@', Fault::kStop},
               {"slow", '=', Fault::kSlow},
               {"late", '=', Fault::kLate},
               {"flip", '@', Fault::kFlip}};
  size_t n = 0;
  std::string item, key, value;
  for (const char* at = text ? text : ""; next_item(&at, &item);) {
    bool good = false;
    if (n < kMaxFaults) {
      out[n].name[0] = 0;
      out[n].bit = Fault::kAnyBit;
    }
    if (n < kMaxFaults && split(item, '@', &key, &value) && key.rfind("upset:", 0) == 0) {
      out[n].kind = Fault::kUpset;
      good = parse_upset(key.substr(6), &out[n]) && parse_number(value, 0, UINT64_MAX, &out[n].value);
    }
    for (const auto& k : kinds) {
      if (n < kMaxFaults && split(item, k.separator, &key, &value) && key == k.name) {
        out[n].kind = k.kind;
        good = parse_number(value, 0, k.kind == Fault::kSlow ? 1000000000u : UINT64_MAX, &out[n].value);
      }
    }
    if (!good) {
      *error = "inject: expected at most 8 of slverr@ADDR, decerr@ADDR, read-slverr@BEAT, read-decerr@BEAT, "
               "write-slverr@BEAT, write-decerr@BEAT, fatal@CYCLE, stop@CYCLE, upset:NAME[+BIT]@CYCLE, "
               "slow=NS_PER_CYCLE, late=CYCLES, flip@BIT; found \"" +
               item + "\"";
      return false;
    }
    n++;
  }
  *count = n;
  return true;
}

}  // namespace presil
