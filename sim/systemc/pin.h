// SPDX-License-Identifier: Apache-2.0
// A wire between a verilated module's port and its bridge, which alone look at it. It has the interface of sc_signal,
// but no update phase and no event of its own: the bridge evaluates the model when all inputs are set (an sc_signal a
// port costs as much as the model itself).
#pragma once
#include <cstdint>
#include <cstring>
#include <systemc>

namespace presil {

template <class T> class PinBase : public sc_core::sc_signal_inout_if<T> {
 public:
  // event: what a process that is sensitive to the port wakes up from.
  explicit PinBase(const sc_core::sc_event& event) : event_(event) {}

  T value{};

  const T& read() const override { return value; }
  const T& get_data_ref() const override { return value; }
  void write(const T& v) override { value = v; }
  bool event() const override { return false; }
  const sc_core::sc_event& default_event() const override { return event_; }
  const sc_core::sc_event& value_changed_event() const override { return event_; }

 private:
  const sc_core::sc_event& event_;
};

template <class T> class Pin : public PinBase<T> {
 public:
  using PinBase<T>::PinBase;
};

template <> class Pin<bool> : public PinBase<bool> {
 public:
  using PinBase<bool>::PinBase;

  const sc_core::sc_event& posedge_event() const override { return default_event(); }
  const sc_core::sc_event& negedge_event() const override { return default_event(); }
  bool posedge() const override { return false; }
  bool negedge() const override { return false; }

 private:
  sc_core::sc_reset* is_reset() const override { return nullptr; }
};

// When the model is evaluated after a change of its inputs: once a cycle, after all of them.
struct Evaluation {
  sc_core::sc_event now;  // wakes the model up
  bool coming = false;    // between edge and settle: it will be evaluated anyway
  void changed() {
    if (!coming) now.notify(sc_core::SC_ZERO_TIME);
  }
};

// The bytes of a port's value, lowest first.
template <class T> void pin_to_bytes(const T& value, uint8_t* to, unsigned bytes) { memcpy(to, &value, bytes); }
template <int W> void pin_to_bytes(const sc_dt::sc_bv<W>& value, uint8_t* to, unsigned) {
  for (int i = 0; i < W / 32; i++) {
    const uint32_t word = value.get_word(i);
    memcpy(to + 4 * i, &word, 4);
  }
}
template <class T> void bytes_to_pin(const uint8_t* from, T* value, unsigned bytes) { memcpy(value, from, bytes); }
template <int W> void bytes_to_pin(const uint8_t* from, sc_dt::sc_bv<W>* value, unsigned) {
  for (int i = 0; i < W / 32; i++) {
    uint32_t word;
    memcpy(&word, from + 4 * i, 4);
    value->set_word(i, word);
  }
}

}  // namespace presil
