// SPDX-License-Identifier: Apache-2.0
// How often and for how long the host computed, by operator.
#include "host/fallback.h"
#include "observe/observer.h"
#include "observe/source.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace presil {
namespace {

std::mutex registry_mutex;
std::unordered_map<std::string, std::unique_ptr<HostSite>>& registry() {
  static auto* m = new std::unordered_map<std::string, std::unique_ptr<HostSite>>;
  return *m;
}

}  // namespace

HostSite& host_site(const std::string& name) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  auto& site = registry()[name];
  if (!site) {
    site = std::make_unique<HostSite>();
    site->name = name;
  }
  return *site;
}

std::map<std::string, HostOperator> host_operators() {
  std::lock_guard<std::mutex> lock(registry_mutex);
  std::map<std::string, HostOperator> used;
  for (const auto& [name, site] : registry())
    if (const int64_t calls = site->calls.load(std::memory_order_relaxed))
      used[name] = {calls, 1e-9 * static_cast<double>(site->nanoseconds.load(std::memory_order_relaxed)), site->reason};
  return used;
}

void reset_host_operators() {
  std::lock_guard<std::mutex> lock(registry_mutex);
  for (auto& [name, site] : registry()) {
    site->calls = 0;
    site->nanoseconds = 0;
    site->explained = false;
    site->reason.clear();
  }
}

void refuse_in_strict_mode(const char* name, const std::string& reason) {
  TORCH_CHECK(!settings().strict, "presil: strict mode: operator ", name, " would run on the host (", reason, ")",
              source_text(current_source()), ". Set torch.backends.presil.strict = False to allow it.");
}

void note_host_operator(HostSite& site, const char* reason, int64_t nanoseconds) {
  observe_host(site.name.c_str(), reason);
  site.calls.fetch_add(1, std::memory_order_relaxed);
  site.nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  if (C10_LIKELY(site.explained.load(std::memory_order_relaxed))) return;
  std::lock_guard<std::mutex> lock(registry_mutex);
  if (site.reason.empty()) site.reason = reason;
  site.explained = true;
}

}  // namespace presil
