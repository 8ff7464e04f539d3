// SPDX-License-Identifier: Apache-2.0
// The virtual platform: chip, bus, DRAM, register bus, clocks; and the transport (presil_transport.h) over it, to be used from a thread process.
#pragma once
#include <memory>
#include <string>

#include "chip.h"
#include "dram.h"
#include "presil_transport.h"
#include "router.h"

namespace presil {

struct PlatformSettings {
    RtlChipEntry make = nullptr;  // of the verilated chip's library
    std::string config, build;   // what it is, for info()
    uint32_t clock_mhz = 1000;   // of the chip
    uint32_t bus_mhz = 0;        // of bus and memory; 0: the chip's clock
    uint64_t seed = 0;           // of the model's start values
    uint64_t registers = 0x0;    // address of the chip's registers on the register bus
};

// The host's side of the register bus.
class Host : public sc_core::sc_module {
public:
    tlm_utils::simple_initiator_socket<Host> socket;

    explicit Host(sc_core::sc_module_name name) : sc_module(name), socket("socket") {}
    // From a thread process. TLM_OK_RESPONSE, or what went wrong.
    tlm::tlm_response_status access(bool write, uint64_t address, uint32_t *value);
};

class Platform : public sc_core::sc_module {
public:
    // Throws std::runtime_error where the chip can't be made.
    Platform(sc_core::sc_module_name name, const PlatformSettings &settings);
    ~Platform() override;

    // From a thread process.
    void reset();
    void launch(uint64_t launch);
    bool idle() const { return chip_->idle() && dram_->idle(); }
    // Why the platform can't go on until reset(); empty: it can.
    const std::string &stopped() const { return chip_->stopped().empty() ? dram_->breach() : chip_->stopped(); }

    const PlatformSettings &settings() const { return settings_; }
    Chip &chip() { return *chip_; }
    Dram &dram() { return *dram_; }
    Host &host() { return host_; }
    bool irq() const { return irq_.read(); }

private:
    PlatformSettings settings_;
    Clock clock_;
    std::unique_ptr<Clock> bus_clock_;  // null: the chip's
    sc_core::sc_signal<bool> irq_;
    Host host_;
    Router control_, bus_;
    std::unique_ptr<Chip> chip_;
    std::unique_ptr<Dram> dram_;
};

// The transport over the process's one platform, for the thread that made it, outside of the simulation: every call lets the simulation run until it is
// done, so simulated time stands still between calls. open() takes the memory that it is given, one client at a time.
void offer_platform(Platform *platform);
const presil_transport_ops *platform_transport();

}  // namespace presil
