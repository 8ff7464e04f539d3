// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "compiler/partition.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace presil {

void bind_compiler(py::module_& m) {
  // Whether the chip has operators of the kind of this name (presil_op_name) at all.
  m.def("chip_has", [](int index, const std::string& kind) {
    for (uint32_t i = 0; presil_op_name(i); i++)
      if (kind == presil_op_name(i)) return (presil_op_kinds(device(index)) >> i & 1) != 0;
    throw py::value_error("no kind of operator is called \"" + kind + "\"");
  });
  using OptionalTensor = std::optional<at::Tensor>;
  using Pair = std::array<int64_t, 2>;
  py::class_<Partition, std::shared_ptr<Partition>>(m, "Partition")
      .def(py::init<int, bool>(), py::arg("index"), py::arg("only_ask") = false)
      .def(
          "conv2d",
          [](Partition& r, const std::string& label, const at::Tensor& x, const at::Tensor& weight,
             const OptionalTensor& bias, const std::vector<OptionalTensor>& norm, double eps, Pair stride, Pair padding,
             Pair dilation, Pair input_dilation, int64_t groups, bool transposed, const OptionalTensor& residual,
             std::optional<double> low, std::optional<double> high, const at::Tensor& out) {
            r.conv2d(label, x, weight, bias, norm, eps, ConvGeometry{stride, padding, dilation, input_dilation, groups},
                     transposed, Tail{residual, low, high}, out);
          })
      .def("linear", [](Partition& r, const std::string& label, const at::Tensor& x, const at::Tensor& weight,
                        const OptionalTensor& bias, const OptionalTensor& residual, std::optional<double> low,
                        std::optional<double> high,
                        const at::Tensor& out) { r.linear(label, x, weight, bias, Tail{residual, low, high}, out); })
      .def("matmul", [](Partition& r, const std::string& label, const at::Tensor& a, const at::Tensor& b,
                        const OptionalTensor& residual, std::optional<double> low, std::optional<double> high,
                        const at::Tensor& out) { r.matmul(label, a, b, Tail{residual, low, high}, out); })
      .def("input_grad",
           [](Partition& r, const std::string& label, const at::Tensor& grad, const at::Tensor& weight, Pair stride,
              Pair padding, Pair dilation, bool transposed, int64_t groups, const OptionalTensor& residual,
              const at::Tensor& out) {
             r.input_grad(label, grad, weight,
                          ConvArguments{stride, padding, dilation, transposed, groups,
                                        compute_for(grad.scalar_type(), Fp32Op::conv)},
                          residual, out);
           })
      .def("weight_grad",
           [](Partition& r, const std::string& label, const at::Tensor& grad, const at::Tensor& x, Pair stride,
              Pair padding, Pair dilation, bool transposed, int64_t groups, const at::Tensor& out) {
             r.weight_grad(label, grad, x,
                           ConvArguments{stride, padding, dilation, transposed, groups,
                                         compute_for(grad.scalar_type(), Fp32Op::conv)},
                           out);
           })
      .def("bias_grad", &Partition::bias_grad)
      .def("finish", &Partition::finish, py::call_guard<py::gil_scoped_release>())
      .def("submit", &Partition::submit, py::call_guard<py::gil_scoped_release>())
      .def("place_weights", &Partition::place_weights)
      .def_property_readonly("weights_bytes", &Partition::weights_bytes)
      .def("save", [](const Partition& r, uint64_t base) { return py::bytes(r.save(base)); })
      .def("valid", &Partition::valid, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("launches", &Partition::launches)
      .def_property_readonly("operators", &Partition::operators);
}

}  // namespace presil
