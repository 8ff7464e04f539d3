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

Tensor of_tile(const Tile& tile, const Tensor& query, const Tensor& key, const Tensor& value, const Attention& how) {
  OptionalTensor mask = how.mask;
  if (mask && mask->dim() > 1 && mask->size(-2) != 1) mask = mask->narrow(-2, tile.first, tile.rows);
  if (how.causal) {
    const Tensor earlier = earlier_keys(tile.rows, tile.keys, tile.first, query);
    mask = mask ? without_later_keys(*mask, earlier) : earlier;
  }
  return at::native::scaled_dot_product_attention(query, key, value, mask, 0.0, false, how.scale, how.grouped);
}

Tensor rows_of(const Tensor& t, const Tile& tile) { return t.narrow(-2, tile.first, tile.rows); }
Tensor keys_of(const Tensor& t, const Tile& tile) { return t.narrow(-2, 0, tile.keys); }

Tensor in_tiles(const Tensor& query, const Tensor& key, const Tensor& value, const Attention& how) {
  std::vector<Tensor> results;
  for (const Tile& tile : tiles(query, key, how))
    results.push_back(of_tile(tile, rows_of(query, tile), keys_of(key, tile), keys_of(value, tile), how));
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

bool fits_tiles(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                double dropout) {
  const auto known = [](const Tensor& t) {
    const auto sizes = t.sym_sizes();
    return t.dim() >= 2 && std::none_of(sizes.begin(), sizes.end(), [](const auto& s) { return s.is_symbolic(); });
  };
  return dropout == 0 && known(query) && known(key) && known(value) && (!mask || known(*mask) || mask->dim() < 2) &&
         query.size(-2) > kTileRows && key.size(-2) == value.size(-2);
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                 double dropout, bool causal, std::optional<double> scale, bool grouped) {
  const Attention how{given_or_none(mask), causal, scale, grouped};
  if (!fits_tiles(query, key, value, how.mask, dropout)) return whole(query, key, value, how, dropout);
  const bool learned = query.requires_grad() || key.requires_grad() || value.requires_grad();
  const bool learned_mask = how.mask && how.mask->requires_grad();
  if (!at::GradMode::is_enabled() || !(learned || learned_mask)) return in_tiles(query, key, value, how);
  if (learned_mask || transformed()) return whole(query, key, value, how, dropout);
  return InTiles::apply(query, key, value, how.mask, causal, scale, grouped);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("scaled_dot_product_attention", attention); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {  // made of operators that have gradients
  m.impl("scaled_dot_product_attention", attention);
}

}  // namespace
}  // namespace presil
