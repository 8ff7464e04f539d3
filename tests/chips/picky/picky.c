/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chip that exists as its executor alone (mode "model"), slow and plain, to see what PyTorch asks a chip, and what
 * becomes of a "no": it has most kinds of operators, in float32 (maxima in int8 too), and refuses by shape:
 * convolutions with kernels above 3 x 3 or groups, products of more than 64 summands, rows of more than 128 in softmax
 * and norms of rows, more than 16 channels in norms of channels, tensors of more than 4096 elements in sums of two.
 * PRESIL_PICKY says how it answers:
 *   late   supports() says yes, plan() says no
 *   mute   there is no supports()
 *   short  operators have one output
 *   apart  it says nothing of operands that are the output
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_chip.h"

struct presil_chip {
  int unused;
};
/* Kernels as O, KH, KW, I in float32, then O biases. */
struct presil_layout {
  int64_t shape[4];
  int has_bias;
};
struct presil_plan {
  uint32_t kind, steps;
  char label[64], function[16];
  int approximate;
  double low, high;
  presil_operand given_mean, variance; /* inputs */
  presil_operand in, other, bias, out, residual;
  struct presil_layout packed;
  presil_step step[4];
  int64_t kernel[2], stride[2], padding[2], dilation[2], include, divisor, dim, log, groups;
  int reduced[PRESIL_OP_DIMS];
  double epsilon;
  presil_operand index, mean, rstd; /* outputs, too */
  presil_byte_range reads[10], writes[4];
  uint32_t write_count;
  uint32_t read_count;
};

static int is(const char* word) {
  const char* text = getenv("PRESIL_PICKY");
  return text && strstr(text, word) != NULL;
}

__attribute__((format(printf, 3, 4))) static int fail(presil_error_buffer* error, int status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  if (error && error->text) (void)vsnprintf(error->text, error->bytes, format, args);
  va_end(args);
  return status;
}
static int no(presil_error_buffer* error, const char* why) { return fail(error, PRESIL_EUNSUPPORTED, "picky %s", why); }

/* ---- who it is */
static int picky_create(const char* config, presil_chip** out, presil_error_buffer* error) {
  if (strcmp(config, "picky") != 0) return fail(error, PRESIL_EINVAL, "one configuration, \"picky\"");
  *out = calloc(1, sizeof **out);
  return *out ? PRESIL_OK : fail(error, PRESIL_EHOSTMEM, "no memory");
}
static void picky_destroy(presil_chip* chip) { free(chip); }
static int picky_limits(const presil_chip* chip, presil_chip_limits* out) {
  (void)chip;
  const presil_chip_limits own = {.address_bits = 64,
                                  .buffer_alignment = 64,
                                  .has_executor = 1,
                                  .numerics = PRESIL_NUMERICS_TOLERANCE,
                                  .tolerance = 1e-5,
                                  .in_place = !is("apart")};
  presil_give(out, &own, sizeof own);
  return PRESIL_OK;
}
static int picky_info(const presil_chip* chip, presil_device_info* out) {
  (void)chip, (void)out;
  return PRESIL_OK;
}
static int picky_probe(presil_chip* chip, const presil_link* link, presil_error_buffer* error) {
  (void)chip, (void)link;
  return fail(error, PRESIL_ENODEV, "picky is no more than its executor: mode \"model\"");
}
static int picky_reset(presil_chip* chip, const presil_link* link, const presil_command_memory* memory,
                       presil_error_buffer* error) {
  (void)memory;
  return picky_probe(chip, link, error);
}

