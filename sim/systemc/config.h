// SPDX-License-Identifier: Apache-2.0
// presil-vp's configuration file: lines `key = value` in sections, # comments (docs/systemc.md has all keys).
#pragma once
#include <string>

#include "platform_settings.h"

namespace presil {

struct VpSettings {
  PlatformSettings platform;
  // Of the chip: its library's path, or empty: libpresil_sim_<config>_<build>.so where such libraries are.
  std::string library, config;
  std::string socket;        // to listen at
  std::string platform_vcd;  // sc_trace of the platform's signals; empty: none
};

// Reads the file, of at most kMostConfigBytes. Returns false with a text that names the line.
constexpr size_t kMostConfigBytes = 1 << 16;
bool read_config(const std::string& path, VpSettings* out, std::string* error);

}  // namespace presil
