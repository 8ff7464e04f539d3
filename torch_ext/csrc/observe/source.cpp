// SPDX-License-Identifier: Apache-2.0
#include "observe/source.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace presil {
namespace {

struct Table {
  std::mutex mutex;
  std::deque<SourceLine> lines{SourceLine{}};
  std::unordered_map<std::string, uint32_t> numbers;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

std::atomic<SourceHook> source_hook{nullptr};

}  // namespace

uint32_t intern_source(const char* file, int line, const char* function) {
  const std::string key = std::string(file) + ':' + std::to_string(line) + ':' + function;
  std::lock_guard<std::mutex> lock(table().mutex);
  const auto [it, added] = table().numbers.emplace(key, static_cast<uint32_t>(table().lines.size()));
  if (added) table().lines.push_back({file, line, function});
  return it->second;
}

SourceLine source_line(uint32_t id) {
  std::lock_guard<std::mutex> lock(table().mutex);
  return table().lines.at(id);
}

std::string source_text(uint32_t id) {
  if (id == 0) return "";
  const SourceLine s = source_line(id);
  return " at " + s.file + ":" + std::to_string(s.line) + " (" + s.function + ")";
}

void set_source_hook(SourceHook hook) noexcept { source_hook.store(hook); }
uint32_t current_source() {
  const auto hook = source_hook.load(std::memory_order_acquire);
  return hook ? hook() : 0;
}

}  // namespace presil
