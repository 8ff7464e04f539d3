// SPDX-License-Identifier: Apache-2.0
#include "stage.h"

#include <stdexcept>

namespace presil {

Stage::Stage(sc_core::sc_module_name name) : sc_module(name) {
  SC_HAS_PROCESS(Stage);
  SC_THREAD(play);
  set_stack_size(256 << 10);
}

int Stage::perform(const std::function<int()>& body) {
  body_ = &body;
  thrown_ = nullptr;
  curtain_.notify(sc_core::SC_ZERO_TIME);
  sc_core::sc_start();
  if (body_) throw std::runtime_error("the SystemC kernel stopped in the middle of a call");
  if (thrown_) std::rethrow_exception(thrown_);
  return result_;
}

void Stage::play() {
  for (;;) {
    while (!body_) wait(curtain_);
    try {
      result_ = (*body_)();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    body_ = nullptr;
    sc_core::sc_pause();
  }
}

}  // namespace presil
