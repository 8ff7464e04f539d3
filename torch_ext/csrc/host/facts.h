// SPDX-License-Identifier: Apache-2.0
// What the fallback has to know of an operator, read from its schema once a thread.
#pragma once
#include "host/fallback.h"

#include <bitset>

namespace presil {

constexpr size_t kMaxArguments = 64;

struct OperatorFacts {
  c10::OperatorName name{"", ""};
  HostSite* site = nullptr;
  ChipKernel chip = nullptr;
  size_t arguments = 0, returns = 0;
  std::bitset<kMaxArguments> written;   // arguments that the schema says are written
  std::bitset<kMaxArguments> unmarked;  // that are written without its saying so: running statistics
  int training = -1;                    // position of the flag without which those are only read; -1: always written
  std::bitset<kMaxArguments>
      cpu_results;      // results that PyTorch keeps on the CPU whatever the device (batch sizes of a packed sequence)
  bool random = false;  // draws from the default generator if none is given
  int generator = -1;   // position of the optional Generator argument, -1: none
  bool mixes = false;   // takes CPU tensors beside the device's by its contract (index tensors, lengths)

  // Whether a call with these arguments writes the one at position i.
  bool writes(size_t i, const c10::IValue* arguments) const {
    return written[i] || (C10_UNLIKELY(unmarked[i]) && (training < 0 || arguments[training].toBool()));
  }
};

const OperatorFacts& facts_of(const c10::OperatorHandle& op);

}  // namespace presil
