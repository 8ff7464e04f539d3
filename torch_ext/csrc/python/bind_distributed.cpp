// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "c10d/process_group.h"

#include <torch/csrc/utils/pybind.h>

namespace presil {

// Backend's Python type is torch's own (torch._C._distributed_c10d.Backend).
void bind_distributed(pybind11::module_& m) {
  m.def("make_process_group", &make_process_group, pybind11::call_guard<pybind11::gil_scoped_release>());
}

}  // namespace presil
