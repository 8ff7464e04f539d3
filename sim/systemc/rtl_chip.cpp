// SPDX-License-Identifier: Apache-2.0
// The verilated chip (--sc) between its bridges. Compiled once for each configuration and build, into a library that
// the platform opens.
#include <tlm>

#include "Vchip.h"
#include "axi_monitor.h"
#include "axil_bridge.h"
#include "chip_module.h"
#include "counter_random.h"
#include "presil_rtl_hash.h"
#include "register_rules.h"
#include "stop.h"
#include "stopped.h"
#include "write_times.h"
#if PRESIL_SIM_PORTS
#include "chip_ports.h"
#endif
#if PRESIL_SIM_TRACE
#include "waveform.h"
#endif
#if PRESIL_SIM_SCRAMBLE
#include "Vchip___024root.h"
#endif

namespace presil {

namespace {

#if PRESIL_SIM_SCRAMBLE
using Pins = Vchip___024root;
#include "scramble.inc"
#endif

class RtlChip : public Chip {
 public:
  RtlChip(sc_core::sc_module_name name, Clock& clock, uint64_t seed);
  ~RtlChip() override { drop_trace(); }

  const char* kind() const override { return PRESIL_SIM_CHIP; }
  const char* configuration() const override { return PRESIL_SIM_CONFIG; }
  unsigned word() const override { return Bridge::kWord; }
#ifdef PRESIL_SIM_REGISTER_BYTES
  uint32_t register_bytes() const override { return PRESIL_SIM_REGISTER_BYTES; }
#endif
  void reset() override;
  bool idle() const override { return axi_.idle(); }
  void launch(uint64_t launch) override;
  void run(uint64_t cycles) override;
  uint64_t cycles() const override { return cycles_; }
  uint64_t last_beat() const override { return last_beat_; }
  const std::string& stopped() const override { return stopped_; }
  bool trace(const std::string& path, uint64_t first, uint64_t last) override;
  bool traces() const override { return PRESIL_SIM_TRACE; }
  void set_monitored(std::optional<bool> on) override { monitored_ = on.value_or(PRESIL_SIM_CHECK); }
  std::string about() const override {
    return std::string("Verilator ") + Verilated::productVersion() + " --sc, SystemC " + sc_core::sc_version();
  }

  std::string rtl_hash() const override { return PRESIL_SIM_RTL_HASH; }
  std::string library() const override {
    static const char inside = 0;
    char text[72];
    build_id(&inside, text, sizeof text);
    return text;
  }

  void edge() override;
  void present() override;
  void settle() override;
  void start_of_simulation() override { axi_.ask(); }

 private:
  using Bridge = AxiBridge<Vchip>;

  int access(bool write, uint32_t offset, uint32_t* value) override;
  tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                              sc_core::sc_time& delay) override {
    return axi_.backward(payload, phase, delay);
  }
  void pass(uint64_t cycles);
  void monitor();
  void look_for_stop();
  void drop_trace() noexcept;
  void stop(const std::string& why);
  void dump(uint64_t phase);

