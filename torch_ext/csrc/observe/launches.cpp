// SPDX-License-Identifier: Apache-2.0
#include "observe/launches.h"

#include "runtime/device.h"
#include "runtime/jobs.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace presil {
namespace {

struct Listeners {
  std::mutex mutex;
  std::vector<LaunchListener*> list;
};
Listeners& listeners() {
  static auto* l = new Listeners;
  return *l;
}

// Called from C: nothing may be thrown. A listener that has no memory for a report goes without it.
void on_report(void* context, const presil_report* report) noexcept {
  std::lock_guard<std::mutex> lock(listeners().mutex);
  for (auto* listener : listeners().list) try {
      listener->launched(static_cast<int>(reinterpret_cast<intptr_t>(context)), *report);
    } catch (...) {}
}

void on_usage(void* context, uint64_t launch, const presil_usage* usage) noexcept {
  std::lock_guard<std::mutex> lock(listeners().mutex);
  for (auto* listener : listeners().list) try {
      if (listener->wants_usage())
        listener->uses(static_cast<int>(reinterpret_cast<intptr_t>(context)), launch, *usage);
    } catch (...) {}
}

// The plan is the device's, also of a launch that a job runs.
void connect(int index, presil_device* device) {
  bool any, usage;
  {
    std::lock_guard<std::mutex> lock(listeners().mutex);
    const auto& list = listeners().list;
    any = !list.empty();
    usage = std::any_of(list.begin(), list.end(), [](const auto* l) { return l->wants_usage(); });
  }
  void* context = reinterpret_cast<void*>(static_cast<intptr_t>(index));
  presil_set_report(device, any && !has_jobs(index) ? &on_report : nullptr, context);
  presil_set_usage(device, usage ? &on_usage : nullptr, context);
}

void connect_all() {
  for (int i = 0; i < device_count(); i++)
    if (auto* d = opened(i)) connect(i, d);
}

}  // namespace

presil_names names_of(int device) {
  presil_names names{};
  names.size = sizeof names;
  auto* handle = opened(device);
  if (!handle || presil_device_get_names(handle, &names)) names = presil_names{};
  return names;
}

void add_listener(LaunchListener* listener) {
  {
    std::lock_guard<std::mutex> lock(listeners().mutex);
    listeners().list.push_back(listener);
  }
  connect_all();
}

void remove_listener(LaunchListener* listener) {
  {
    std::lock_guard<std::mutex> lock(listeners().mutex);
    auto& list = listeners().list;
    list.erase(std::remove(list.begin(), list.end(), listener), list.end());
  }
  connect_all();
}

static void listen_to(int index, presil_device* device) {
  set_jobs_report(&on_report);
  connect(index, device);
}

static const int registered = (set_open_listener(&listen_to), 0);

uint32_t set_tag(TagHalf half, uint32_t value) {
  static thread_local uint64_t tag = 0;
  const int shift = half == TagHalf::Correlation ? 32 : 0;
  const uint32_t before = static_cast<uint32_t>(tag >> shift);
  tag = (tag & ~(uint64_t{0xffffffff} << shift)) | uint64_t{value} << shift;
  (void)presil_set_tag(tag);
  return before;
}

}  // namespace presil
