// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "python/origin.h"
#include "runtime/errors.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace presil {

void bind_errors(py::module_& m) {
  watch_origins();
  m.def("error_table", [] {
    py::list out;
    for (const auto& row : error_table())
      out.append(py::make_tuple(presil_status_name(row.status), row.exception, row.meaning));
    return out;
  });
  m.def("status_codes", [] {  // error_code of a torch.AcceleratorError
    py::dict out;
    for (const auto& row : error_table()) out[presil_status_name(row.status)] = -static_cast<int>(row.status);
    return out;
  });
  m.def("origin_text", &origin_text);
}

}  // namespace presil
