// SPDX-License-Identifier: Apache-2.0
// A chip's library as a transport of its own: the default platform around it, in the caller's process.
#include "guard.h"
#include "platform.h"

extern "C" presil::Chip* presil_sc_chip(const char* name, presil::Clock& clock, uint64_t seed, std::string* error);

namespace {

// The kernel wants all modules before the first cycle, and keeps them: one platform a process, made when somebody asks.
bool make_platform(std::string* error) try {
  static presil::Platform* platform = nullptr;
  if (platform) return true;
  presil::PlatformSettings settings;
  settings.make = presil_sc_chip;
  settings.build = PRESIL_SIM_BUILD;
  settings.clock_mhz = PRESIL_SIM_CLOCK_MHZ;
  platform = new presil::Platform("platform", settings);
  presil::offer_platform(platform);
  return true;
} catch (const std::exception& e) {
  *error = e.what();
  return false;
}

int open_platform(const presil_transport_options* options, presil_transport** out, char* error, size_t error_bytes) {
  std::string text;
  if (make_platform(&text)) return presil::platform_transport()->open(options, out, error, error_bytes);
  if (error && error_bytes) snprintf(error, error_bytes, "%s", text.c_str());
  return PRESIL_TRANSPORT_EIO;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const presil_transport_ops* presil_transport_entry(void) {
  static const presil_transport_ops ops = [] {
    presil_transport_ops with_platform = *presil::platform_transport();
    with_platform.open = presil::Guard<open_platform, nullptr>::call;
    return with_platform;
  }();
  return &ops;
}