/* ---- weights */
static int picky_layout(const presil_chip* chip, const presil_weights_desc* d, presil_layout** out, uint64_t* bytes,
                        presil_error_buffer* error) {
  (void)chip;
  if (d->weight_dtype != PRESIL_FP32 || d->compute != PRESIL_COMPUTE_FP32) return no(error, "packs float32 alone");
  if (d->groups != 1 || d->input_dilation[0] > 1 || d->input_dilation[1] > 1 || d->scale)
    return no(error, "has neither groups nor transposed convolutions");
  presil_layout* l = calloc(1, sizeof *l);
  if (!l) return fail(error, PRESIL_EHOSTMEM, "no memory");
  memcpy(l->shape, d->shape, sizeof l->shape);
  l->has_bias = d->bias != NULL;
  *bytes = 4 * (uint64_t)(d->shape[0] * d->shape[1] * d->shape[2] * d->shape[3] + d->shape[0]);
  *out = l;
  return PRESIL_OK;
}
static int picky_pack(const presil_chip* chip, const presil_layout* l, const presil_weights_desc* d, void* to,
                      presil_error_buffer* error) {
  (void)chip, (void)error;
  const float* from = d->weight;
  float* at = to;
  for (int64_t o = 0; o < l->shape[0]; o++)
    for (int64_t y = 0; y < l->shape[2]; y++)
      for (int64_t x = 0; x < l->shape[3]; x++)
        for (int64_t i = 0; i < l->shape[1]; i++)
          *at++ = from[o * d->stride[0] + i * d->stride[1] + y * d->stride[2] + x * d->stride[3]];
  for (int64_t o = 0; o < l->shape[0]; o++) *at++ = d->bias ? ((const float*)d->bias)[o] : 0;
  return PRESIL_OK;
}
static void picky_layout_free(presil_layout* l) { free(l); }

/* ---- what it is asked */
static int64_t size_of(const presil_operand* t) {
  return t->dtype == PRESIL_INT8 ? 1 : t->dtype == PRESIL_INT64 ? 8 : 4;
}
static int64_t count_of(const presil_operand* t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

static int read_operands(const presil_op* op, presil_plan* p, presil_error_buffer* error) {
  static const char* const names[] = {"input", "a", "weight", "b", "other", "bias", "index", "mean", "variance"};
  uint32_t known = 0;
  presil_operand* const others[] = {&p->out, &p->index, &p->mean, &p->rstd};
  static const char* const results[] = {"output", "index", "mean", "rstd"};
  for (uint32_t i = 0; i < op->output_count; i++) {
    int found = 0;
    for (size_t n = 0; n < sizeof results / sizeof *results; n++) {
      if (strcmp(results[n], op->outputs[i].name) == 0) *others[n] = op->outputs[i], found = 1;
    }
    if (!found) return no(error, "doesn't know one of the outputs");
  }
  if (p->index.name && is("short")) return no(error, "counts no places");
  if (p->mean.name && is("short")) return no(error, "keeps no statistics");
  if (!p->mean.name != !p->rstd.name) return no(error, "gives both statistics or none");
  for (uint32_t i = 0; i < op->input_count; i++) {
    const presil_operand* t = &op->inputs[i];
    presil_operand* const places[] = {&p->in,   &p->in,    &p->other,      &p->other,   &p->other,
                                      &p->bias, &p->other, &p->given_mean, &p->variance};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
      if (strcmp(names[n], t->name) == 0) *places[n] = *t, known++;
    }
    if (strcmp("residual", t->name) == 0) p->residual = *t, known++;
    const int small = op->kind == PRESIL_OP_POOL_MAX || op->kind == PRESIL_OP_COPY;
    const int index = strcmp("index", t->name) == 0 && (t->dtype == PRESIL_INT32 || t->dtype == PRESIL_INT64);
    if (t->dtype != PRESIL_FP32 && !(small && t->dtype == PRESIL_INT8) && !index)
      return no(error, "computes in float32");
    for (uint32_t d = 0; d < t->ndim && !t->layout; d++) {
      if (t->stride[d] < 0) return no(error, "walks forwards alone");
    }
    if (t->layout) p->packed = *t->layout;
  }
  if (known != op->input_count || !p->in.name) return no(error, "doesn't know one of the inputs");
  return p->out.dtype == p->in.dtype ? PRESIL_OK : no(error, "converts nothing");
}

