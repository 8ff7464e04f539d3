// SPDX-License-Identifier: Apache-2.0
// The virtual platform: chip, bus, DRAM, register bus, clocks; and the transport (presil_transport.h) over it, to be
// used from a thread process.
#pragma once
#include <memory>
#include <string>
#include <vector>
#include <systemc>
#include <tlm>

#include "checker.h"
#include "chip_module.h"
#include "dram.h"
#include "interrupts.h"
#include "platform_settings.h"
#include "presil_transport.h"
#include "router.h"
#include "traffic.h"

#include <tlm_utils/tlm_quantumkeeper.h>

namespace presil {

// The host's side of the register bus.
class Host : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<Host> socket;

  explicit Host(sc_core::sc_module_name name) : sc_module(name), socket("socket") {}
  // From a thread process. TLM_OK_RESPONSE, or what went wrong. Time that was annotated is kept until the quantum is
  // full, or synchronize().
  tlm::tlm_response_status access(bool write, uint64_t address, uint32_t* value);
  void synchronize() {
    if (keeper_.get_local_time() != sc_core::SC_ZERO_TIME) keeper_.sync();
  }

 private:
  tlm_utils::tlm_quantumkeeper keeper_;
};

class Platform : public sc_core::sc_module {
 public:
  // Throws std::runtime_error where the chip can't be made.
  Platform(sc_core::sc_module_name name, const PlatformSettings& settings);
  ~Platform() override;

  // From a thread process.
  void reset();
  void launch(uint64_t launch);
  bool idle() const { return chip_->idle() && (traffic_ || dram_->idle()); }
  // The memory, or none (host null). Only when idle.
  void map(uint64_t base, uint8_t* host, uint64_t bytes);
  // The platform's signals, for a file of sc_create_vcd_trace_file; before the simulation starts.
  void trace(sc_core::sc_trace_file* file);
  // Why the platform can't go on until reset(); empty: it can.
  const std::string& stopped() const {
    return !chip_->stopped().empty() ? chip_->stopped() : !dram_->breach().empty() ? dram_->breach() : protocol_breach_;
  }
  const std::vector<std::unique_ptr<Checker>>& checkers() const { return checkers_; }

  const PlatformSettings& settings() const { return settings_; }
  Chip& chip() { return *chip_; }
  Dram& dram() { return *dram_; }
  Host& host() { return host_; }
  const Traffic* traffic() const { return traffic_.get(); }
  bool irq() const { return chip_irq_.read(); }

 private:
  void abandon_bus();
  template <class From, class To> void connect(const char* name, From& from, To& to);

  PlatformSettings settings_;
  Clock clock_;
  std::unique_ptr<Clock> bus_clock_;  // null: the chip's
  Clock& bus_cycle_;
  sc_core::sc_signal<bool> chip_irq_, host_irq_;
  sc_core::sc_vector<sc_core::sc_signal<bool>> no_irq_;
  Host host_;
  Router control_, bus_;
  Interrupts interrupts_;
  std::unique_ptr<Chip> chip_;
  std::unique_ptr<Dram> dram_;
  std::unique_ptr<Traffic> traffic_;  // null: none
  uint64_t memory_base_ = 0;
  std::string protocol_breach_;
  std::vector<std::unique_ptr<Checker>> checkers_;  // none, or one for each connection
};

// The transport over the process's one platform, for the thread that made it, outside of the simulation: every call
// lets the simulation run until it is done, so simulated time stands still between calls. open() takes the memory that
// it is given, one client at a time.
void offer_platform(Platform* platform);
const presil_transport_ops* platform_transport();

}  // namespace presil
