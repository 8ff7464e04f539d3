// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention. Products on the chip; scores [.., L, S] are in memory for at most kTileRows queries at
// a time, and with gradients are computed again by backward. A query's result has the same bits in any tile: no product
// and no softmax looks at two queries.
#include "ops/given.h"

#include <ATen/ATen.h>
#include <ATen/FuncTorchTLS.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// 1,024 queries and keys of 64 take 1.2 % more cycles on base than in one piece; with is_causal 37 % less, because
// later keys are left out.
constexpr int64_t kTileRows = 256;

struct Attention {
  OptionalTensor mask;  // bool: true where a pair takes part; else added to the scores
  bool causal;
  std::optional<double> scale;
  bool grouped;  // fewer heads of keys and values than of queries
};

// true where a query may see a key: queries [first, first + queries) of keys [0, keys), counted from the first of both.
Tensor earlier_keys(const c10::SymInt& queries, const c10::SymInt& keys, int64_t first, const Tensor& like) {
  return at::ones_symint({queries, keys}, like.options().dtype(at::kBool).requires_grad(false)).tril(first);
}

// A mask together with is_causal is one mask here: PyTorch's own operators refuse them together, the CPU's kernel
// doesn't.
Tensor without_later_keys(const Tensor& mask, const Tensor& earlier) {
  if (mask.scalar_type() == at::kBool) return mask.logical_and(earlier);
  return at::where(earlier, mask, -std::numeric_limits<double>::infinity());
}

bool known_sizes(const Tensor& t) {
  const auto sizes = t.sym_sizes();
  return t.dim() >= 2 && std::none_of(sizes.begin(), sizes.end(), [](const auto& s) { return s.is_symbolic(); });
}

// torch.func's transforms know no operator with a backward of its own in C++.
bool transformed() {
  const auto& transforms = at::functorch::functorchTLSAccessor();
  if (!transforms) return false;
  try {
    transforms->checkSupportsCppAutogradFunction();
    return false;
  } catch (const c10::Error&) {
    return true;
  }
}

bool bf16_here(const Tensor& t) {
  return t.device().is_privateuseone() && t.scalar_type() == at::kBFloat16 && known_sizes(t);
}

// Whether bf16_attention() takes them. What is wrong, or empty, is PyTorch's to answer.
bool for_bf16(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, bool grouped) {
  if (!bf16_here(query) || !bf16_here(key) || !bf16_here(value)) return false;
  const int64_t dim = query.dim();
  if (grouped && dim < 3) return false;
  if (key.dim() != dim || value.dim() != dim ||
      (mask && (mask->dim() > dim || !mask->device().is_privateuseone() || (mask->dim() >= 2 && !known_sizes(*mask)))))
    return false;
  if (query.numel() == 0 || key.numel() == 0 || value.numel() == 0 || query.size(-1) != key.size(-1) ||
      key.size(-2) != value.size(-2))
    return false;
  for (int64_t i = 0; i + 2 < dim; i++) {
    const bool heads = grouped && i + 3 == dim;
    if (key.size(i) != value.size(i) || (heads ? query.size(i) % key.size(i) != 0 : query.size(i) != key.size(i)))
      return false;
  }
  return true;
}

// Both products take bf16 as it is: scores in float32, scaled, masked and made probabilities there, and those rounded
// to bf16 for the second product, as PyTorch's fused kernels do. Its parts widen all to float32: six passes for one.
Tensor bf16_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                      const Attention& how) {
  const auto heads = [&](const Tensor& t) {
    const int64_t times = how.grouped ? query.size(-3) / t.size(-3) : 1;
    return times > 1 ? t.repeat_interleave(times, -3) : t;
  };
  const auto batches = [](const Tensor& t) { return t.reshape({-1, t.size(-2), t.size(-1)}); };
  std::vector<int64_t> shape = query.sizes().vec();
  shape.back() = key.size(-2);
  Tensor scores = at::bmm(batches(query), batches(heads(key)).transpose(1, 2), at::kFloat)
                      .mul_(how.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1)))))
                      .view(shape);
  if (mask && mask->scalar_type() == at::kBool)
    scores.masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  else if (mask)
    scores.add_(*mask);
  const Tensor chances = at::_safe_softmax(scores, -1).to(at::kBFloat16);
  shape.back() = value.size(-1);
  return at::bmm(batches(chances), batches(heads(value))).view(shape);
}

Tensor whole(const Tensor& query, const Tensor& key, const Tensor& value, const Attention& how, double dropout) {
  OptionalTensor mask = how.mask;
  if (how.causal && mask)
    mask = without_later_keys(*mask, earlier_keys(query.sym_size(-2), key.sym_size(-2), 0, *mask));
  return at::native::scaled_dot_product_attention(query, key, value, mask, dropout, how.causal && !how.mask, how.scale,
                                                  how.grouped);
}

struct Tile {
  int64_t first, rows, keys;  // queries, and how many keys they may see
};

std::vector<Tile> tiles(const Tensor& query, const Tensor& key, const Attention& how) {
  std::vector<Tile> found;
  const int64_t queries = query.size(-2), keys = key.size(-2);
  for (int64_t first = 0; first < queries; first += kTileRows) {
    const int64_t rows = std::min(kTileRows, queries - first);
    found.push_back({first, rows, how.causal && !how.mask ? std::min(keys, first + rows) : keys});
  }
  return found;
}

