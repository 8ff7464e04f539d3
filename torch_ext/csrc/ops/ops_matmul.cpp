// SPDX-License-Identifier: Apache-2.0
// Matrix products. What the chip takes (float32, bfloat16, float16; int8 for _int_mm) runs there whatever the strides;
// the rest, and every invalid call, is the CPU's.
#include "ops/chip_ops.h"
#include "host/fallback.h"
#include "ops/one_device.h"
#include "ops/out.h"
#include "ops/typed_product.h"

#include <mutex>
#include <set>
#include <string>

#include <torch/library.h>

namespace presil {
namespace {

using at::Scalar;
using at::Tensor;

bool same_chip_dtype(std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  for (const Tensor* t : tensors)
    if (t->scalar_type() != first.scalar_type() || t->is_neg() || t->is_conj()) return false;
  return chip_dtype(first.scalar_type());
}

// "aten::mm" of "mm": there are few, and whoever counts operators keeps the pointer.
const char* operator_name(const char* label) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard<std::mutex> lock(mutex);
  return names.insert(std::string("aten::") + label).first->c_str();
}

// What the chip refuses, for the reason that it gave.
Tensor product_on_host(const char* label, const std::string& reason, const Tensor& a, const Tensor& b,
                       const Tensor& residual, c10::ScalarType out_type) {
  const auto type = out_type == c10::kFloat || out_type == c10::kInt ? out_type : a.scalar_type();
  return on_host(operator_name(label), reason, a.device().index(), [&](HostViews& v) {
    const Tensor x = v.to_host(a).to(type), y = v.to_host(b).to(type);
    return (residual.defined() ? at::baddbmm(v.to_host(residual).to(type), x, y) : at::bmm(x, y)).to(out_type);
  });
}

// [B,M,K] x [B,K,N] (+ residual [B,M,N], broadcast by strides). Shapes and dtypes are checked by the callers; LOAD
// takes any strides.
Tensor product(const char* label, const Tensor& a, const Tensor& b, const Tensor& residual, c10::ScalarType out_type,
               presil_compute compute) {
  const int64_t batch = a.size(0), m = a.size(1), n = b.size(2);
  Tensor out = at::empty({batch, m, n}, a.options().dtype(memory_type(out_type, a.device().index())));
  if (out.numel() == 0) return rounded(out, out_type);
  if (a.size(2) == 0) return rounded(residual.defined() ? out.copy_(residual) : out.zero_(), out_type);
  if (a.scalar_type() == c10::kHalf && out.scalar_type() != out_type) {
    const Tensor own = at::empty({batch, m, n}, a.options());
    if (std::string reason; product_as_it_is(label, a, b, residual, own, &reason)) return own;
  }
  Fusion fusion;
  if (residual.defined()) {
    const Tensor wide = widened(residual);
    fusion.residual = chip_dtype(wide.scalar_type()) ? wide : wide.to(c10::kFloat);
  }
  if (!chip_matmul(label, widened(a), widened(b), out, compute, fusion))
    return product_on_host(label, presil_error_text(), a, b, residual, out_type);
  return rounded(out, out_type);
}

// Sums of int16 wrap around to 16 bits, as PyTorch's do.
Tensor int16_product(const char* label, const Tensor& a, const Tensor& b, std::string* reason) {
  if (a.scalar_type() != c10::kShort || b.scalar_type() != c10::kShort) return {};
  const Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  return product_as_it_is(label, a, b, {}, out, reason) ? out : Tensor();
}

Tensor presil_mm(const Tensor& a, const Tensor& b) {
  std::string reason = "dtype or shape";
  const bool fits = a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0);
  if (fits) {
    const Tensor out = int16_product("mm", a.unsqueeze(0), b.unsqueeze(0), &reason);
    if (out.defined()) return out.squeeze(0);
  }
  if (!fits || !same_chip_dtype({&a, &b}))
    return on_host("aten::mm", reason, a.device().index(),
                   [&](HostViews& v) { return at::mm(v.to_host(a), v.to_host(b)); });
  return product("mm", a.unsqueeze(0), b.unsqueeze(0), {}, a.scalar_type(), compute_for(a.scalar_type())).squeeze(0);
}

