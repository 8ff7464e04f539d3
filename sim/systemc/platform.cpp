// SPDX-License-Identifier: Apache-2.0
#include "platform.h"

#include <cstring>
#include <stdexcept>

namespace presil {

tlm::tlm_response_status Host::access(bool write, uint64_t address, uint32_t *value) {
    tlm::tlm_generic_payload payload;
    payload.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    payload.set_address(address);
    payload.set_data_ptr(reinterpret_cast<uint8_t *>(value));
    payload.set_data_length(4);
    payload.set_streaming_width(4);
    payload.set_byte_enable_ptr(nullptr);
    payload.set_dmi_allowed(false);
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->b_transport(payload, delay);
    if (delay != sc_core::SC_ZERO_TIME) wait(delay);
    return payload.get_response_status();
}

namespace {

sc_core::sc_time period(uint32_t mhz) { return sc_core::sc_time(1e6 / mhz, sc_core::SC_PS); }

}  // namespace

Platform::Platform(sc_core::sc_module_name name, const PlatformSettings &settings)
    : sc_module(name), settings_(settings), clock_("clock", period(settings.clock_mhz)),
      bus_clock_(settings.bus_mhz && settings.bus_mhz != settings.clock_mhz ? std::make_unique<Clock>("bus_clock", period(settings.bus_mhz)) : nullptr), irq_("irq"), host_("host"),
      control_("control", nullptr), bus_("bus", bus_clock_ ? bus_clock_.get() : &clock_) {
    std::string error;
    chip_.reset(settings.make("chip", clock_, settings.seed, &error));
    if (!chip_) throw std::runtime_error("the chip can't be made: " + error);
    dram_ = Dram::make("dram", bus_clock_ ? *bus_clock_ : clock_, chip_->word());

    host_.socket.bind(control_.add_master());
    control_.add_target(settings.registers, 4096, true).bind(chip_->registers);
    chip_->memory.bind(bus_.add_master());
    bus_.add_default_target().bind(dram_->socket);
    chip_->irq(irq_);
}

Platform::~Platform() = default;

void Platform::reset() {
    bus_.abandon();
    dram_->abandon();
    dram_->forgive();
    chip_->reset();
    bus_.abandon();
    dram_->abandon();
}

void Platform::launch(uint64_t launch) {
    clock_.align();
    if (bus_clock_) bus_clock_->align();
    bus_.launch();
    chip_->launch(launch);
    dram_->launch(launch);
}

}  // namespace presil
