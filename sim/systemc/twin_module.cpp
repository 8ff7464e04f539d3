// SPDX-License-Identifier: Apache-2.0
#include "twin_module.h"

#include <memory>

#include "presil_regs.h"
#include "presil_twin_chip.h"

namespace presil {

namespace {

struct TwinDeleter {
  void operator()(presil_twin_chip* chip) const { presil_twin_chip_destroy(chip); }
};

class TwinModule : public Chip {
 public:
  TwinModule(sc_core::sc_module_name name, presil_twin_chip* chip, Clock& clock)
      : Chip(name), twin_(chip), period_(clock.period()) {
    SC_HAS_PROCESS(TwinModule);
    SC_THREAD(work);
    SC_METHOD(drive);
    sensitive << level_;
    dont_initialize();
  }

  const char* kind() const override { return "presil"; }
  const char* configuration() const override { return presil_twin_chip_config(twin_.get())->name; }
  unsigned word() const override { return presil_twin_chip_config(twin_.get())->word_bytes; }
  bool loosely_timed() const override { return true; }
  void watch_writes(WriteWatch watch) override { watch_ = std::move(watch); }
  bool idle() const override { return !presil_twin_chip_pending(twin_.get()); }
  void launch(uint64_t) override {}
  uint64_t cycles() const override { return static_cast<uint64_t>(sc_core::sc_time_stamp() / period_); }
  uint64_t last_beat() const override { return idle() ? last_ : cycles(); }
  const std::string& stopped() const override { return stopped_; }
  bool trace(const std::string&, uint64_t, uint64_t) override { return false; }
  bool traces() const override { return false; }
  std::string about() const override {
    return std::string("the C twin, loosely timed, SystemC ") + sc_core::sc_version();
  }

  void reset() override {
    stopped_.clear();
    presil_twin_chip_reset(twin_.get());
    update();
  }

  void run(uint64_t cycles) override {
    if (!irq.read() && stopped_.empty()) wait(static_cast<double>(cycles) * period_, irq.posedge_event() | ended_);
  }

 private:
  static constexpr double kAccessCycles = 2;
  void direct_memory_changed() override { granted_ = false; }
  sc_core::sc_time access_time() const override { return kAccessCycles * period_; }
  int access(bool write, uint32_t offset, uint32_t* value) override {
    if (!stopped_.empty()) return -1;
    if (write) {
      presil_twin_chip_write(twin_.get(), offset, *value);
      if (presil_twin_chip_pending(twin_.get())) doorbell_.notify();
      update();
    } else {
      *value = presil_twin_chip_read(twin_.get(), offset);
    }
    return 0;
  }
  tlm::tlm_sync_enum backward(tlm::tlm_generic_payload&, tlm::tlm_phase&, sc_core::sc_time&) override {
    return tlm::TLM_ACCEPTED;
  }  // nothing was asked

  // The pin follows one delta cycle later; callers see it settled.
  void update() {
    if (irq.read() == (presil_twin_chip_irq(twin_.get()) != 0)) return;
    level_.notify();
    wait(sc_core::SC_ZERO_TIME);
  }
  void drive() { irq.write(presil_twin_chip_irq(twin_.get()) != 0); }

  // What was announced runs when the time that it takes has passed, in steps of the global quantum.
  void work() {
    for (;;) {
      if (!presil_twin_chip_pending(twin_.get())) wait(doorbell_);
      presil_twin_memory window;
      if (!presil_twin_chip_pending(twin_.get()) || !find_memory(&window)) continue;
      sc_core::sc_time left = static_cast<double>(presil_twin_chip_estimate(twin_.get(), &window)) * period_;
      const sc_core::sc_time quantum = tlm::tlm_global_quantum::instance().get();
      while (left > sc_core::SC_ZERO_TIME && presil_twin_chip_pending(twin_.get())) {
        const sc_core::sc_time step = quantum > sc_core::SC_ZERO_TIME && quantum < left ? quantum : left;
        wait(step);
        left -= step;
      }
      if (find_memory(&window)) presil_twin_chip_run(twin_.get(), &window, watch_ ? on_write : nullptr, this);
      last_ = cycles();
      update();
    }
  }

  static void on_write(void* context, uint64_t address, uint64_t bytes, uint32_t) {
    static_cast<TwinModule*>(context)->watch_(address, bytes);
  }

  bool find_memory(presil_twin_memory* window) {
    if (!granted_) {
      tlm::tlm_generic_payload payload;
      payload.set_command(tlm::TLM_READ_COMMAND);
      payload.set_address(uint64_t{presil_twin_chip_read(twin_.get(), PRESIL_REG_RING_BASE_HI)} << 32 |
                          presil_twin_chip_read(twin_.get(), PRESIL_REG_RING_BASE_LO));  // where its commands lie
      dmi_.init();
      granted_ = memory->get_direct_mem_ptr(payload, dmi_) && dmi_.is_read_write_allowed();
    }
    if (granted_) {
      *window = {dmi_.get_start_address(), dmi_.get_end_address() - dmi_.get_start_address() + 1, dmi_.get_dmi_ptr()};
      return true;
    }
    stopped_ = "the twin needs direct access to the memory behind its socket (get_direct_mem_ptr, reading and "
               "writing): it was not granted";
    ended_.notify(sc_core::SC_ZERO_TIME);
    presil_twin_chip_reset(twin_.get());
    return false;
  }

  std::unique_ptr<presil_twin_chip, TwinDeleter> twin_;
  const sc_core::sc_time period_;
  sc_core::sc_event doorbell_, level_, ended_;
  tlm::tlm_dmi dmi_;
  bool granted_ = false;
  uint64_t last_ = 0;
  std::string stopped_;
  WriteWatch watch_;
};

}  // namespace

Chip* make_twin_chip(const char* name, const std::string& config, Clock& clock, std::string* error) {
  presil_twin_chip* twin = presil_twin_chip_create(config.c_str());
  if (twin) return new TwinModule(name, twin, clock);
  *error = "the twin has no configuration \"" + config + "\" (rtl/configs.json)";
  return nullptr;
}

}  // namespace presil
