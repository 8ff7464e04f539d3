// SPDX-License-Identifier: Apache-2.0
#include "rtl_bench.h"

#include <cstdio>
#include <cstring>

#include "counter_random.h"
#if VM_COVERAGE
#include "Vchip__Syms.h"
#include "points.h"
#endif

namespace presil {

#if PRESIL_SIM_SCRAMBLE
#include "scramble.inc"
#endif

Bench::~Bench() {
  drop_trace();
  keep_coverage();
}

void Bench::restart() {
  drop_trace();
  keep_coverage();
#if PRESIL_SIM_TRACE
  waveform_.detach();
#endif
  chip_.reset();
  context_ = std::make_unique<VerilatedContext>();
  enter();
  models_++;
#if PRESIL_SIM_CHECK
  context_->randReset(2);
  context_->randSeed(static_cast<int>(mix64(seed_ + models_) & 0x7fffffff) | 1);
#endif
#if PRESIL_SIM_TRACE
  context_->traceEverOn(true);
#endif
  chip_ = std::make_unique<Vchip>(context_.get(), "");
  pins_ = chip_->rootp;
  pins_->clk = 0;
  pins_->rst = 1;
  chip_->eval();  // initial blocks; the fast path of eval() has none
  hold_reset();
}

#if VM_COVERAGE && PRESIL_POINTS

__asm__(".pushsection .rodata\n.type presil_points, @object\npresil_points:\n.incbin \"" PRESIL_POINTS_FILE
        "\"\n.size presil_points, . - presil_points\npresil_points_end:\n.popsection\n");
extern "C" const char presil_points[] __attribute__((visibility("hidden")));
extern "C" const char presil_points_end[] __attribute__((visibility("hidden")));

bool Bench::set_coverage(const std::string& prefix, bool launches, std::string* error) {
  const CoveragePoints points = {PRESIL_POINTS, PRESIL_POINTS_ID, presil_points,
                                 static_cast<size_t>(presil_points_end - presil_points)};
  return prefix.empty() || coverage_.open(prefix, points, launches, error);
}

bool Bench::keep_coverage() noexcept {
  const bool before = coverage_.failed();
  if (chip_) coverage_.collect(pins_->vlSymsp->__Vcoverage);
  return before || !coverage_.failed();
}

void Bench::launch_coverage() noexcept { coverage_.launch(); }

#else

bool Bench::set_coverage(const std::string&, bool, std::string*) { return true; }
bool Bench::keep_coverage() noexcept { return true; }
void Bench::launch_coverage() noexcept {}

#endif

void Bench::reset() {
#if PRESIL_SIM_CHECK
  restart();
#else
  hold_reset();
#endif
}

void Bench::monitor() {
  axi_monitor_.sample(*pins_);
  axil_monitor_.sample(*pins_);
}

void Bench::hold_reset() {
  axil_.end(pins_);
  for (ResetCycles reset; !reset.over(); reset.next()) {
    pins_->rst = reset.pin();
    if (reset.abandons()) abandon_bus();
    cycle();
  }
}

void Bench::abandon_bus() {
  memory_.abandon(*pins_);
  axi_monitor_.forget();
  axil_monitor_.forget();
  eval();
}

void Bench::launch(uint64_t launch) {
  keep_coverage();
  memory_.launch(*pins_, launch, now_);
  scramble(launch);
  eval();
}

// Scratchpad and accumulators are undefined at the start of a launch: where the build knows them, it overwrites them.
void Bench::scramble([[maybe_unused]] uint64_t launch) {
#if PRESIL_SIM_SCRAMBLE
  scramble_memories(*pins_, mix64(seed_ ^ mix64(launch)));
#endif
}

#if PRESIL_SIM_SCRAMBLE

namespace {

// Bits of the first part of the state in whose name `part` is.
uint64_t bits_of_first(Pins& pins, const char* part) {
  uint64_t bits = 0;
  each_state(pins, [&](const char* name, const void*, size_t bytes, size_t element, size_t width) {
    if (!bits && strstr(name, part)) bits = bytes / element * width;
  });
  return bits;
}

// Parts of the state in whose name `part` is.
uint64_t count_state(Pins& pins, const char* part) {
  uint64_t count = 0;
  each_state(pins,
             [&](const char* name, const void*, size_t, size_t, size_t) { count += strstr(name, part) != nullptr; });
  return count;
}

}  // namespace

bool Bench::can(const Fault& fault, std::string* error) const {
  if (fault.kind != Fault::kUpset) return true;
  const uint64_t bits = bits_of_first(*pins_, fault.name);
  if (bits && (fault.bit == Fault::kAnyBit || fault.bit < bits)) return true;
  *error = bits ? "inject: \"" + std::string(fault.name) + "\" has " + std::to_string(bits) + " bits, no bit " +
                      std::to_string(fault.bit)
                : "inject: no state of the model has \"" + std::string(fault.name) + "\" in its name";
  return false;
}

// A small register is as likely as a large memory.
void Bench::upset(const Fault& fault) {
  const uint64_t random = random64(mix64(seed_), now_);
  const bool any = fault.bit == Fault::kAnyBit;
  uint64_t left = any ? random % count_state(*pins_, fault.name) : 0;
  each_state(*pins_, [&](const char* name, void* at, size_t bytes, size_t element, size_t width) {
    if (!strstr(name, fault.name) || left--) return;
    const uint64_t bit = any ? mix64(random) % (bytes / element * width) : fault.bit, place = bit % width;
    static_cast<uint8_t*>(at)[bit / width * element + place / 8] ^= static_cast<uint8_t>(1u << place % 8);
  });
  eval();
}

#else

bool Bench::can(const Fault& fault, std::string* error) const {
  if (fault.kind != Fault::kUpset) return true;
  *error = "inject: upset: this build does not know its model's state; the build check does, with SCRAMBLE";
  return false;
}
void Bench::upset(const Fault&) {}

#endif

void Bench::strike(const Fault& fault) {
  if (fault.kind == Fault::kUpset) return upset(fault);
  if (fault.kind == Fault::kFatal) vl_fatal("inject", 0, "", "injected $fatal");
  vl_stop("inject", 0, "");
}

int Bench::access() {
  do {
    eval();
    axil_.edge(*pins_);
    cycle();
  } while (!axil_.present(pins_));
  if (axil_.response() < 0) axil_monitor_.forget();  // given up: ours to break
  eval();
  return axil_.response();
}

int Bench::write32(uint32_t offset, uint32_t value) {
  axil_.write(pins_, offset, value);
  return access();
}

int Bench::read32(uint32_t offset, uint32_t* value) {
  axil_.read(pins_, offset);
  const int response = access();
  if (response >= 0) *value = axil_.value();
  return response;
}

#if PRESIL_SIM_TRACE

bool Bench::trace(const std::string& path, uint64_t first, uint64_t last) {
  if (!path.empty()) return waveform_.start(*chip_, path, now_ + first, now_ + last);
  waveform_.end();
  return true;
}

void Bench::drop_trace() noexcept { waveform_.drop(); }

#else

bool Bench::trace(const std::string&, uint64_t, uint64_t) { return false; }
void Bench::drop_trace() noexcept {}

#endif

}  // namespace presil