Tensor of_tile(const Tile& tile, const Tensor& query, const Tensor& key, const Tensor& value, const Attention& how,
               bool bf16 = false) {
  OptionalTensor mask = how.mask;
  if (mask && mask->dim() > 1 && mask->size(-2) != 1) mask = mask->narrow(-2, tile.first, tile.rows);
  if (how.causal) {
    const Tensor earlier = earlier_keys(tile.rows, tile.keys, tile.first, query);
    mask = mask ? without_later_keys(*mask, earlier) : earlier;
  }
  if (bf16) return bf16_attention(query, key, value, mask, how);
  return at::native::scaled_dot_product_attention(query, key, value, mask, 0.0, false, how.scale, how.grouped);
}

Tensor rows_of(const Tensor& t, const Tile& tile) { return t.narrow(-2, tile.first, tile.rows); }
Tensor keys_of(const Tensor& t, const Tile& tile) { return t.narrow(-2, 0, tile.keys); }

Tensor in_tiles(const Tensor& query, const Tensor& key, const Tensor& value, const Attention& how, bool bf16 = false) {
  std::vector<Tensor> results;
  for (const Tile& tile : tiles(query, key, how))
    results.push_back(of_tile(tile, rows_of(query, tile), keys_of(key, tile), keys_of(value, tile), how, bf16));
  return at::cat(results, -2);
}

Attention saved_in(AutogradContext* ctx) {
  auto& data = ctx->saved_data;
  return {given_or_none(ctx->get_saved_variables()[3]), data["causal"].toBool(), data["scale"].toOptional<double>(),
          data["grouped"].toBool()};
}

// Gradients of keys and values are summed over the tiles, in float32 at least.
struct InTiles : torch::autograd::Function<InTiles> {
  static Tensor forward(AutogradContext* ctx, const Tensor& query, const Tensor& key, const Tensor& value,
                        const OptionalTensor& mask, bool causal, std::optional<double> scale, bool grouped) {
    ctx->save_for_backward({query, key, value, mask.value_or(Tensor())});
    ctx->saved_data["causal"] = causal;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["grouped"] = grouped;
    return in_tiles(query, key, value, {mask, causal, scale, grouped});
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Attention how = saved_in(ctx);
    const variable_list found =
        at::GradMode::is_enabled() ? differentiable(saved, how, grads[0]) : by_tiles(saved, how, grads[0]);
    return {found[0], found[1], found[2], Tensor(), Tensor(), Tensor(), Tensor()};
  }

 private:
  static variable_list by_tiles(const variable_list& saved, const Attention& how, const Tensor& grad) {
    const auto sum_of = [](const Tensor& t) {
      return at::zeros(t.sizes(), t.options().dtype(at::promote_types(t.scalar_type(), at::kFloat)));
    };
    std::vector<Tensor> query_grads;
    Tensor key_grad = sum_of(saved[1]), value_grad = sum_of(saved[2]);
    for (const Tile& tile : tiles(saved[0], saved[1], how)) {
      const auto leaf = [](const Tensor& t) { return t.detach().requires_grad_(); };
      const variable_list parts{leaf(rows_of(saved[0], tile)), leaf(keys_of(saved[1], tile)),
                                leaf(keys_of(saved[2], tile))};
      variable_list got;
      {
        const at::AutoGradMode recorded(true);
        got = torch::autograd::grad({of_tile(tile, parts[0], parts[1], parts[2], how)}, parts, {rows_of(grad, tile)});
      }
      query_grads.push_back(got[0]);
      keys_of(key_grad, tile).add_(got[1]);
      keys_of(value_grad, tile).add_(got[2]);
    }
    return {at::cat(query_grads, -2), key_grad.to(saved[1].scalar_type()), value_grad.to(saved[2].scalar_type())};
  }

  // For gradients of gradients: all of it is recorded, scores included.
  static variable_list differentiable(const variable_list& saved, const Attention& how, const Tensor& grad) {
    const auto tracked = [](const Tensor& t) { return t.requires_grad() ? t : t.detach().requires_grad_(); };
    const variable_list parts{tracked(saved[0]), tracked(saved[1]), tracked(saved[2])};
    return torch::autograd::grad({whole(parts[0], parts[1], parts[2], how, 0.0)}, parts, {grad}, true, true);
  }
};

bool fits_tiles(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                double dropout) {
  return dropout == 0 && known_sizes(query) && known_sizes(key) && known_sizes(value) &&
         (!mask || known_sizes(*mask) || mask->dim() < 2) && query.size(-2) > kTileRows &&
         key.size(-2) == value.size(-2);
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                 double dropout, bool causal, std::optional<double> scale, bool grouped) {
  const Attention how{given_or_none(mask), causal, scale, grouped};
  const bool learned_mask = how.mask && how.mask->requires_grad();
  const bool learned = query.requires_grad() || key.requires_grad() || value.requires_grad() || learned_mask;
  const bool inference = !at::GradMode::is_enabled() || !learned;
  // sdpa_kernel(SDPBackend.MATH) asks for PyTorch's own parts
  const bool bf16 = inference && dropout == 0 && at::globalContext().userEnabledFlashSDP() && !transformed() &&
                    for_bf16(query, key, value, how.mask, grouped);
  if (!fits_tiles(query, key, value, how.mask, dropout))
    return bf16 ? of_tile({0, query.size(-2), key.size(-2)}, query, key, value, how, true)
                : whole(query, key, value, how, dropout);
  if (inference) return in_tiles(query, key, value, how, bf16);
  if (learned_mask || transformed()) return whole(query, key, value, how, dropout);
  return InTiles::apply(query, key, value, how.mask, causal, scale, grouped);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("scaled_dot_product_attention", attention); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {  // made of operators that have gradients
  m.impl("scaled_dot_product_attention", attention);
}

}  // namespace
}  // namespace presil
