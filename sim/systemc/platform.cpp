// SPDX-License-Identifier: Apache-2.0
#include "platform.h"

#include <cstring>
#include <stdexcept>

namespace presil {

tlm::tlm_response_status Host::access(bool write, uint64_t address, uint32_t* value) {
  tlm::tlm_generic_payload payload;
  payload.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  payload.set_address(address);
  payload.set_data_ptr(reinterpret_cast<uint8_t*>(value));
  payload.set_data_length(4);
  payload.set_streaming_width(4);
  payload.set_byte_enable_ptr(nullptr);
  payload.set_dmi_allowed(false);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  sc_core::sc_time delay = keeper_.get_local_time();
  socket->b_transport(payload, delay);
  if (delay != sc_core::SC_ZERO_TIME) {
    keeper_.set(delay);
    if (keeper_.need_sync()) keeper_.sync();
  }
  return payload.get_response_status();
}

namespace {

sc_core::sc_time period(uint32_t mhz) { return sc_core::sc_time(1e6 / mhz, sc_core::SC_PS); }

}  // namespace

Platform::Platform(sc_core::sc_module_name name, const PlatformSettings& settings)
    : sc_module(name), settings_(settings), clock_("clock", period(settings.clock_mhz)),
      bus_clock_(settings.bus_mhz && settings.bus_mhz != settings.clock_mhz
                     ? std::make_unique<Clock>("bus_clock", period(settings.bus_mhz))
                     : nullptr),
      bus_cycle_(bus_clock_ ? *bus_clock_ : clock_), chip_irq_("chip_irq"), host_irq_("host_irq"),
      no_irq_("no_irq", Interrupts::kInputs - 1), host_("host"), control_("control", nullptr), bus_("bus", &bus_cycle_),
      interrupts_("interrupts") {
  std::string error;
  chip_.reset(settings.make("chip", clock_, settings.seed, &error));
  if (!chip_) throw std::runtime_error("the chip can't be made: " + error);
  dram_ = Dram::make("dram", bus_cycle_, chip_->word());
  if (chip_->loosely_timed()) {
    if (settings.traffic.load) throw std::runtime_error("traffic needs a chip with a clock: build = twin has none");
    clock_.stop();
    if (bus_clock_) bus_clock_->stop();
    tlm_utils::tlm_quantumkeeper::set_global_quantum(sc_core::sc_time(settings.quantum_ns, sc_core::SC_NS));
  }
  if (settings.traffic.load)
    traffic_ = std::make_unique<Traffic>("traffic", bus_cycle_, chip_->word(), settings.traffic);

  connect("check_host", host_.socket, control_.add_master());
  connect("check_registers", control_.add_target(settings.registers, chip_->register_bytes(), true), chip_->registers);
  const uint64_t behind = settings.registers + chip_->register_bytes();
  connect("check_interrupts",
          control_.add_target(settings.interrupts == kBehind ? behind : settings.interrupts, Interrupts::kBytes, true),
          interrupts_.registers);
  connect("check_chip", chip_->memory, bus_.add_master());
  if (traffic_) connect("check_traffic", traffic_->socket, bus_.add_master());
  connect("check_dram", bus_.add_default_target(), dram_->socket);
  chip_->irq(chip_irq_);
  interrupts_.inputs[0](chip_irq_);
  for (unsigned i = 1; i < Interrupts::kInputs; i++) interrupts_.inputs[i](no_irq_[i - 1]);
  interrupts_.output(host_irq_);
}

Platform::~Platform() = default;

template <class From, class To> void Platform::connect(const char* name, From& from, To& to) {
  if (!settings_.check && settings_.build.find("check") == std::string::npos) return from.bind(to);
  checkers_.push_back(std::make_unique<Checker>(name, &protocol_breach_));
  from.bind(checkers_.back()->in);
  checkers_.back()->out.bind(to);
}

void Platform::map(uint64_t base, uint8_t* host, uint64_t bytes) {
  if (traffic_) traffic_->stop();
  if (traffic_ && host && settings_.traffic.bytes > bytes)
    throw std::runtime_error("traffic.bytes is more than the memory has, " + std::to_string(bytes));
  abandon_bus();
  memory_base_ = base;
  dram_->map(base, host, bytes);
}

void Platform::trace(sc_core::sc_trace_file* file) {
  sc_core::sc_trace(file, chip_irq_, "chip_irq");
  sc_core::sc_trace(file, host_irq_, "host_irq");
  if (traffic_) sc_core::sc_trace(file, traffic_->moved(), "traffic_beats");
}

void Platform::abandon_bus() {
  if (traffic_) traffic_->stop();
  bus_.abandon();
  dram_->abandon();
  for (auto& checker : checkers_) checker->abandon();
}

void Platform::reset() {
  abandon_bus();
  dram_->forgive();
  protocol_breach_.clear();
  chip_->reset();
  abandon_bus();
}

// What the second master had under way would reach into the launch: it is dropped. The chip has nothing under way.
void Platform::launch(uint64_t launch) {
  if (!chip_->loosely_timed()) clock_.align();
  if (bus_clock_ && !chip_->loosely_timed()) bus_clock_->align();
  if (traffic_) abandon_bus();
  bus_.launch();
  chip_->launch(launch);
  dram_->launch(launch);
  if (traffic_) traffic_->launch(launch, memory_base_);
}

}  // namespace presil