static int read_attributes(const presil_op* op, presil_plan* p, presil_error_buffer* error) {
  uint32_t known = presil_op_integers(op, "kernel", 1, p->kernel, 2);
  known += presil_op_integers(op, "stride", 1, p->stride, 2) + presil_op_integers(op, "padding", 0, p->padding, 2);
  known += presil_op_integers(op, "dilation", 1, p->dilation, 2) + presil_op_integers(op, "log", 0, &p->log, 1);
  known += presil_op_integers(op, "count_include_pad", 1, &p->include, 1);
  known += presil_op_integers(op, "divisor", 0, &p->divisor, 1);
  known += presil_op_integers(op, "dim", op->kind == PRESIL_OP_GATHER ? 0 : (int64_t)p->in.ndim - 1, &p->dim, 1);
  known += presil_op_integers(op, "groups", 1, &p->groups, 1);
  int64_t dims[PRESIL_OP_DIMS];
  const presil_attribute* named = presil_op_attribute(op, "dims");
  known += presil_op_integers(op, "dims", 0, dims, PRESIL_OP_DIMS);
  for (uint32_t i = 0; named && i < named->count; i++) p->reduced[dims[i]] = 1;
  const char* function = presil_op_text(op, "function", NULL);
  if (function) known++;
  (void)snprintf(p->function, sizeof p->function, "%s", function ? function : "");
  p->epsilon = presil_op_real(op, "epsilon", 0);
  known += presil_op_attribute(op, "epsilon") != NULL;
  p->low = presil_op_real(op, "low", -INFINITY), p->high = presil_op_real(op, "high", INFINITY);
  known += presil_op_attribute(op, "low") != NULL;
  known += presil_op_attribute(op, "high") != NULL;
  const char* how = presil_op_text(op, "approximate", NULL);
  known += how != NULL;
  p->approximate = how && strcmp(how, "tanh") == 0;
  if (known != op->attribute_count) return no(error, "doesn't know one of the attributes");
  p->steps = op->step_count;
  if (op->step_count > 4) return no(error, "takes four steps");
  for (uint32_t i = 0; i < op->step_count; i++) {
    p->step[i] = op->steps[i];
    const int adds = op->steps[i].kind == PRESIL_STEP_ADD && p->residual.name;
    if (!adds && op->steps[i].kind != PRESIL_STEP_CLAMP) return no(error, "adds and clamps behind an operator");
  }
  return PRESIL_OK;
}

static int check_shapes(const presil_plan* p, presil_error_buffer* error) {
  switch (p->kind) {
    case PRESIL_OP_CONV:
      if (!p->packed.shape[0]) return no(error, "wants packed kernels");
      return p->packed.shape[2] <= 3 && p->packed.shape[3] <= 3 ? PRESIL_OK : no(error, "has kernels up to 3 x 3");
    case PRESIL_OP_CONV_TRANSPOSE: return p->in.shape[3] <= 16 ? PRESIL_OK : no(error, "transposes up to 16 channels");
    case PRESIL_OP_REDUCTION:
      if (p->out.ndim != p->in.ndim) return no(error, "keeps dimensions");
      return strcmp(p->function, "prod") ? PRESIL_OK : no(error, "multiplies nothing up");
    case PRESIL_OP_GATHER: return p->in.shape[p->dim] <= 64 ? PRESIL_OK : no(error, "has tables up to 64 rows");
    case PRESIL_OP_MATMUL: return p->in.shape[2] <= 64 ? PRESIL_OK : no(error, "adds up to 64 products");
    case PRESIL_OP_POOL_MAX:
    case PRESIL_OP_POOL_AVERAGE:
      return p->kernel[0] <= 3 && p->kernel[1] <= 3 ? PRESIL_OK : no(error, "has windows up to 3 x 3");
    case PRESIL_OP_SOFTMAX:
      if (p->dim != (int64_t)p->in.ndim - 1) return no(error, "has softmax of the last dimension");
      return p->in.shape[p->dim] <= 128 ? PRESIL_OK : no(error, "has rows up to 128");
    case PRESIL_OP_NORM:
      if (strcmp(p->function, "batch") == 0 || strcmp(p->function, "group") == 0) {
        if (!p->given_mean.name != (p->function[0] == 'g')) return no(error, "is given statistics, or has groups");
        return p->in.shape[p->in.ndim - 1] <= 16 ? PRESIL_OK : no(error, "normalises up to 16 channels");
      }
      if (p->other.ndim > 1) return no(error, "normalises the last dimension");
      return p->in.shape[p->in.ndim - 1] <= 128 ? PRESIL_OK : no(error, "has rows up to 128");
    case PRESIL_OP_ELEMENTWISE:
      if (strcmp(p->function, "relu") == 0 || strcmp(p->function, "clamp") == 0) return PRESIL_OK;
      if (strcmp(p->function, "gelu") == 0) return PRESIL_OK;
      if (strcmp(p->function, "add") != 0 || !p->other.name) return no(error, "has relu, gelu, clamp and add");
      return count_of(&p->out) <= 4096 ? PRESIL_OK : no(error, "adds up to 4096 elements");
    case PRESIL_OP_COPY:
      return p->in.ndim == 1 && p->in.dtype == PRESIL_INT8 && p->in.stride[0] == 1 ? PRESIL_OK
                                                                                   : no(error, "copies bytes");
    default: return no(error, "doesn't have this kind");
  }
}