Tensor presil_bmm(const Tensor& a, const Tensor& b) {
  std::string reason = "dtype or shape";
  const bool fits = a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1);
  if (fits) {
    const Tensor out = int16_product("bmm", a, b, &reason);
    if (out.defined()) return out;
  }
  if (!fits || !same_chip_dtype({&a, &b}))
    return on_host("aten::bmm", reason, a.device().index(),
                   [&](HostViews& v) { return at::bmm(v.to_host(a), v.to_host(b)); });
  return product("bmm", a, b, {}, a.scalar_type(), compute_for(a.scalar_type()));
}

// beta * self + alpha * product: alone beta in {0, 1} and alpha = 1 fit the epilogue; other factors are applied by the
// host to the fp32 product, rounded once.
Tensor scaled(const Tensor& self, const Tensor& product, const Scalar& beta, const Scalar& alpha,
              c10::ScalarType out_type) {
  Tensor out = product;
  if (!alpha.equal(1)) out = out.mul(alpha);
  if (!beta.equal(0)) out = out.add(self.to(c10::kFloat), beta);
  return out.to(out_type);
}

// a, b: [B, M, K], [B, K, N]; self: expanded to [B, M, N].
Tensor add_product(const char* label, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                   const Scalar& alpha, c10::ScalarType out_type) {
  const auto compute = compute_for(a.scalar_type());
  if (alpha.equal(1) && beta.equal(1)) return product(label, a, b, self, out_type, compute);
  if (alpha.equal(1) && beta.equal(0)) return product(label, a, b, {}, out_type, compute);
  return scaled(self, product(label, a, b, {}, c10::kFloat, compute), beta, alpha, out_type);
}

bool addable(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return same_chip_dtype({&self, &a, &b}) && !beta.isComplex() && !alpha.isComplex();
}

Tensor presil_addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const bool fits = a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && a.size(1) > 0 && self.dim() <= 2 &&
                    addable(self, a, b, beta, alpha) && at::is_expandable_to(self.sizes(), {a.size(0), b.size(1)});
  if (!fits)
    return on_host("aten::addmm", "dtype or shape", self.device().index(),
                   [&](HostViews& v) { return at::addmm(v.to_host(self), v.to_host(a), v.to_host(b), beta, alpha); });
  return add_product("addmm", self.expand({a.size(0), b.size(1)}).unsqueeze(0), a.unsqueeze(0), b.unsqueeze(0), beta,
                     alpha, a.scalar_type())
      .squeeze(0);
}

Tensor presil_baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const bool fits = a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1) &&
                    self.dim() <= 3 && addable(self, a, b, beta, alpha) &&
                    at::is_expandable_to(self.sizes(), {a.size(0), a.size(1), b.size(2)});
  if (!fits)
    return on_host("aten::baddbmm", "dtype or shape", self.device().index(),
                   [&](HostViews& v) { return at::baddbmm(v.to_host(self), v.to_host(a), v.to_host(b), beta, alpha); });
  return add_product("baddbmm", self.expand({a.size(0), a.size(1), b.size(2)}), a, b, beta, alpha, a.scalar_type());
}

Tensor presil_mv(const Tensor& a, const Tensor& x) {
  if (a.dim() != 2 || x.dim() != 1 || a.size(1) != x.size(0) || !same_chip_dtype({&a, &x}))
    return on_host("aten::mv", "dtype or shape", a.device().index(),
                   [&](HostViews& v) { return at::mv(v.to_host(a), v.to_host(x)); });
  return product("mv", a.unsqueeze(0), x.unsqueeze(0).unsqueeze(2), {}, a.scalar_type(), compute_for(a.scalar_type()))
      .view({a.size(0)});
}

