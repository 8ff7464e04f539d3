// SPDX-License-Identifier: Apache-2.0
// Creation, copies and views: the operators that every device must have, and those whose composite kernel is worse than
// the CPU's own.
#include "runtime/allocator.h"
#include "runtime/pinned.h"
#include "host/fallback.h"
#include "observe/moves.h"
#include "observe/observer.h"
#include "ops/one_device.h"
#include "runtime/writes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/tensor_split_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

c10::Device device_or_current(std::optional<c10::Device> d) {
  return c10::Device(kDevice, static_cast<c10::DeviceIndex>(d && d->index() >= 0 ? d->index() : current_device()));
}
c10::ScalarType element_type_or_default(std::optional<c10::ScalarType> dtype) {
  return dtype.value_or(c10::typeMetaToScalarType(at::get_default_dtype()));
}

// torch.use_deterministic_algorithms: memory nobody wrote has a known content (NaN, or the largest integer), as on
// every device.
Tensor filled_if_deterministic(Tensor t) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_empty_deterministic_(t);
  return t;
}

Tensor empty_memory_format(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                           std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                           std::optional<bool> pin, std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                              "presil: only strided tensors live on the device, got layout ", *layout);
  const c10::DeviceGuard guard(device_or_current(device));
  return filled_if_deterministic(at::detail::empty_generic(size, &device_allocator(),
                                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                           element_type_or_default(dtype), format));
}

Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                     std::optional<c10::Layout> layout, std::optional<c10::Device> device, std::optional<bool> pin) {
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                              "presil: only strided tensors live on the device, got layout ", *layout);
  const c10::DeviceGuard guard(device_or_current(device));
  return filled_if_deterministic(at::detail::empty_strided_generic(size, stride, &device_allocator(),
                                                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                                   element_type_or_default(dtype)));
}

Move kind_of_copy(const Tensor& from, const Tensor& to) {
  if (from.device().type() != kDevice) return Move::kToDevice;
  if (to.device().type() != kDevice) return Move::kToHost;
  if (from.device() != to.device()) return Move::kBetweenDevices;
  return from.scalar_type() != to.scalar_type() ? Move::kDtype
         : from.strides() != to.strides()       ? Move::kLayout
                                                : Move::kOnDevice;
}

void note_copy(const Tensor& from, const Tensor& to, int64_t nanoseconds) {
  const Move kind = kind_of_copy(from, to);
  note_move(kind, to.nbytes(), nanoseconds);
  observe_moved(to.nbytes(), move_text(kind));
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  const auto& here = self.device().type() == kDevice ? self : to;
  HostTrace trace(here.device().index(), "aten::copy_");
  AnnouncedWrites written;
  if (to.device().type() == kDevice) written.add(to);
  if (non_blocking && !capturing(here.device().index(), nullptr) && copy_later(self, to)) {
    note_copy(self, to, 0);
    return to;
  }
  // Two devices: each has its own views.
  HostViews from_views, to_views;
  Tensor source = from_views.to_host(self), target = to_views.to_host(to);
  from_views.settle();
  to_views.settle();
  const HostTimer timer;
  target.copy_(source);
  trace.done({});
  note_copy(self, to, timer.ns());
  return to;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

c10::Scalar local_scalar_dense(const Tensor& self) {
  refuse_capture(self.device().index(), "aten::_local_scalar_dense",
                 "a value that the host sees (.item(), bool(), printing) is not there yet when a graph is captured");
  HostViews views;
  views.settle(self.device().index());
  return at::_local_scalar_dense(views.to_host(self));
}

void record_stream(Tensor&, c10::Stream) {}

Tensor efficient_zero(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                      std::optional<c10::Device> device, std::optional<bool>) {
  // One allocator a device, kept for ever: the storages point to it.
  static auto* allocators = [] {
    auto* list = new std::vector<std::unique_ptr<at::native::ZeroTensorAllocator>>;
    for (int i = 0; i < device_count(); i++)
      list->push_back(
          std::make_unique<at::native::ZeroTensorAllocator>(c10::Device(kDevice, static_cast<c10::DeviceIndex>(i))));
    return list;
  }();
  const auto d = device_or_current(device);
  return at::detail::empty_generic(size, (*allocators)[d.index()].get(),
                                   c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor}),
                                   element_type_or_default(dtype), std::nullopt);
}

bool has_compatible_shallow_copy_type(const Tensor& a, const Tensor& b) {
  auto dense = [](const Tensor& t) {
    return t.layout() == c10::kStrided && (t.is_cpu() || t.device().type() == kDevice);
  };
  return dense(a) && dense(b);
}

