// SPDX-License-Identifier: Apache-2.0
// The chip without a clock: the C twin behind the chip's registers, loosely timed. Reaches its memory by the direct
// memory interface.
#pragma once
#include <string>

#include "chip_module.h"

namespace presil {

// A chip of a configuration of rtl/configs.json, or null with a text. clock: its period scales the estimates.
Chip* make_twin_chip(const char* name, const std::string& config, Clock& clock, std::string* error);

}  // namespace presil
