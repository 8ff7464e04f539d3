// SPDX-License-Identifier: Apache-2.0
#include "vision/vision.h"

#include <cmath>

namespace presil::vision {
namespace {

template <typename T>
void suppress(const Tensor& boxes, const Tensor& order, double threshold, std::vector<int64_t>& kept) {
  const auto box = boxes.accessor<T, 2>();
  const int64_t* by_score = order.const_data_ptr<int64_t>();
  const int64_t n = boxes.size(0);
  std::vector<char> gone(n, 0);
  std::vector<T> area(n);
  for (int64_t i = 0; i < n; i++) area[i] = (box[i][2] - box[i][0]) * (box[i][3] - box[i][1]);
  for (int64_t rank = 0; rank < n; rank++) {
    const int64_t i = by_score[rank];
    if (gone[i]) continue;
    kept.push_back(i);
    for (int64_t later = rank + 1; later < n; later++) {
      const int64_t j = by_score[later];
      if (gone[j]) continue;
      const T w = std::max(T(0), std::min(box[i][2], box[j][2]) - std::max(box[i][0], box[j][0]));
      const T h = std::max(T(0), std::min(box[i][3], box[j][3]) - std::max(box[i][1], box[j][1]));
      const T common = w * h;
      if (common / (area[i] + area[j] - common) > threshold) gone[j] = 1;
    }
  }
}

struct Point {
  double x, y;
};
double cross(Point o, Point a, Point b) { return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x); }

std::vector<Point> corners(const double* box) {
  const double angle = box[4] * M_PI / 180, c = std::cos(angle), s = std::sin(angle);
  std::vector<Point> out;
  for (const auto [u, v] : {Point{-.5, -.5}, {.5, -.5}, {.5, .5}, {-.5, .5}}) {
    const double x = u * box[2], y = v * box[3];
    out.push_back({x * c + y * s, y * c - x * s});
  }
  return out;
}

double area(const std::vector<Point>& polygon) {
  double twice = 0;
  for (size_t i = 0; i < polygon.size(); i++) {
    const Point a = polygon[i], b = polygon[(i + 1) % polygon.size()];
    twice += a.x * b.y - a.y * b.x;
  }
  return std::abs(twice) / 2;
}

// What of `polygon` lies on the inner side of each edge of the convex, counter-clockwise `window`.
std::vector<Point> clip(std::vector<Point> polygon, const std::vector<Point>& window) {
  for (size_t e = 0; e < window.size() && !polygon.empty(); e++) {
    const Point from = window[e], to = window[(e + 1) % window.size()];
    std::vector<Point> inside;
    for (size_t i = 0; i < polygon.size(); i++) {
      const Point a = polygon[i], b = polygon[(i + 1) % polygon.size()];
      const double da = cross(from, to, a), db = cross(from, to, b);
      if (da >= 0) inside.push_back(a);
      if ((da > 0 && db < 0) || (da < 0 && db > 0))
        inside.push_back({a.x + (b.x - a.x) * da / (da - db), a.y + (b.y - a.y) * da / (da - db)});
    }
    polygon = std::move(inside);
  }
  return polygon;
}

double rotated_iou(const double* a, const double* b) {
  const double area_a = a[2] * a[3], area_b = b[2] * b[3];
  if (area_a < 1e-14 || area_b < 1e-14) return 0;
  // Both around their common middle, so that large coordinates cost no accuracy.
  auto p = corners(a), q = corners(b);
  for (auto& v : p) v.x += (a[0] - b[0]) / 2, v.y += (a[1] - b[1]) / 2;
  for (auto& v : q) v.x -= (a[0] - b[0]) / 2, v.y -= (a[1] - b[1]) / 2;
  const double common = area(clip(p, q));
  return common / (area_a + area_b - common);
}

}  // namespace

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4, "nms: boxes must have the shape [N, 4], got ", boxes.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0), "nms: scores must have the shape [", boxes.size(0),
              "], one a box, got ", scores.sizes());
  TORCH_CHECK(boxes.scalar_type() == scores.scalar_type(), "nms: boxes and scores must have the same dtype, got ",
              boxes.scalar_type(), " and ", scores.scalar_type());
  const Tensor values = computable(boxes),
               order = std::get<1>(scores.sort(/*stable=*/true, 0, /*descending=*/true)).contiguous();
  std::vector<int64_t> kept;
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "nms",
                             [&] { suppress<scalar_t>(values, order, iou_threshold, kept); });
  return at::tensor(kept, boxes.options().dtype(at::kLong));
}

Tensor box_iou_rotated(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && a.size(1) == 5 && b.dim() == 2 && b.size(1) == 5,
              "box_iou_rotated: boxes must have the shape [N, 5], got ", a.sizes(), " and ", b.sizes());
  const Tensor x = a.to(at::kDouble).contiguous(), y = b.to(at::kDouble).contiguous();
  Tensor out = at::empty({a.size(0), b.size(0)}, x.options());
  auto result = out.accessor<double, 2>();
  for (int64_t i = 0; i < a.size(0); i++)
    for (int64_t j = 0; j < b.size(0); j++)
      result[i][j] = rotated_iou(x.const_data_ptr<double>() + 5 * i, y.const_data_ptr<double>() + 5 * j);
  return out.to(a.scalar_type());
}

}  // namespace presil::vision