Tensor presil_dot(const Tensor& x, const Tensor& y) {
  if (x.dim() != 1 || y.dim() != 1 || x.size(0) != y.size(0) || !same_chip_dtype({&x, &y}))
    return on_host("aten::dot", "dtype or shape", x.device().index(),
                   [&](HostViews& v) { return at::dot(v.to_host(x), v.to_host(y)); });
  return product("dot", x.unsqueeze(0).unsqueeze(0), y.unsqueeze(1).unsqueeze(0), {}, x.scalar_type(),
                 compute_for(x.scalar_type()))
      .view(c10::IntArrayRef{});
}

Tensor presil_int_mm(const Tensor& a, const Tensor& b) {
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0) || a.scalar_type() != c10::kChar ||
      b.scalar_type() != c10::kChar)
    return on_host("aten::_int_mm", "dtype or shape", a.device().index(),
                   [&](HostViews& v) { return at::_int_mm(v.to_host(a), v.to_host(b)); });
  return product("_int_mm", a.unsqueeze(0), b.unsqueeze(0), {}, c10::kInt, PRESIL_COMPUTE_INT8).squeeze(0);
}

// Products of two batches of codes as they are, [B, M, K] and [B, K, N]: int32, wrapping around.
Tensor bmm_int8(const Tensor& a, const Tensor& b) {
  TORCH_CHECK_TYPE(a.scalar_type() == c10::kChar && b.scalar_type() == c10::kChar,
                   "presil::bmm_int8: expected int8 operands, got ", a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK_VALUE(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1) && a.size(2) > 0,
                    "presil::bmm_int8: [B, M, K] and [B, K, N] expected, K > 0; got ", a.sizes(), " and ", b.sizes());
  return product("bmm_int8", a, b, {}, c10::kInt, PRESIL_COMPUTE_INT8);
}

Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) { return into(out, presil_mm(a, b)); }
Tensor& bmm_out(const Tensor& a, const Tensor& b, Tensor& out) { return into(out, presil_bmm(a, b)); }
Tensor& addmm_out(const Tensor& s, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  return into(out, presil_addmm(s, a, b, beta, alpha));
}
Tensor& baddbmm_out(const Tensor& s, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                    Tensor& out) {
  return into(out, presil_baddbmm(s, a, b, beta, alpha));
}
Tensor& int_mm_out(const Tensor& a, const Tensor& b, Tensor& out) { return into(out, presil_int_mm(a, b)); }

