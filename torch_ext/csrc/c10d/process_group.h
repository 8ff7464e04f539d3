// SPDX-License-Identifier: Apache-2.0
// torch.distributed over device memory that the host maps: every collective is handed to a backend for CPU tensors
// (Gloo), which reads and writes the device tensors in place through views. Nothing is copied to the host and back.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace presil {

// host: the group's backend for CPU tensors, with the same rank and size; kept. Tensors of one call must be on one
// device (or all on the CPU). The work's result and future hold the device tensors; a wait returns when the host has
// the data in place.
c10::intrusive_ptr<::c10d::Backend> make_process_group(c10::intrusive_ptr<::c10d::Backend> host);

}  // namespace presil
