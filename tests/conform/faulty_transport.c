/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport PRESIL_SOUND with one fault, PRESIL_FAULT: each is what one check of presil conform is there to find
 * (tests/conform/test_planted.py). Registers are those of the stub chip.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "presil_transport.h"
#include "stub_registers.h"

static const presil_transport_ops* sound;
static presil_transport_ops ops;
static presil_transport* first;
static uint32_t last_written = UINT32_MAX, target_lo;
static uint64_t calls;
static int model_set, stopped_before;

static int fault(const char* name) {
  const char* wanted = getenv("PRESIL_FAULT");
  return wanted && strcmp(wanted, name) == 0;
}

static int f_open(const presil_transport_options* options, presil_transport** out, char* error, size_t bytes) {
  presil_transport_options o = *options;
  if (fault("bad-options")) {
    o.memory_bytes = (o.memory_bytes + 4095) & ~4095ull;
    o.memory_base.value &= ~4095ull;
    o.options = NULL;
  }
  const int code = sound->open(&o, out, error, bytes);
  if (!code && !first) first = *out;
  return code;
}

static void f_close(presil_transport* t) {
  if (t == first) first = NULL;
  sound->close(t);
}

static int f_info(presil_transport* t, presil_transport_info* out) {
  if (fault("older-caller")) {
    out->size = sizeof *out;
    return sound->info(t, out);
  }
  const int code = sound->info(t, out);
  if (fault("identity") && calls++ % 2) out->config[0] = '?';
  if (fault("table")) out->capabilities |= PRESIL_CAP_WRITE_TIMES;
  return code;
}

static int f_region(presil_transport* t, uint32_t index, presil_region* out) {
  return sound->region(t, fault("regions") ? 0 : index, out);
}

static int f_mem_write(presil_transport* t, presil_daddr to, const void* from, uint64_t bytes) {
  if (fault("two-devices") && first) t = first;
  if (fault("memory-bounds") && sound->mem_write(t, to, from, bytes)) return 0;
  if (fault("memory") && bytes == 33) bytes--;
  if (fault("memory-mapped")) return 0;
  return sound->mem_write(t, to, from, bytes);
}

static int f_mem_read(presil_transport* t, presil_daddr from, void* to, uint64_t bytes) {
  return sound->mem_read(t, from, to, bytes);
}

static int f_read32(presil_transport* t, uint32_t offset, uint32_t* value) {
  last_written = UINT32_MAX;
  if (fault("bad-offset")) offset &= ~3u;
  if (fault("register-absent") && offset == 0x200) return 0;
  if (fault("register-idle") && offset == STUB_CYCLES) (void)sound->mem_write(t, (presil_daddr){0x10200000}, "x", 1);
  const int code = sound->read32(t, offset, value);
  if (!code && fault("register-reset") && offset == STUB_DST_HI && !*value) *value = 1;
  if (!code && fault("bus-errors") && offset == STUB_STATUS) *value &= ~(uint32_t)STUB_BUS_ERROR;
  return code;
}

static int f_write32(presil_transport* t, uint32_t offset, uint32_t value) {
  if (fault("register-reserved") && offset == STUB_BEATS) value &= 0x7fffffff;
  if (fault("register-back-to-back") && offset == last_written) return 0;
  if (offset == STUB_DST_LO) target_lo = value;
  if (offset == STUB_BEATS && value > 4 && (fault("job") || (fault("memory-models") && model_set))) value--;
  last_written = offset;
  return sound->write32(t, offset, value);
}

static int f_read32_many(presil_transport* t, const uint32_t* offsets, size_t count, uint32_t* values) {
  const int code = sound->read32_many(t, offsets, count, values);
  if (!code && count > 1) values[0] = values[1];
  return code;
}

static int f_launch(presil_transport* t, uint64_t launch) {
  return sound->launch(t, fault("repetition") ? launch + calls++ : launch);
}

static int f_wait(presil_transport* t, presil_wait* w) {
  if (fault("deadline") && w->deadline_cycles > 5) w->deadline_cycles++;
  if (fault("hang") && w->hang_cycles > 1000) w->hang_cycles++;
  if (fault("hang-of-memory") && w->deadline_ns) w->hang_cycles = 0, w->deadline_cycles = 100000;
  if (fault("cancel")) w->cancel = NULL, w->deadline_ns = w->deadline_ns ? 100000000 : 0;
  if (fault("interleaved") && first && t != first) {
    presil_wait other = {.size = sizeof other, .deadline_cycles = 1};
    (void)sound->wait(first, &other);
  }
  if (fault("stopped") && stopped_before) (void)sound->reset(t);
  const int code = sound->wait(t, w);
  stopped_before = code == PRESIL_TRANSPORT_ESTOPPED;
  if (fault("job-strobes") && !code && w->reason == PRESIL_WAIT_IRQ)
    (void)sound->mem_write(t, (presil_daddr){target_lo - 1u}, "x", 1);
  return code;
}

static int f_cycles(presil_transport* t, uint64_t* cycles) {
  const int code = sound->cycles(t, cycles);
  if (fault("shuffled")) *cycles += calls++ % 5 == 4;
  if (fault("other-addresses")) *cycles *= 1 + (target_lo >> 12 & 1);
  return code;
}

static int f_reset(presil_transport* t) { return fault("reset-anywhere") ? 0 : sound->reset(t); }

static int f_set_memory_model(presil_transport* t, const char* model, uint64_t seed) {
  model_set = 1;
  return sound->set_memory_model(t, model, seed);
}

__attribute__((destructor)) static void unload(void) {
  if (fault("unload")) abort();
}

const presil_transport_ops* presil_transport_entry(void) {
  void* library = dlopen(getenv("PRESIL_SOUND"), RTLD_NOW | RTLD_LOCAL);
  presil_transport_entry_fn entry;
  void* symbol = library ? dlsym(library, "presil_transport_entry") : NULL;
  if (!symbol) return NULL;
  memcpy(&entry, &symbol, sizeof entry);
  sound = entry();
  ops = *sound;
  ops.open = f_open, ops.close = f_close, ops.info = f_info, ops.region = f_region;
  ops.mem_read = f_mem_read, ops.mem_write = f_mem_write, ops.read32 = f_read32, ops.write32 = f_write32;
  ops.launch = f_launch, ops.wait = f_wait, ops.cycles = f_cycles, ops.reset = f_reset;
  ops.set_memory_model = f_set_memory_model;
  if (fault("register-many")) ops.read32_many = f_read32_many;
  if (fault("table")) ops.write_times = NULL;
  return &ops;
}