// Results in float32 of bfloat16 or float16 operands: the sum as the chip has it, not rounded.
void check_out_dtype(const char* name, const Tensor& a, const Tensor& b, c10::ScalarType out_dtype) {
  const auto t = a.scalar_type();
  TORCH_CHECK(b.scalar_type() == t, name, ": expected both matrices to have the same dtype, but got ", t, " and ",
              b.scalar_type());
  TORCH_CHECK(out_dtype == t || (out_dtype == c10::kFloat && (t == c10::kHalf || t == c10::kBFloat16)), name,
              ": out_dtype must be the operands' dtype, or float32 for float16 and bfloat16 operands; got ", out_dtype,
              " for ", t);
}
Tensor mm_dtype(const Tensor& a, const Tensor& b, c10::ScalarType out_dtype) {
  check_out_dtype("mm", a, b, out_dtype);
  if (out_dtype == a.scalar_type() || a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0) ||
      !same_chip_dtype({&a, &b}))
    return presil_mm(a, b).to(out_dtype);
  return product("mm", a.unsqueeze(0), b.unsqueeze(0), {}, out_dtype, compute_for(a.scalar_type())).squeeze(0);
}
Tensor bmm_dtype(const Tensor& a, const Tensor& b, c10::ScalarType out_dtype) {
  check_out_dtype("bmm", a, b, out_dtype);
  if (out_dtype == a.scalar_type() || a.dim() != 3 || b.dim() != 3 || a.size(0) != b.size(0) ||
      a.size(2) != b.size(1) || !same_chip_dtype({&a, &b}))
    return presil_bmm(a, b).to(out_dtype);
  return product("bmm", a, b, {}, out_dtype, compute_for(a.scalar_type()));
}
Tensor addmm_dtype(const Tensor& self, const Tensor& a, const Tensor& b, c10::ScalarType out_dtype, const Scalar& beta,
                   const Scalar& alpha) {
  check_out_dtype("addmm", a, b, out_dtype);
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0),
              "addmm: mat1 and mat2 shapes cannot be multiplied (", a.sizes(), " and ", b.sizes(), ")");
  if (!same_chip_dtype({&a, &b})) return presil_addmm(self, a, b, beta, alpha).to(out_dtype);
  return add_product("addmm", self.expand({a.size(0), b.size(1)}).unsqueeze(0), a.unsqueeze(0), b.unsqueeze(0), beta,
                     alpha, out_dtype)
      .squeeze(0);
}
Tensor baddbmm_dtype(const Tensor& self, const Tensor& a, const Tensor& b, c10::ScalarType out_dtype,
                     const Scalar& beta, const Scalar& alpha) {
  check_out_dtype("baddbmm", a, b, out_dtype);
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1),
              "baddbmm: batch1 and batch2 shapes cannot be multiplied (", a.sizes(), " and ", b.sizes(), ")");
  if (!same_chip_dtype({&a, &b})) return presil_baddbmm(self, a, b, beta, alpha).to(out_dtype);
  return add_product("baddbmm", self.expand({a.size(0), a.size(1), b.size(2)}), a, b, beta, alpha, out_dtype);
}
Tensor& mm_dtype_out(const Tensor& a, const Tensor& b, c10::ScalarType d, Tensor& out) {
  return into(out, mm_dtype(a, b, d));
}
Tensor& bmm_dtype_out(const Tensor& a, const Tensor& b, c10::ScalarType d, Tensor& out) {
  return into(out, bmm_dtype(a, b, d));
}
Tensor& addmm_dtype_out(const Tensor& s, const Tensor& a, const Tensor& b, c10::ScalarType d, const Scalar& beta,
                        const Scalar& alpha, Tensor& out) {
  return into(out, addmm_dtype(s, a, b, d, beta, alpha));
}
Tensor& baddbmm_dtype_out(const Tensor& s, const Tensor& a, const Tensor& b, c10::ScalarType d, const Scalar& beta,
                          const Scalar& alpha, Tensor& out) {
  return into(out, baddbmm_dtype(s, a, b, d, beta, alpha));
}

TORCH_LIBRARY_FRAGMENT(presil, m) { m.def("bmm_int8(Tensor a, Tensor b) -> Tensor"); }
TORCH_LIBRARY_IMPL(presil, PrivateUse1, m) { PRESIL_IMPL_ON_ONE_DEVICE(m, "bmm_int8", bmm_int8); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  PRESIL_IMPL_ON_ONE_DEVICE(m, "mm.dtype", mm_dtype);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "mm.dtype_out", mm_dtype_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "bmm.dtype", bmm_dtype);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "bmm.dtype_out", bmm_dtype_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "addmm.dtype", addmm_dtype);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "addmm.dtype_out", addmm_dtype_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "baddbmm.dtype", baddbmm_dtype);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "baddbmm.dtype_out", baddbmm_dtype_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "mm", presil_mm);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "mm.out", mm_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "bmm", presil_bmm);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "bmm.out", bmm_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "addmm", presil_addmm);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "addmm.out", addmm_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "baddbmm", presil_baddbmm);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "baddbmm.out", baddbmm_out);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "mv", presil_mv);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "dot", presil_dot);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "_int_mm", presil_int_mm);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "_int_mm.out", int_mm_out);
}

}  // namespace
}  // namespace presil
