// SPDX-License-Identifier: Apache-2.0
// Observes, while on, which operator ran where, from which line, and what it cost: torch.presil.explain().
// Operators come from RecordFunction (composites too); what happens inside one is charged to the innermost open one of
// the thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace presil {

// One operator called from one line, running in one place for one reason; sums over its calls.
struct ObservedRow {
  std::string op;     // as in the schema, with the overload: "aten::add.out"; or a step of ours: "presil::pack_weights"
  std::string where;  // "chip": launched work; "host"; "composite": only called others; "metadata": touched no data
  std::string reason;                                           // host: why
  uint32_t source = 0;                                          // source.h
  bool backward = false;                                        // ran in the backward pass of `source`
  uint64_t calls = 0, launches = 0, unclocked = 0, failed = 0;  // unclocked: launches on the twin, which has no clock
  uint64_t cycles = 0, macs = 0, dram_bytes = 0,
           host_bytes = 0;  // dram: read and written by the chip; host: copied or converted by the CPU
  uint64_t host_ns = 0;     // wall time in the operator itself, without operators that it calls and without waiting
  uint64_t wait_ns = 0;     // waiting for the chip (which runs the simulator in this thread)
  uint64_t sim_ns = 0;      // inside the simulator or the twin, wherever it ran
};

namespace observe_detail {
extern std::atomic<bool> on;
void enqueued();
void on_host(const char* op, const char* reason);
void moved(uint64_t bytes, const char* reason);
void step(const char* name, const char* reason, uint64_t bytes, uint64_t ns);
void note(const std::string& name, const std::string& reason);
}  // namespace observe_detail

inline bool observing() noexcept { return observe_detail::on.load(std::memory_order_relaxed); }

// What the rest of the extension tells; each costs one relaxed load while nobody observes.
inline void observe_launch() {
  if (observing()) observe_detail::enqueued();
}
inline void observe_host(const char* op, const char* reason) {
  if (observing()) observe_detail::on_host(op, reason);
}
// The open operator copied or converted this many bytes (of the result) with the CPU.
inline void observe_moved(uint64_t bytes, const char* reason) {
  if (observing()) observe_detail::moved(bytes, reason);
}
// Work of ours that is no operator, done by the host: a row of its own.
inline void observe_step(const char* name, const char* reason, uint64_t bytes, uint64_t ns) {
  if (observing()) observe_detail::step(name, reason, bytes, ns);
}
// Something about operators that have rows of their own: a row "composite".
inline void observe_note(const std::string& name, const std::string& reason) {
  if (observing()) observe_detail::note(name, reason);
}

uint64_t observe_now_ns();

// One observation at a time in a process: a second start raises. stop() returns the rows in order of first appearance;
// the caller has waited for the devices.
void start_observing();
std::vector<ObservedRow> stop_observing();

}  // namespace presil
