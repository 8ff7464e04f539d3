// SPDX-License-Identifier: Apache-2.0
// The chip as a module of a platform, whatever is inside: RTL or twin.
#pragma once
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <functional>
#include <optional>
#include <string>

#include "axi_tlm.h"
#include "clock.h"

namespace presil {

class Chip : public sc_core::sc_module, public Clocked {
 public:
  tlm_utils::simple_target_socket<Chip> registers;  // words of 32 bits, blocking
  tlm_utils::simple_initiator_socket<Chip> memory;  // axi_tlm.h
  sc_core::sc_out<bool> irq;                        // level

  explicit Chip(sc_core::sc_module_name name);

  virtual const char* kind() const = 0;                       // names the driver's knowledge of it (presil_chip.h)
  virtual const char* configuration() const = 0;              // of it
  virtual unsigned word() const = 0;                          // bytes of a beat on `memory`
  virtual uint32_t register_bytes() const { return 0x1000; }  // of `registers`
  virtual bool loosely_timed() const {
    return false;
  }  // without a clock: simulated time is an estimate, register accesses annotate theirs
  using WriteWatch = std::function<void(uint64_t address, uint64_t bytes)>;
  virtual void watch_writes(WriteWatch) {}  // told of what is written past the memory's sockets; null: nobody is
  // The following are called from one thread process. Time passes in reset() and run() only.
  virtual void reset() = 0;       // the bus and its targets are reset by the caller
  virtual bool idle() const = 0;  // nothing is outstanding on `memory`
  virtual void launch(
      uint64_t launch) = 0;  // what is random in the chip's surroundings, as a function of the seed and this
  virtual void run(
      uint64_t cycles) = 0;  // until the interrupt is high, the chip has stopped, or so many cycles have passed
  virtual uint64_t cycles() const = 0;     // edges so far
  virtual uint64_t last_beat() const = 0;  // cycle of the last handshake on the bus
  virtual const std::string& stopped()
      const = 0;  // why the model ended itself; empty: it didn't. reset() starts it again
  virtual bool trace(const std::string& path, uint64_t first,
                     uint64_t last) = 0;  // FST of a window counted from now; empty: off. False: the file can't be made
  virtual bool traces() const = 0;
  // Whether its buses are looked at for what changes before it is taken; none: as its build has it.
  virtual void set_monitored(std::optional<bool>) {}
  virtual std::string about() const = 0;  // for people: what was built, with what
  // presil_transport_info's; empty: not known.
  virtual std::string rtl_hash() const { return {}; }
  virtual std::string library() const { return {}; }

 protected:
  virtual void direct_memory_changed() {}  // what get_direct_mem_ptr gave must not be used any more
  virtual sc_core::sc_time access_time() const { return sc_core::SC_ZERO_TIME; }  // loosely timed: of a register access
  // Register access; the response of the bus, or -1: no answer. May let time pass.
  virtual int access(bool write, uint32_t offset, uint32_t* value) = 0;
  virtual tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                      sc_core::sc_time& delay) = 0;

 private:
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  unsigned transport_dbg(tlm::tlm_generic_payload& payload);
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) { direct_memory_changed(); }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) {
    return backward(payload, phase, delay);
  }
};

// A chip on `clock`, or null with a text.
using ChipMaker = std::function<Chip*(const char* name, Clock& clock, uint64_t seed, std::string* error)>;
// One is what a library with a verilated chip exports (extern "C", by name).
constexpr const char* kRtlChipEntry = "presil_sc_chip";
using RtlChipEntry = Chip* (*)(const char* name, Clock& clock, uint64_t seed, std::string* error);

}  // namespace presil
