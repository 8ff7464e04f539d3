// SPDX-License-Identifier: Apache-2.0
// One chip on its bench: the verilated model, its clock, the memory on its bus, register accesses, tracing. Throws
// Stopped when the model ends itself or breaks the bus protocol; after that only restart() is allowed.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "axi_memory.h"
#include "axi_monitor.h"
#include "axil_master.h"
#include "pins.h"
#include "stopped.h"
#include "verilated.h"
#include "waiter.h"
#if PRESIL_SIM_TRACE
#include "waveform.h"
#endif
#if VM_COVERAGE
#include "coverage.h"
#endif

void Vchip___024root___eval(Vchip___024root* root);

namespace presil {

class Bench final : public Waitable {
 public:
  explicit Bench(uint64_t seed) : seed_(seed) {}
  ~Bench() override;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // A new model in place of the old one, and a reset. Drops a trace.
  void restart();
  // Where coverage goes (coverage.h); empty: nowhere. False, with a text, where it can't be written.
  bool set_coverage(const std::string& prefix, bool launches, std::string* error);
  // What was reached so far is in the file. False, once: it could not be written.
  bool keep_coverage() noexcept;
  // What comes is the next launch's.
  void launch_coverage() noexcept;
  // The reset pin for kResetCycles; the check build makes a new model with other random start values.
  void reset();
  void launch(uint64_t launch);
  // Whether both buses are looked at for what changes before it is taken; on in the check build.
  void set_monitored(bool on) { monitored_ = on; }
  // Makes this model the one that Verilator's runtime means on this thread.
  void enter() { Verilated::threadContextp(context_.get()); }

  AxiMemory<Pins>& memory() { return memory_; }
  Pins& pins() { return *pins_; }
  uint64_t now() const override { return now_; }  // rising edges so far, over all models
  uint64_t last_beat() const override { return memory_.last_beat(); }
  bool irq() const override { return pins_->irq; }

  void run(uint64_t limit) override {
    for (uint64_t i = 0; i < limit && !pins_->irq; i++) cycle();
  }

  void step() override { cycle(); }

  bool can(const Fault& fault, std::string* error) const override;
  void strike(const Fault& fault) override;

  // Register accesses, as bus cycles. Return the bus response (0: okay), or -1: no answer within kRegisterTimeout.
  int read32(uint32_t offset, uint32_t* value);
  int write32(uint32_t offset, uint32_t value);

  // Writes cycles [first, last] to an FST at path; empty: off. Returns false where the file can't be made.
  bool trace(const std::string& path, uint64_t first, uint64_t last);
  void drop_trace() noexcept;

 private:
  // With clk low after every change of an input: sim/trim.py relies on it.
  void eval() {
#if PRESIL_SIM_TRACE
    chip_->eval();  // marks what tracing has to look at
#else
    Vchip___024root___eval(pins_);  // what eval() calls, without its bookkeeping: 8 % of a cycle
#endif
  }

  void cycle() {
    if (monitored_) monitor();
    memory_.sample(*pins_, now_);
    pins_->clk = 1;
    eval();
    now_++;
#if PRESIL_SIM_TRACE
    waveform_.dump(now_ - 1, 0);
#endif
    memory_.drive(*pins_, now_);
    pins_->clk = 0;
    eval();
#if PRESIL_SIM_TRACE
    waveform_.dump(now_ - 1, Waveform::kHalfPeriod);
#endif
  }

  // Inverts one bit of one register, memory or kept signal with fault.name in its name: fault.bit of the first, or a
  // function of seed and cycle.
  void upset(const Fault& fault);
  void monitor();
  void hold_reset();
  int access();
  void abandon_bus();
  void scramble(uint64_t launch);

  uint64_t seed_;
  uint64_t models_ = 0;
  uint64_t now_ = 0;
  AxiMemory<Pins> memory_;
  bool monitored_ = PRESIL_SIM_CHECK;
  AxiMonitor axi_monitor_;
  AxilMonitor axil_monitor_;
  AxilMaster axil_;
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vchip> chip_;
  Pins* pins_ = nullptr;

#if PRESIL_SIM_TRACE
  Waveform waveform_;
#endif
#if VM_COVERAGE
  Coverage coverage_;
#endif
};

}  // namespace presil
