// SPDX-License-Identifier: Apache-2.0
// presil_transport_ops over the platform. Simulated time passes in open, read32, write32, wait and reset only.
#include <algorithm>
#include <cstdio>

#include "platform.h"
#include "stage.h"
#include "transport_base.h"

namespace {

using namespace presil;

class PlatformWait : public Waitable {
 public:
  explicit PlatformWait(Platform& platform) : platform_(platform) {}
  uint64_t now() const override { return platform_.chip().cycles(); }
  uint64_t last_beat() const override { return platform_.chip().last_beat(); }
  bool irq() const override { return platform_.irq(); }
  void run(uint64_t limit) override {
    platform_.host().synchronize();
    platform_.chip().run(limit);
    if (!platform_.stopped().empty()) throw Stopped(platform_.stopped());
  }
  void step() override { run(1); }
  bool can(const Fault& fault, std::string* error) const override {
    const bool here = fault.kind != Fault::kLate && fault.kind != Fault::kUpset;
    if (!here)
      *error = "inject: late and upset are for the plain simulator: a platform's interrupts and state are its own";
    return here;
  }

 private:
  Platform& platform_;
};

Platform* offered = nullptr;
Stage* stage = nullptr;
bool taken = false;

}  // namespace

struct presil_transport : TransportState {
  explicit presil_transport(Platform& p) : platform(p), wait(p), waiter(wait) {}
  static std::unique_ptr<presil_transport> make(const presil_transport_options& o, std::string* error);
  bool attach(uint64_t seed, std::string* why);
  void close();

  template <class Body> int perform(Body body) {
    const int code = stage->perform(body);
    if (!platform.stopped().empty()) throw Stopped(platform.stopped());
    return code;
  }
  void describe(presil_transport_info* info);
  uint32_t registers() const { return platform.chip().register_bytes(); }
  int access(bool write, uint32_t offset, uint32_t* value) {
    switch (platform.host().access(write, platform.settings().registers + offset, value)) {
      case tlm::TLM_OK_RESPONSE: return 0;
      case tlm::TLM_ADDRESS_ERROR_RESPONSE: return kAxiDecerr;
      default: return kUnclear;
    }
  }
  bool idle() { return platform.idle(); }
  void begin(uint64_t launch) { platform.launch(launch); }
  void reset(bool) { platform.reset(); }
  uint64_t now() { return platform.dram().now(); }
  uint64_t cycles() { return platform.chip().cycles() - cycles_before; }
  unsigned word() { return platform.chip().word(); }
  uint32_t chip_mhz() const {
    return platform.settings().bus_mhz ? platform.settings().bus_mhz : platform.settings().clock_mhz;
  }
  void configure(uint64_t seed) { platform.dram().configure(memory_settings, seed); }
  AxiMemoryState& model() { return platform.dram().state(); }
  void watch(bool on) {
    if (!on) return platform.chip().watch_writes({});
    platform.chip().watch_writes([this](uint64_t address, uint64_t bytes) { note_write(address, bytes); });
  }
  bool traces() { return platform.chip().traces(); }
  std::string no_trace() {
    return "this chip's library (build " + platform.settings().build + ") has no tracing; the trace build has";
  }
  bool trace(const char* path, uint64_t first, uint64_t last) { return platform.chip().trace(path, first, last); }

  Platform& platform;
  PlatformWait wait;
  Waiter waiter;
  uint64_t cycles_before = 0;  // of the chip, when this transport was opened

 private:
  // Writes by DMI, which the DRAM doesn't see.
  void note_write(uint64_t address, uint64_t bytes) {
    for (uint64_t at = address - memory.base(), end = at + bytes; at < end;) {
      const uint64_t first = at % 64, count = std::min(64 - first, end - at);
      model().write_log().add(at - first, (~uint64_t{0} >> (64 - count)) << first, now());
      at += count;
    }
  }
};

std::unique_ptr<presil_transport> presil_transport::make(const presil_transport_options&, std::string* error) {
  if (offered && !taken) return std::make_unique<presil_transport>(*offered);
  *error = "open: the platform is in use, or there is none";
  return nullptr;
}

bool presil_transport::attach(uint64_t seed, std::string*) {
  platform.map(memory.base(), memory.host(), memory.bytes());
  configure(seed);
  platform.chip().set_monitored(settings.monitor);
  cycles_before = platform.chip().cycles();
  taken = true;
  return true;
}

// What the chip was doing for this client has to end before its memory goes.
void presil_transport::close() {
  try {
    stage->perform([&] {
      platform.reset();  // ends a waveform too
      return 0;
    });
  } catch (...) {  // a chip that stops in its reset is left as it is: the next open() resets it again
  }
  watch(false);
  platform.map(0, nullptr, 0);
  taken = false;
}

void presil_transport::describe(presil_transport_info* info) {
  const PlatformSettings& s = platform.settings();
  if (!platform.chip().loosely_timed()) info->capabilities |= PRESIL_CAP_CLOCKED;
  info->clock_mhz = s.clock_mhz;
  snprintf(info->chip, sizeof info->chip, "%s", platform.chip().kind());
  snprintf(info->config, sizeof info->config, "%s", platform.chip().configuration());
  snprintf(info->build, sizeof info->build, "%s", s.build.c_str());
  snprintf(info->text, sizeof info->text, "%s", platform.chip().about().c_str());
  snprintf(info->rtl, sizeof info->rtl, "%s", platform.chip().rtl_hash().c_str());
  snprintf(info->library, sizeof info->library, "%s", platform.chip().library().c_str());
}

namespace {

constexpr presil_transport_ops kOps = transport_table<presil_transport>(nullptr);

}  // namespace

namespace presil {

void offer_platform(Platform* platform) {
  offered = platform;
  if (!stage) stage = new Stage("stage");  // lives as long as the simulation, which nothing ends but the process
}
const presil_transport_ops* platform_transport() { return &kOps; }

}  // namespace presil
