// SPDX-License-Identifier: Apache-2.0
// The driver has one report function a device; this hands each report to all who listen.
#pragma once
#include <presil.h>

namespace presil {

class LaunchListener {
 public:
  virtual ~LaunchListener() = default;
  // On the thread that ran the launch, with the device's queue held: must be short, and must not call the device.
  virtual void launched(int device, const presil_report& report) = 0;
  // Of one that wants to know what launches move and hold: likewise, before the launch, whoever runs it.
  virtual bool wants_usage() const { return false; }
  virtual void uses(int device, uint64_t launch, const presil_usage& usage) {}
};

// A listener hears the launches that end between the two calls; when remove returns, none of its calls runs any more.
// Devices that are opened in between are heard too.
void add_listener(LaunchListener* listener);
void remove_listener(LaunchListener* listener);

// What the chip of a device calls its engines, causes and counters. Also from launched().
presil_names names_of(int device);

// The upper half of a launch's tag is the profiler's correlation, the lower half the observer's site.
enum class TagHalf { Site, Correlation };
uint32_t set_tag(TagHalf half, uint32_t value);  // of the calling thread; returns the value before
inline uint32_t tag_site(uint64_t tag) { return static_cast<uint32_t>(tag); }
inline uint32_t tag_correlation(uint64_t tag) { return static_cast<uint32_t>(tag >> 32); }

}  // namespace presil