  Clock& clock_;
  const uint64_t seed_;
  sc_core::sc_event never_, limit_;
  Evaluation evaluation_;
  Pin<bool> clk_, rst_;
  Bridge axi_;
  AxilBridge<Vchip> axil_;
  Vchip model_;
  bool monitored_ = PRESIL_SIM_CHECK;
  AxiMonitor axi_monitor_;
  AxilMonitor axil_monitor_;
  uint64_t cycles_ = 0, last_beat_ = 0, limit_at_ = 0;
  std::string stopped_;
#if PRESIL_SIM_TRACE
  Waveform waveform_;
#endif
};

RtlChip::RtlChip(sc_core::sc_module_name name, Clock& clock, uint64_t seed)
    : Chip(name), clock_(clock), seed_(seed), clk_(evaluation_.now), rst_(never_), axi_(memory, never_, evaluation_),
      axil_(never_, evaluation_), model_("model") {
  model_.clk(clk_);
  model_.rst(rst_);
  model_.irq(irq);
  axi_.bind(model_);
  axil_.bind(model_);
  rst_.value = true;
  clock_.add(this, Clock::kEdge | Clock::kPresent | Clock::kSettle);
}

void RtlChip::edge() {
  if (!stopped_.empty()) return;
  dump(500);
  if (!stopped_.empty()) return;
  if (monitored_ && !rst_.value) monitor();
  if (!stopped_.empty()) return;
  if (axi_.edge()) last_beat_ = cycles_;
  axil_.edge();
  cycles_++;
  clk_.value = true;
  evaluation_.coming = true;
  evaluation_.now.notify();
}

// The kernel calls this: nothing may be thrown into it.
void RtlChip::monitor() {
  AxiPins<Bridge::kWord> axi;
  AxilPins axil;
  axi_.look(&axi);
  axil_.look(&axil);
  try {
    axi_monitor_.sample(axi);
    axil_monitor_.sample(axil);
  } catch (const Stopped& breach) {
    stop(breach.what());
  }
}

void RtlChip::present() {
  if (!stopped_.empty()) return;
  dump(0);
  if (!stopped_.empty()) return;
  if (!rst_.value) axi_.present();
  axil_.present();
  look_for_stop();
}

void RtlChip::settle() {
  if (!stopped_.empty()) return;
  evaluation_.coming = false;
  clk_.value = false;
  evaluation_.now.notify();
  axil_.settle();
  if (cycles_ == limit_at_) limit_.notify(sc_core::SC_ZERO_TIME);
}

// A model that has ended itself is not clocked any more.
void RtlChip::look_for_stop() {
  if (stop_reason().empty() && axi_.breach().empty()) return;
  stop(stop_reason().empty() ? axi_.breach() : stop_reason());
}

void RtlChip::stop(const std::string& why) {
  stopped_ = why;
  drop_trace();
  evaluation_.coming = false;
  axil_.abandon();
  limit_.notify(sc_core::SC_ZERO_TIME);
}

// Wakes up when the inputs of the last cycle have settled.
void RtlChip::pass(uint64_t cycles) {
  for (limit_at_ = cycles_ + cycles; cycles_ < limit_at_ && stopped_.empty();) wait(limit_);
  wait(sc_core::SC_ZERO_TIME);
}

void RtlChip::run(uint64_t cycles) {
  for (limit_at_ = cycles_ + cycles; cycles_ < limit_at_ && stopped_.empty() && !irq.read();)
    wait(limit_ | irq.posedge_event());
  while (evaluation_.coming) wait(sc_core::SC_ZERO_TIME);
  wait(sc_core::SC_ZERO_TIME);
}

void RtlChip::reset() {
  drop_trace();
  forget_stop();
  axi_.forgive();
  stopped_.clear();
  axil_.abandon();
  axi_.abandon_bus();
  axi_monitor_.forget();
  axil_monitor_.forget();
  rst_.value = true;
  pass(kResetCycles);
  rst_.value = false;
  axi_.abandon_bus();
  evaluation_.changed();
  pass(kResetCycles);
}

void RtlChip::launch([[maybe_unused]] uint64_t launch) {
  last_beat_ = cycles_;
#if PRESIL_SIM_SCRAMBLE
  scramble_memories(*model_.rootp, mix64(seed_ ^ mix64(launch)));
  evaluation_.changed();
#endif
}

int RtlChip::access(bool write, uint32_t offset, uint32_t* value) {
  if (!stopped_.empty()) return -1;
  const int response = axil_.access(write, offset, value);
  if (response < 0) axil_monitor_.forget();  // given up: ours to break
  return response;
}

#if PRESIL_SIM_TRACE

bool RtlChip::trace(const std::string& path, uint64_t first, uint64_t last) {
  if (!path.empty()) return waveform_.start(model_, path, cycles_ + first, cycles_ + last);
  waveform_.end();
  return true;
}

// phase 0: after the edge of the last cycle; kHalfPeriod: when its inputs have settled, which shows at the next edge.
// The kernel calls this: nothing may be thrown into it.
void RtlChip::dump(uint64_t phase) {
  try {
    waveform_.dump(cycles_ - 1, phase);
  } catch (const Stopped& reason) {
    stop(reason.what());
  }
}

void RtlChip::drop_trace() noexcept { waveform_.drop(); }

#else

bool RtlChip::trace(const std::string&, uint64_t, uint64_t) { return false; }
void RtlChip::dump(uint64_t) {}
void RtlChip::drop_trace() noexcept {}

#endif

}  // namespace

}  // namespace presil

extern "C" __attribute__((visibility("default"))) presil::Chip* presil_sc_chip(const char* name, presil::Clock& clock,
                                                                               uint64_t seed, std::string* error) try {
#if PRESIL_SIM_CHECK
  Verilated::threadContextp()->randReset(2);
  Verilated::threadContextp()->randSeed(static_cast<int>(presil::mix64(seed + 1) & 0x7fffffff) | 1);
#endif
#if PRESIL_SIM_TRACE
  Verilated::threadContextp()->traceEverOn(true);
#endif
  return new presil::RtlChip(name, clock, seed);
} catch (const std::exception& e) {
  *error = e.what();
  return nullptr;
}
