/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chip library PRESIL_SOUND_CHIP, which declares that its cycles depend on commands alone, with a lie of
 * PRESIL_FAULT: "zeros" (a word of zeros costs nothing), "nan" (a NaN costs a cycle), "address" (an odd page costs
 * one), "bytes" (zeros are not counted as read), "silent" (it declares nothing). None: as it is.
 * Or of what it says before a launch: "page" (an odd page is expected to cost a cycle), "again" (another number each
 * time), "idle" (no cycles), "stalls" (more than there are), "far" (1, 4 or 16 times the cycles); "row" (traffic
 * without its first row), "small" (its memories are); "mute" (it says neither).
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "presil_chip.h"

static const presil_chip_ops* sound;
static uint64_t cycles, bytes;

static int fault(const char* name) {
  const char* now = getenv("PRESIL_FAULT");
  return now && strcmp(now, name) == 0;
}

static void look(const uint8_t* at, uint64_t count) {
  for (uint64_t i = 0; i + 4 <= count; i += 4) {
    uint32_t word;
    memcpy(&word, at + i, 4);
    cycles += (fault("zeros") && word) || (fault("nan") && (word & 0x7fff0000) > 0x7f800000);
    bytes += fault("bytes") && !word;
  }
}

static int submit(presil_chip* chip, const presil_link* link, const presil_command_memory* memory,
                  const presil_plan* plan, uint32_t segment, presil_error_buffer* error) {
  presil_plan_info info = {.size = sizeof info};
  if (sound->plan_info(plan, &info)) return PRESIL_EINVAL;
  cycles = bytes = 0;
  for (uint32_t i = 0; i < info.read_count; i++) {
    const presil_byte_range r = info.reads[i];
    uint8_t* copy = malloc(r.bytes);
    if (!copy || link->ops->mem_read(link->handle, r.base, copy, r.bytes)) return PRESIL_EHOSTMEM;
    look(copy, r.bytes);
    free(copy);
    if (fault("address")) cycles += r.base.value >> 12 & 1;
  }
  return sound->submit(chip, link, memory, plan, segment, error);
}

static int counters(presil_chip* chip, const presil_link* link, presil_report* out) {
  const int status = sound->counters(chip, link, out);
  out->cycles += cycles;
  out->read_bytes -= bytes;
  return status;
}

static int work(const presil_chip* chip, const presil_plan* plan, const char* simulator, presil_work* out) {
  static uint64_t asked;
  const int status = sound->work(chip, plan, simulator, out);
  presil_plan_info info = {.size = sizeof info};
  if (status || sound->plan_info(plan, &info)) return status;
  if (fault("page") && info.read_count) out->cycles += info.reads[0].base.value >> 12 & 1;
  if (fault("again")) out->cycles += asked++;
  if (fault("idle")) out->cycles = 0;
  if (fault("stalls")) out->stalls[0][0] += 2 * out->cycles;
  if (fault("far")) out->cycles <<= 2 * (out->cycles % 3);
  return status;
}

typedef struct {
  presil_usage_tell tell;
  void* context;
} listener;

static void tell(void* context, const presil_usage* usage) {
  const listener* to = context;
  presil_usage other = *usage;
  presil_occupancy memories[8];
  if (fault("row") && other.traffic_count) other.traffic++, other.traffic_count--;
  for (uint32_t i = 0; i < usage->memory_count && i < 8; i++) {
    memories[i] = usage->memories[i];
    if (fault("small")) memories[i].capacity = 1;
  }
  other.memories = memories;
  to->tell(to->context, &other);
}

static int usage(const presil_chip* chip, const presil_plan* plan, presil_usage_tell to, void* context) {
  return sound->usage(chip, plan, tell, &(listener){to, context});
}

__attribute__((visibility("default"))) const presil_chip_ops* presil_chip_entry(void) {
  static presil_chip_ops ops;
  void* library = dlopen(getenv("PRESIL_SOUND_CHIP"), RTLD_NOW | RTLD_LOCAL);
  presil_chip_entry_fn entry = library ? (presil_chip_entry_fn)dlsym(library, "presil_chip_entry") : NULL;
  if (!entry) abort();
  sound = entry();
  memcpy(&ops, sound, sound->size < sizeof ops ? sound->size : sizeof ops);
  ops.submit = submit;
  ops.counters = counters;
  ops.work = fault("mute") ? NULL : work;
  ops.usage = fault("mute") ? NULL : usage;
  if (fault("silent")) ops.timing = NULL;
  return &ops;
}