static int understand(const presil_op* op, presil_plan* p, presil_error_buffer* error) {
  *p = (presil_plan){.kind = op->kind};
  (void)snprintf(p->label, sizeof p->label, "%s", op->label ? op->label : "operator");
  if (op->kind == PRESIL_OP_NOP) return PRESIL_OK;
  int status = read_operands(op, p, error);
  if (!status) status = read_attributes(op, p, error);
  if (!status) status = check_shapes(p, error);
  if (!presil_op_attribute(op, "stride") && (p->kind == PRESIL_OP_POOL_MAX || p->kind == PRESIL_OP_POOL_AVERAGE))
    memcpy(p->stride, p->kernel, sizeof p->stride);
  return status;
}

static int picky_supports(const presil_chip* chip, const presil_op* op, presil_error_buffer* error) {
  (void)chip;
  presil_plan plan;
  return understand(op, &plan, error);
}

/* ---- plans */
static presil_byte_range range_of(const presil_operand* t) {
  const uint64_t size = (uint64_t)size_of(t);
  uint64_t bytes = size;
  for (uint32_t i = 0; i < t->ndim; i++) bytes += (uint64_t)((t->shape[i] - 1) * t->stride[i]) * size;
  if (t->layout) {
    const int64_t* s = t->layout->shape;
    bytes = 4 * (uint64_t)(s[0] * s[1] * s[2] * s[3] + s[0]);
  }
  return (presil_byte_range){t->data, bytes};
}

static int picky_plan(const presil_chip* chip, const presil_op* op, presil_plan** out, presil_error_buffer* error) {
  (void)chip;
  presil_plan* p = calloc(1, sizeof *p);
  if (!p) return fail(error, PRESIL_EHOSTMEM, "no memory");
  int status = understand(op, p, error);
  if (!status && is("late") && op->kind > PRESIL_OP_COPY) status = no(error, "thought better of it");
  if (status) {
    free(p);
    return status;
  }
  const presil_operand* reads[] = {&p->in, &p->other, &p->bias, &p->residual, &p->given_mean, &p->variance};
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    if (reads[i]->name) p->reads[p->read_count++] = range_of(reads[i]);
  }
  const presil_operand* written[] = {&p->out, &p->index, &p->mean, &p->rstd};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    if (!written[i]->name) continue;
    p->writes[p->write_count] = range_of(written[i]);
    p->reads[p->read_count++] = p->writes[p->write_count++]; /* there may be gaps */
  }
  p->write_count = (uint32_t)presil_merge_ranges(p->writes, p->write_count);
  p->read_count = (uint32_t)presil_merge_ranges(p->reads, p->read_count);
  *out = p;
  return PRESIL_OK;
}
static int picky_plan_info(const presil_plan* p, presil_plan_info* out) {
  const presil_plan_info own = {.label = p->label,
                                .passes = 1,
                                .signature = p->kind,
                                .segments = 1,
                                .reads = p->reads,
                                .writes = p->writes,
                                .read_count = p->read_count,
                                .write_count = p->write_count};
  presil_give(out, &own, sizeof own);
  return PRESIL_OK;
}
static void picky_plan_free(presil_plan* p) { free(p); }

/* ---- computing */
typedef struct {
  const presil_executor_memory* memory;
  const presil_plan* plan;
} work;

