// SPDX-License-Identifier: Apache-2.0
// presil_transport_ops over a PinBench: what its fiber serves.
#include <cstdio>

#include "pin_bench.h"
#include "transport_base.h"

struct presil_transport : presil::TransportState {
  explicit presil_transport(presil::PinBench* b) : bench(b), waiter(*b) {}
  static std::unique_ptr<presil_transport> make(const presil_transport_options&, std::string*) {
    return std::make_unique<presil_transport>(presil::PinBench::current());
  }
  bool attach(uint64_t seed, std::string*) {
    bench->memory().map(memory.base(), memory.host(), memory.bytes());
    configure(seed);
    bench->open(settings.monitor.value_or(true));
    return true;
  }
  void close() {
    bench->close();
    bench->memory().map(0, nullptr, 0);
  }

  template <class Body> int perform(Body body) { return body(); }
  void describe(presil_transport_info* info) {
    const uint64_t capabilities = info->capabilities | PRESIL_CAP_CLOCKED;
    *info = bench->info();
    info->capabilities = capabilities;
  }
  uint32_t registers() const { return bench->registers(); }
  uint32_t chip_mhz() const { return bench->info().clock_mhz; }
  int access(bool write, uint32_t offset, uint32_t* value) { return bench->access(write, offset, value); }
  bool idle() { return bench->idle(); }
  void begin(uint64_t launch) { bench->launch(launch); }
  void reset(bool) { bench->reset(); }
  uint64_t now() { return bench->now(); }
  uint64_t cycles() { return bench->now(); }
  unsigned word() { return bench->word(); }
  void configure(uint64_t seed) { bench->memory().configure(memory_settings, seed); }
  presil::AxiMemoryState& model() { return bench->memory(); }
  bool traces() const { return false; }
  std::string no_trace() const { return "not in the DPI module; waveforms: use the simulator's own commands"; }
  bool trace(const char*, uint64_t, uint64_t) { return false; }

  presil::PinBench* bench;
  presil::Waiter waiter;
};

namespace {

constexpr presil_transport_ops kOps = presil::transport_table<presil_transport>(nullptr);

}  // namespace

const presil_transport_ops* presil::pin_transport() { return &kOps; }
