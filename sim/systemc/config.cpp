// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace presil {

namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

using Setter = std::function<bool(const std::string&)>;

template <class T> Setter number(T* to, uint64_t low, uint64_t high) {
  return [=](const std::string& text) {
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = strtoull(text.c_str(), &end, 0);
    if (text.empty() || text[0] == '-' || *end || errno || value < low || value > high) return false;
    *to = static_cast<T>(value);
    return true;
  };
}

Setter word(std::string* to) {
  return [=](const std::string& text) {
    *to = text;
    return !text.empty();
  };
}

// Files have no end by themselves (/dev/zero), and a line may be all of one.
bool read_text(const std::string& path, std::string* out, std::string* error) {
  std::ifstream file(path, std::ios::binary);
  out->resize(kMostConfigBytes + 1);
  errno = 0;
  file.read(out->data(), static_cast<std::streamsize>(out->size()));
  const auto bytes = static_cast<size_t>(file.gcount());
  if (!file.eof() && bytes == out->size()) {
    *error = path + ": more than " + std::to_string(kMostConfigBytes) + " bytes: that is no configuration";
    return false;
  }
  if (!file.eof() || file.bad()) {
    *error = path + ": " + strerror(errno ? errno : EIO);
    return false;
  }
  out->resize(bytes);
  return true;
}

}  // namespace

bool read_config(const std::string& path, VpSettings* out, std::string* error) {
  VpSettings s;
  PlatformSettings& p = s.platform;
  p.build = "systemc";
  const std::map<std::string, Setter> keys = {
      {"chip.config", word(&s.config)},
      {"chip.build", word(&p.build)},
      {"chip.library", word(&s.library)},
      {"chip.clock_mhz", number(&p.clock_mhz, 1, 10000)},
      {"chip.seed", number(&p.seed, 0, UINT64_MAX)},
      {"chip.check", number(&p.check, 0, 1)},
      {"chip.quantum_ns", number(&p.quantum_ns, 1, 1000000)},
      {"bus.clock_mhz", number(&p.bus_mhz, 1, 10000)},
      {"map.registers", number(&p.registers, 0, UINT32_MAX)},
      {"map.interrupts", number(&p.interrupts, 0, UINT32_MAX)},
      {"traffic.load", number(&p.traffic.load, 0, 100)},
      {"traffic.burst", number(&p.traffic.burst, 1, 32)},
      {"traffic.reads", number(&p.traffic.reads, 0, 100)},
      {"traffic.seed", number(&p.traffic.seed, 0, UINT64_MAX)},
      {"traffic.bytes", number(&p.traffic.bytes, 4096, uint64_t{1} << 40)},
      {"trace.platform", word(&s.platform_vcd)},
      {"server.socket", word(&s.socket)},
  };
  std::string text, line, section;
  if (!read_text(path, &text, error)) return false;
  std::istringstream file(text);
  for (unsigned at = 1; std::getline(file, line); at++) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string where = path + ":" + std::to_string(at) + ": ";
    if (line.front() == '[' && line.back() == ']') {
      section = trimmed(line.substr(1, line.size() - 2));
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string::npos) {
      *error = where + "expected [section] or key = value, found: " + line;
      return false;
    }
    const std::string key = section + "." + trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
    const auto setter = keys.find(key);
    if (setter == keys.end()) {
      *error = where + "no such key: " + key + "; there are:";
      for (const auto& known : keys) *error += " " + known.first;
      return false;
    }
    if (!setter->second(value)) {
      *error = where + key + " can't be \"" + value + "\" (docs/systemc.md has the ranges)";
      return false;
    }
  }
  if (p.traffic.bytes % 4096) {
    *error = path + ": traffic.bytes must be a multiple of 4096";
    return false;
  }
  *out = s;
  return true;
}

}  // namespace presil
