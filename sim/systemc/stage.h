// SPDX-License-Identifier: Apache-2.0
// Lets the simulation run for as long as one function takes, which runs in a thread process and may wait for simulated
// time.
#pragma once
#include <exception>
#include <functional>
#include <systemc>

namespace presil {

class Stage : public sc_core::sc_module {
 public:
  explicit Stage(sc_core::sc_module_name name);

  // From outside of the simulation, which is paused before and after. Throws what `body` throws.
  int perform(const std::function<int()>& body);

 private:
  void play();

  sc_core::sc_event curtain_;
  const std::function<int()>* body_ = nullptr;
  int result_ = 0;
  std::exception_ptr thrown_;
};

}  // namespace presil
