/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as bytes, to be run later by another process, at another place in memory: little-endian, DRAM addresses
 * relative to the block that holds everything the plan touches. What is read back is proved like a plan of our own, and
 * must stay inside its block.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rows.h"

#define IMAGE_MAGIC 0x4d494c50u /* "PLIM" */
enum { IMAGE_VERSION = 1, MOST_DESCRIPTORS = 1 << 26 };
/* Of a descriptor, on average: eight times what fills the scratchpad of any configuration, or multiplies all that an
 * accumulator has rows for. So the time to load an image is linear in its bytes. */
enum { MOST_EFFORT = 1 << 18 };

/* Followed by segments × uint64 (ends), count × 128 bytes. */
typedef struct {
    uint32_t magic, version, config_hash, segments;
    uint64_t count, macs, passes, peak, estimate;
    char label[64];
} image_header;

_Static_assert(sizeof(image_header) == 120, "the layout of docs/aot.md");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "images are little-endian: swap here"
#endif

static bool on_bus(const presil_desc *d) {
    return presil_desc_opcode(d) == PRESIL_OPCODE_LOAD || presil_desc_opcode(d) == PRESIL_OPCODE_STORE;
}

static void move_by(presil_desc *d, uint64_t delta) { chip_address_set(d, chip_address(d) + delta); }

int chip_save(const presil_plan *plan, presil_daddr base, void *to, uint64_t *bytes, presil_error_buffer *error) {
    image_header h = {.magic = IMAGE_MAGIC,
                      .version = IMAGE_VERSION,
                      .config_hash = plan->config.hash,
                      .segments = plan->segments,
                      .count = plan->count,
                      .macs = plan->macs,
                      .passes = plan->passes,
                      .peak = plan->peak,
                      .estimate = plan->estimate};
    uint64_t need = sizeof h + plan->segments * sizeof(uint64_t) + plan->count * sizeof *plan->list;
    if (!to) {
        *bytes = need;
        return PRESIL_OK;
    }
    if (*bytes < need)
        return chip_fail(error, PRESIL_EINVAL, "an image of %llu bytes doesn't fit %llu", (unsigned long long)need,
                         (unsigned long long)*bytes);
    memcpy(h.label, plan->label, sizeof h.label);
    uint8_t *p = to;
    memcpy(p, &h, sizeof h);
    p += sizeof h;
    for (uint32_t s = 0; s < plan->segments; s++, p += sizeof(uint64_t))
        memcpy(p, &(uint64_t){plan->segment_ends[s]}, sizeof(uint64_t));
    for (size_t i = 0; i < plan->count; i++, p += sizeof(presil_desc)) {
        presil_desc d = plan->list[i];
        if (on_bus(&d)) move_by(&d, chip_shift(plan, i) - base.value);
        memcpy(p, &d, sizeof d);
    }
    *bytes = need;
    return PRESIL_OK;
}

/* So that no sum of an address and strides overflows. */
static bool near(int64_t address) { return address > -(1ll << 62) && address < 1ll << 62; }

static bool inside(int64_t at, int64_t length, uint64_t bytes) {
    return at >= 0 && length >= 0 && (uint64_t)length <= bytes && (uint64_t)at <= bytes - (uint64_t)length;
}

/* Rows of a LOAD beyond row_limit are not read, so each row is looked at. */
static bool load_inside(const presil_desc *d, uint64_t bytes) {
    int64_t base = (int64_t)presil_load_addr(d), row_bytes = (int64_t)presil_load_row_bytes(d);
    int64_t from = max64(0, presil_load_pos0(d)), last = (int64_t)presil_load_pos0(d) +
                                                         ((int64_t)presil_load_n0(d) - 1) * presil_load_step0(d) +
                                                         presil_load_chunk_bytes(d);
    const int64_t ds[3] = {chip_stride(d, 1), chip_stride(d, 2), chip_stride(d, 3)};
    int64_t length = min64(row_bytes, last) - from;
    if (presil_load_step0(d) < 0 || !near(base)) return false;
    if (length <= 0) return true;
    for (int64_t i3 = 0; i3 < presil_load_n3(d); i3++) {
        for (int64_t i2 = 0; i2 < presil_load_n2(d); i2++) {
            for (int64_t i1 = 0; i1 < presil_load_n1(d); i1++) {
                int64_t row =
                    presil_load_rp0(d) + i1 * presil_load_rp1(d) + i2 * presil_load_rp2(d) + i3 * presil_load_rp3(d);
                if (presil_load_row_limit(d) && (row < 0 || row >= presil_load_row_limit(d))) continue;
                if (!inside(base + i1 * ds[0] + i2 * ds[1] + i3 * ds[2] + from, length, bytes)) return false;
            }
        }
    }
    return true;
}

static bool store_inside(const presil_desc *d, uint64_t bytes) {
    int64_t low = (int64_t)presil_store_addr(d), high = low;
    const int64_t reach[3] = {((int64_t)presil_store_n1(d) - 1) * chip_stride(d, 1),
                              ((int64_t)presil_store_n2(d) - 1) * chip_stride(d, 2),
                              ((int64_t)presil_store_n3(d) - 1) * chip_stride(d, 3)};
    if (!near(low)) return false;
    for (int i = 0; i < 3; i++) {
        if (reach[i] < 0)
            low += reach[i];
        else
            high += reach[i];
    }
    high += (int64_t)presil_store_n0(d) * presil_store_chunk_bytes(d);
    return inside(low, high - low, bytes);
}