// The split points are read by the host. On both keys, because the composite kernel, which refuses an index tensor of
// the device, stands on both.
std::vector<Tensor> tensor_split(const Tensor& self, const Tensor& indices, int64_t dim) {
  return at::native::tensor_split(self, indices.device().type() == kDevice ? indices.cpu() : indices, dim);
}

// The fused cells have no CPU kernel: the same formulas out of elementwise operators.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  return on_host("aten::_thnn_fused_lstm_cell", "no kernel on the chip", cx.device().index(), [&](HostViews& v) {
    Tensor gates = v.to_host(input_gates) + v.to_host(hidden_gates);
    if (input_bias && input_bias->defined()) gates = gates + v.to_host(*input_bias);
    if (hidden_bias && hidden_bias->defined()) gates = gates + v.to_host(*hidden_bias);
    auto c = gates.chunk(4, 1);
    c[0].sigmoid_();
    c[1].sigmoid_();
    c[2].tanh_();
    c[3].sigmoid_();
    Tensor cy = c[1] * v.to_host(cx) + c[0] * c[2];
    Tensor hy = c[3] * cy.tanh();
    return std::make_tuple(hy, cy, gates);
  });
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  return on_host("aten::_thnn_fused_lstm_cell_backward_impl", "no kernel on the chip", cx.device().index(),
                 [&](HostViews& v) {
                   const Tensor old = v.to_host(cx), now = v.to_host(cy);
                   auto c = v.to_host(workspace).chunk(4, 1);
                   const Tensor gh = grad_hy && grad_hy->defined() ? v.to_host(*grad_hy) : at::zeros_like(now);
                   const Tensor gy = grad_cy && grad_cy->defined() ? v.to_host(*grad_cy) : at::zeros_like(now);
                   const Tensor t = now.tanh();
                   const Tensor d = gh * c[3] * (1 - t * t) + gy;
                   Tensor gates = at::cat({d * c[2] * c[0] * (1 - c[0]), d * old * c[1] * (1 - c[1]),
                                           d * c[0] * (1 - c[2] * c[2]), gh * t * c[3] * (1 - c[3])},
                                          1);
                   return std::make_tuple(gates, d * c[1], has_bias ? gates.sum(0) : Tensor());
                 });
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  return on_host("aten::_thnn_fused_gru_cell", "no kernel on the chip", hx.device().index(), [&](HostViews& v) {
    Tensor ig = v.to_host(input_gates), hg = v.to_host(hidden_gates);
    if (input_bias && input_bias->defined()) ig = ig + v.to_host(*input_bias);
    if (hidden_bias && hidden_bias->defined()) hg = hg + v.to_host(*hidden_bias);
    const Tensor h = v.to_host(hx);
    auto a = ig.chunk(3, 1), b = hg.chunk(3, 1);
    const Tensor r = (a[0] + b[0]).sigmoid(), z = (a[1] + b[1]).sigmoid(), n = (a[2] + r * b[2]).tanh();
    return std::make_tuple((1 - z) * n + z * h, at::cat({r, z, n, h, b[2]}, 1));
  });
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                                                                     bool has_bias) {
  return on_host(
      "aten::_thnn_fused_gru_cell_backward", "no kernel on the chip", grad.device().index(), [&](HostViews& v) {
        const Tensor g = v.to_host(grad);
        auto k = v.to_host(workspace).chunk(5, 1);
        const Tensor &r = k[0], &z = k[1], &n = k[2], &h = k[3], &hn = k[4];
        const Tensor dn = g * (1 - z) * (1 - n * n), dz = g * (h - n) * z * (1 - z), dr = dn * hn * r * (1 - r);
        Tensor gi = at::cat({dr, dz, dn}, 1), gh = at::cat({dr, dz, dn * r}, 1);
        return std::make_tuple(gi, gh, g * z, has_bias ? gi.sum(0) : Tensor(), has_bias ? gh.sum(0) : Tensor());
      });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("record_stream", record_stream);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("_efficientzerotensor", efficient_zero);
  m.impl("tensor_split.tensor_indices_or_sections", tensor_split);
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "_thnn_fused_lstm_cell", lstm_cell);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "_thnn_fused_gru_cell", gru_cell);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "_thnn_fused_gru_cell_backward", gru_cell_backward);
  for (const char* name :
       {"native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward", "addr",
        "addr.out", "addr_", "_stack", "_stack.out", "narrow_copy", "mish_backward", "native_channel_shuffle",
        "silu_backward", "smooth_l1_loss", "mse_loss", "mode.values", "all.dims_out", "any.dims_out", "linalg__powsum"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("tensor_split.tensor_indices_or_sections", tensor_split); }

}  // namespace
}  // namespace presil