static void* at(const work* w, const presil_operand* t, const int64_t* index) {
  int64_t offset = 0;
  for (uint32_t i = 0; i < t->ndim; i++) offset += index[i] * t->stride[i];
  return w->memory->host + (t->data.value - w->memory->base.value) + offset * size_of(t);
}
static double get(const work* w, const presil_operand* t, const int64_t* index) {
  const void* from = at(w, t, index);
  switch (t->dtype) {
    case PRESIL_INT8: return *(const int8_t*)from;
    case PRESIL_INT32: return *(const int32_t*)from;
    case PRESIL_INT64: return (double)*(const int64_t*)from;
    default: return (double)*(const float*)from;
  }
}
static void put(const work* w, const int64_t* index, double x) {
  const presil_plan* p = w->plan;
  for (uint32_t i = 0; i < p->steps; i++) {
    const presil_step* s = &p->step[i];
    if (s->kind == PRESIL_STEP_ADD) x += get(w, &p->residual, index);
    if (s->kind == PRESIL_STEP_CLAMP) x = fmin(fmax(x, s->low), s->high);
  }
  void* to = at(w, &p->out, index);
  if (p->out.dtype == PRESIL_INT8)
    *(int8_t*)to = (int8_t)x;
  else
    *(float*)to = (float)x;
}

/* An operand of another shape, broadcast as PyTorch does. */
static double broadcast(const work* w, const presil_operand* t, const int64_t* index) {
  int64_t own[PRESIL_OP_DIMS] = {0};
  const uint32_t lead = w->plan->out.ndim - t->ndim;
  for (uint32_t i = 0; i < t->ndim; i++) own[i] = t->shape[i] == 1 ? 0 : index[lead + i];
  return get(w, t, own);
}

static double window(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  double sum = 0, most = -INFINITY;
  int64_t seen = 0, place = -1;
  for (int64_t ky = 0; ky < p->kernel[0]; ky++) {
    for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
      const int64_t y = index[1] * p->stride[0] - p->padding[0] + ky * p->dilation[0],
                    x = index[2] * p->stride[1] - p->padding[1] + kx * p->dilation[1];
      if (y < 0 || x < 0 || y >= p->in.shape[1] || x >= p->in.shape[2]) continue;
      const double v = get(w, &p->in, (int64_t[]){index[0], y, x, index[3]});
      if (place < 0 || v > most || isnan(v)) most = v, place = y * p->in.shape[2] + x;
      sum += v, seen++;
    }
  }
  if (p->index.name) *(int64_t*)at(w, &p->index, index) = place;
  if (p->kind == PRESIL_OP_POOL_MAX) return most;
  return sum / (double)(p->divisor ? p->divisor : p->include ? p->kernel[0] * p->kernel[1] : seen);
}

static double conv(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  const int64_t* s = p->packed.shape;
  const float* k = (const float*)(const void*)(w->memory->host + (p->other.data.value - w->memory->base.value));
  double sum = k[s[0] * s[1] * s[2] * s[3] + index[3]];
  for (int64_t ky = 0; ky < s[2]; ky++) {
    for (int64_t kx = 0; kx < s[3]; kx++) {
      const int64_t y = index[1] * p->stride[0] - p->padding[0] + ky * p->dilation[0],
                    x = index[2] * p->stride[1] - p->padding[1] + kx * p->dilation[1];
      if (y < 0 || x < 0 || y >= p->in.shape[1] || x >= p->in.shape[2]) continue;
      for (int64_t i = 0; i < s[1]; i++)
        sum +=
            get(w, &p->in, (int64_t[]){index[0], y, x, i}) * (double)k[((index[3] * s[2] + ky) * s[3] + kx) * s[1] + i];
    }
  }
  return sum;
}

static double product(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  double sum = 0;
  for (int64_t k = 0; k < p->in.shape[2]; k++)
    sum += get(w, &p->in, (int64_t[]){index[0], index[1], k}) * get(w, &p->other, (int64_t[]){index[0], k, index[2]});
  return sum;
}

/* Of an element of a channel, by statistics that are given, or those of its image's group of channels. */
static double by_channel(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  const uint32_t last = p->in.ndim - 1;
  double mean, variance;
  if (p->given_mean.name) {
    mean = get(w, &p->given_mean, &index[last]), variance = get(w, &p->variance, &index[last]);
  } else {
    const int64_t each = p->in.shape[last] / p->groups, first = index[last] / each * each;
    int64_t i[PRESIL_OP_DIMS] = {index[0]}, count = each;
    for (uint32_t d = 1; d < last; d++) count *= p->in.shape[d];
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < count; n++) {
      int64_t left = n / each;
      i[last] = first + n % each;
      for (uint32_t d = last; d-- > 1; left /= p->in.shape[d]) i[d] = left % p->in.shape[d];
      const double v = get(w, &p->in, i);
      sum += v, squares += v * v;
    }
    mean = sum / (double)count, variance = squares / (double)count - mean * mean;
  }
  double y = (get(w, &p->in, index) - mean) / sqrt(variance + p->epsilon);
  if (p->other.name) y *= get(w, &p->other, &index[last]);
  return p->bias.name ? y + get(w, &p->bias, &index[last]) : y;
}