/* ---- what the commands read and write */
bool chip_image_ranges(presil_plan *plan) {
    dram_row_list reads = {0}, writes = {0};
    bool ok = true;
    for (size_t i = 0; i < plan->count && ok; i++) {
        const presil_desc *d = &plan->list[i];
        const bool load = presil_desc_opcode(d) == PRESIL_OPCODE_LOAD,
                   store = presil_desc_opcode(d) == PRESIL_OPCODE_STORE;
        if (!load && !store) continue;
        const dram_rows rows = load ? load_rows(d, 0) : store_rows(d, 0);
        ok = chip_each_row(&rows, chip_add_row, load ? &reads : &writes);
    }
    plan->reads = reads.at;
    plan->writes = writes.at;
    if (ok) plan->read_count = (uint32_t)presil_merge_ranges(reads.at, reads.count);
    if (ok) plan->write_count = (uint32_t)presil_merge_ranges(writes.at, writes.count);
    return ok;
}

/* refused: the chip itself will say what is wrong with them. */
static int check(const uint8_t *ends, presil_plan *plan, uint64_t bytes, bool refused, presil_error_buffer *error) {
    size_t first = 0;
    const uint64_t effort = chip_effort(&plan->config, plan->list, plan->count);
    if (effort > (uint64_t)MOST_EFFORT * plan->count)
        return chip_fail(error, PRESIL_EINVAL,
                         "the commands are damaged: %zu descriptors with %llu accesses, at most %d each expected",
                         plan->count, (unsigned long long)effort, MOST_EFFORT);
    for (size_t i = 0; i < plan->count; i++) {
        const presil_desc *d = &plan->list[i];
        bool ok = presil_desc_opcode(d) == PRESIL_OPCODE_LOAD    ? load_inside(d, bytes)
                  : presil_desc_opcode(d) == PRESIL_OPCODE_STORE ? store_inside(d, bytes)
                                                                 : true;
        if (!ok) return chip_fail(error, PRESIL_EINVAL, "descriptor %zu reaches outside of the program's memory", i);
    }
    for (uint32_t s = 0; s < plan->segments; s++) {
        uint64_t end;
        char text[256];
        memcpy(&end, ends + s * sizeof end, sizeof end);
        if (end < first || end > plan->count || end - first > (uint64_t)1 << CHIP_RING_LOG2 ||
            (s + 1 == plan->segments && end != plan->count))
            return chip_fail(error, PRESIL_EINVAL, "launch %u of the image ends at %llu", s, (unsigned long long)end);
        chip_own_ends(plan)[s] = (size_t)end;
        if (!refused && chip_check_plan(&plan->config, plan->list + first, (size_t)end - first, text, sizeof text))
            return chip_fail(error, PRESIL_EINVAL, "the commands are damaged: %s", text);
        first = (size_t)end;
    }
    return PRESIL_OK;
}

static int load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                bool refused, presil_plan **result, presil_error_buffer *error) {
    image_header h;
    if (size < sizeof h)
        return chip_fail(error, PRESIL_EINVAL, "an image of commands has at least %zu bytes, found %llu", sizeof h,
                         (unsigned long long)size);
    memcpy(&h, from, sizeof h);
    if (h.magic != IMAGE_MAGIC || h.version != IMAGE_VERSION)
        return chip_fail(error, PRESIL_EINVAL, "no image of commands of version %d: found 0x%08x, version %u",
                         IMAGE_VERSION, h.magic, h.version);
    if (h.config_hash != chip->config.hash)
        return chip_fail(error, PRESIL_ENODEV,
                         "the commands are for another chip: configuration hash 0x%08x, this one is %s, 0x%08x",
                         h.config_hash, chip->config.name, chip->config.hash);
    if (h.count > MOST_DESCRIPTORS || h.segments == 0 || h.segments > h.count + 1 ||
        size != sizeof h + h.segments * sizeof(uint64_t) + h.count * sizeof(presil_desc)) {
        return chip_fail(error, PRESIL_EINVAL, "an image of %llu descriptors in %u launches doesn't have %llu bytes",
                         (unsigned long long)h.count, h.segments, (unsigned long long)size);
    }
    h.label[sizeof h.label - 1] = 0;
    for (char *c = h.label; *c; c++) { /* it goes into reports and JSON */
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = '?';
    }
    presil_plan *plan = chip_plan_new(&chip->config, h.label, "program");
    if (plan) {
        plan->count = (size_t)h.count;
        plan->segments = h.segments;
        plan->macs = h.macs, plan->passes = h.passes, plan->peak = h.peak, plan->estimate = h.estimate;
    }
    if (!plan || !chip_plan_room(plan, plan->count, plan->segments, false)) {
        chip_plan_free(plan);
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for an image of %llu descriptors",
                         (unsigned long long)h.count);
    }
    const uint8_t *ends = (const uint8_t *)from + sizeof h;
    memcpy(chip_own_list(plan), ends + h.segments * sizeof(uint64_t), plan->count * sizeof *plan->list);
    int status = check(ends, plan, bytes, refused, error);
    if (status != PRESIL_OK) {
        chip_plan_free(plan);
        return status;
    }
    for (size_t i = 0; i < plan->count; i++) {
        if (on_bus(&plan->list[i])) move_by(&chip_own_list(plan)[i], base.value);
    }
    if (!chip_image_ranges(plan)) {
        chip_plan_free(plan);
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for the ranges of an image");
    }
    plan->signature = chip_plan_signature(plan);
    *result = plan;
    return PRESIL_OK;
}

int chip_load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
              presil_plan **result, presil_error_buffer *error) {
    return load(chip, from, size, base, bytes, false, result, error);
}

int chip_load_refused(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                      presil_plan **result, presil_error_buffer *error) {
    return load(chip, from, size, base, bytes, true, result, error);
}
