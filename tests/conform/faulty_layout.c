/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chip that has nothing but a layout for activations: the elements backwards, filled up with zeros to 64 bytes.
 * PRESIL_FAULT names what is wrong with it.
 */
#include <stdlib.h>
#include <string.h>
#include "presil_chip.h"

struct presil_chip {
  int dummy;
};
struct presil_layout {
  int dummy;
};

static struct presil_layout backwards;

static int fault(const char* name) {
  const char* now = getenv("PRESIL_FAULT");
  return now && strcmp(now, name) == 0;
}

static int create(const char* config, presil_chip** out, presil_error_buffer* error) {
  (void)config, (void)error;
  *out = calloc(1, sizeof **out);
  return *out ? PRESIL_OK : PRESIL_EHOSTMEM;
}

static void destroy(presil_chip* chip) { free(chip); }

static size_t width(const presil_operand* t) {
  switch (t->dtype) {
    case PRESIL_FP32:
    case PRESIL_INT32: return 4;
    case PRESIL_BF16:
    case PRESIL_FP16:
    case PRESIL_INT16: return 2;
    case PRESIL_INT64: return 8;
    default: return 1;
  }
}

static uint64_t elements(const presil_operand* t) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < t->ndim; i++) count *= (uint64_t)t->shape[i];
  return count;
}

static int activation(const presil_chip* chip, const presil_op* op, const presil_operand* t, const presil_layout** out,
                      uint64_t* bytes) {
  static uint64_t calls;
  (void)chip;
  for (uint32_t i = 0; i < op->input_count + op->output_count; i++) /* it is asked of operators as they lie */
    if ((i < op->input_count ? &op->inputs[i] : &op->outputs[i - op->input_count])->layout) return PRESIL_EINVAL;
  if (fault("status")) return PRESIL_EINVAL;
  if (fault("none")) return PRESIL_EUNSUPPORTED;
  *out = &backwards;
  *bytes = (elements(t) * width(t) + 63) / 64 * 64 + (fault("again") ? 64 * (calls++ % 2) : 0);
  return PRESIL_OK;
}

/* Bytes from the first element to the n-th of all, counted in the order of the last dimension first. */
static size_t place(const presil_operand* t, uint64_t n, int as_dense) {
  size_t at = 0;
  if (as_dense) return n * width(t);
  for (uint32_t i = t->ndim; i-- > 0;) {
    at += n % (uint64_t)t->shape[i] * (uint64_t)t->stride[i];
    n /= (uint64_t)t->shape[i];
  }
  return at * width(t);
}

static int pack(const presil_chip* chip, const presil_operand* t, const void* strided, void* packed) {
  (void)chip;
  const uint64_t count = elements(t), bytes = count * width(t), all = (bytes + 63) / 64 * 64;
  uint8_t* to = packed;
  if (!fault("fill")) memset(to + bytes, 0, all - bytes + (fault("beside") ? 1 : 0));
  for (uint64_t i = 0; i < count; i++)
    memcpy(to + (count - 1 - i) * width(t), (const uint8_t*)strided + place(t, i, fault("strides")), width(t));
  if (fault("lossy")) to[0] &= 0xf0;
  if (fault("wide") && width(t) == 4) to[3] = 0;
  if (fault("source")) *(uint8_t*)(uintptr_t)strided ^= 1;
  return fault("failed") ? PRESIL_EINVAL : PRESIL_OK;
}

static int unpack(const presil_chip* chip, const presil_operand* t, const void* packed, void* strided) {
  (void)chip;
  const uint64_t count = elements(t);
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t from = fault("order") ? i : count - 1 - i;
    const size_t at = place(t, i, 0), more = fault("between") && i + 1 == (uint64_t)t->shape[t->ndim - 1];
    memcpy((uint8_t*)strided + at, (const uint8_t*)packed + from * width(t), width(t));
    if (more) memset((uint8_t*)strided + at + width(t), 0, 1);
  }
  return PRESIL_OK;
}

const presil_chip_ops* presil_chip_entry(void) {
  static const presil_chip_ops ops = {.size = sizeof ops,
                                      .abi = PRESIL_CHIP_ABI,
                                      .name = "stub",
                                      .create = create,
                                      .destroy = destroy,
                                      .activation = activation,
                                      .pack_activation = pack,
                                      .unpack_activation = unpack};
  return &ops;
}