static double curve(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  const double x = broadcast(w, &p->in, index);
  if (strcmp(p->function, "relu") == 0) return x > 0 || isnan(x) ? x : 0;
  if (strcmp(p->function, "clamp") == 0) return isnan(x) ? x : fmin(fmax(x, p->low), p->high);
  return x * 0.5 * (1 + (p->approximate ? tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)) : erf(x * sqrt(0.5))));
}

/* Softmax or norm of the row that the element stands in. */
static double in_row(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  const uint32_t last = p->in.ndim - 1;
  int64_t i[PRESIL_OP_DIMS];
  memcpy(i, index, sizeof i);
  const double own = get(w, &p->in, index);
  double most = -INFINITY, sum = 0, squares = 0, powers = 0;
  for (i[last] = 0; i[last] < p->in.shape[last]; i[last]++) most = fmax(most, get(w, &p->in, i));
  for (i[last] = 0; i[last] < p->in.shape[last]; i[last]++) {
    const double v = get(w, &p->in, i);
    sum += v, squares += v * v, powers += exp(v - most);
  }
  if (p->kind == PRESIL_OP_SOFTMAX) return p->log ? own - most - log(powers) : exp(own - most) / powers;
  const double n = (double)p->in.shape[last], mean = p->function[0] == 'r' ? 0 : sum / n,
               variance = squares / n - mean * mean;
  i[last] = 0;
  if (p->mean.name) *(float*)at(w, &p->mean, i) = (float)mean;
  if (p->rstd.name) *(float*)at(w, &p->rstd, i) = (float)(1 / sqrt(variance + p->epsilon));
  double y = (own - mean) / sqrt(variance + p->epsilon);
  if (p->other.name) y *= get(w, &p->other, &index[last]);
  if (p->bias.name) y += get(w, &p->bias, &index[last]);
  return y;
}

/* Position y of the output is met by kernel position k of input i where i * stride + k * dilation - padding = y. */
static double transposed(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  const int64_t each = p->other.shape[3], lanes = p->in.shape[3] / p->groups, group = index[3] / each;
  double sum = 0;
  for (int64_t ky = 0; ky < p->other.shape[1]; ky++) {
    for (int64_t kx = 0; kx < p->other.shape[2]; kx++) {
      const int64_t y = index[1] + p->padding[0] - ky * p->dilation[0],
                    x = index[2] + p->padding[1] - kx * p->dilation[1];
      if (y < 0 || x < 0 || y % p->stride[0] || x % p->stride[1]) continue;
      if (y / p->stride[0] >= p->in.shape[1] || x / p->stride[1] >= p->in.shape[2]) continue;
      for (int64_t c = group * lanes; c < (group + 1) * lanes; c++)
        sum += get(w, &p->in, (int64_t[]){index[0], y / p->stride[0], x / p->stride[1], c}) *
               get(w, &p->other, (int64_t[]){c, ky, kx, index[3] % each});
    }
  }
  return sum;
}

static double reduction(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  int64_t i[PRESIL_OP_DIMS], count = 1;
  double sum = 0, most = NAN;
  for (uint32_t d = 0; d < p->in.ndim; d++) count *= p->reduced[d] ? p->in.shape[d] : 1;
  for (int64_t n = 0; n < count; n++) {
    int64_t left = n;
    for (uint32_t d = p->in.ndim; d-- > 0;) {
      i[d] = p->reduced[d] ? left % p->in.shape[d] : index[d];
      if (p->reduced[d]) left /= p->in.shape[d];
    }
    const double v = get(w, &p->in, i);
    sum += v;
    if (n == 0 || isnan(v) || (strcmp(p->function, "amax") ? v < most : v > most)) most = v;
    if (isnan(v)) break;
  }
  if (strcmp(p->function, "sum") == 0) return sum;
  return strcmp(p->function, "mean") == 0 ? sum / (double)count : most;
}

