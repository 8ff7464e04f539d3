// SPDX-License-Identifier: Apache-2.0
// $fatal, $stop, $finish and failed assertions in a verilated module. They can't leave the model as exceptions, since
// the kernel runs it: they are kept here until the chip looks.
#pragma once
#include <string>

namespace presil {

const std::string& stop_reason();  // of the first one since forget_stop(); empty: none
void forget_stop();

}  // namespace presil