static double gathered(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  const presil_operand* by = &p->other;
  int64_t at_input[PRESIL_OP_DIMS];
  int beside = by->ndim == p->in.ndim;
  for (uint32_t d = 0; d < by->ndim && beside; d++) beside = by->shape[d] == p->out.shape[d];
  const uint32_t wide = beside ? 1 : by->ndim;
  for (uint32_t d = 0; d < p->in.ndim; d++) at_input[d] = index[d > p->dim ? d + wide - 1 : d];
  at_input[p->dim] = (int64_t)get(w, by, beside ? index : &index[p->dim]);
  return get(w, &p->in, at_input);
}

static double element(const work* w, const int64_t* index) {
  const presil_plan* p = w->plan;
  switch (p->kind) {
    case PRESIL_OP_CONV: return conv(w, index);
    case PRESIL_OP_CONV_TRANSPOSE: return transposed(w, index);
    case PRESIL_OP_REDUCTION: return reduction(w, index);
    case PRESIL_OP_GATHER: return gathered(w, index);
    case PRESIL_OP_MATMUL: return product(w, index);
    case PRESIL_OP_POOL_MAX:
    case PRESIL_OP_POOL_AVERAGE: return window(w, index);
    case PRESIL_OP_SOFTMAX: return in_row(w, index);
    case PRESIL_OP_NORM:
      return p->function[0] == 'l' || p->function[0] == 'r' ? in_row(w, index) : by_channel(w, index);
    case PRESIL_OP_ELEMENTWISE:
      if (p->other.name) return broadcast(w, &p->in, index) + broadcast(w, &p->other, index);
      return curve(w, index);
    default: return get(w, &p->in, index);
  }
}

static int picky_execute(presil_chip* chip, const presil_plan* p, const presil_executor_memory* memory,
                         presil_error_buffer* error) {
  (void)chip, (void)error;
  const work w = {memory, p};
  int64_t index[PRESIL_OP_DIMS] = {0};
  const int64_t count = p->out.name ? count_of(&p->out) : 0;
  for (int64_t n = 0; n < count; n++) {
    int64_t left = n;
    for (uint32_t i = p->out.ndim; i-- > 0; left /= p->out.shape[i]) index[i] = left % p->out.shape[i];
    put(&w, index, element(&w, index));
  }
  for (uint32_t i = 0; i < p->write_count && memory->on_write; i++)
    memory->on_write(memory->context, p->writes[i].base, p->writes[i].bytes);
  return PRESIL_OK;
}

/* ---- never called: there is no RTL */
static int picky_submit(presil_chip* chip, const presil_link* link, const presil_command_memory* memory,
                        const presil_plan* plan, uint32_t segment, presil_error_buffer* error) {
  (void)memory, (void)plan, (void)segment;
  return picky_probe(chip, link, error);
}
static int picky_service(presil_chip* chip, const presil_link* link, const presil_plan* plan, presil_service* out) {
  (void)chip, (void)link, (void)plan, (void)out;
  return PRESIL_EDEAD;
}
static int picky_counters(presil_chip* chip, const presil_link* link, presil_report* out) {
  (void)chip, (void)link, (void)out;
  return PRESIL_EDEAD;
}

__attribute__((visibility("default"))) const presil_chip_ops* presil_chip_entry(void) {
  static presil_chip_ops ops = {.size = sizeof ops,
                                .abi = PRESIL_CHIP_ABI,
                                .name = "picky",
                                .create = picky_create,
                                .destroy = picky_destroy,
                                .limits = picky_limits,
                                .info = picky_info,
                                .probe = picky_probe,
                                .reset = picky_reset,
                                .layout = picky_layout,
                                .pack = picky_pack,
                                .layout_free = picky_layout_free,
                                .supports = picky_supports,
                                .plan = picky_plan,
                                .plan_info = picky_plan_info,
                                .plan_free = picky_plan_free,
                                .submit = picky_submit,
                                .service = picky_service,
                                .counters = picky_counters,
                                .execute = picky_execute};
  if (is("mute")) ops.supports = NULL;
  return &ops;
}
