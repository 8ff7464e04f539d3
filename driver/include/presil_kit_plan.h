/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_kit_plan.h - plans for the library of a chip (presil_chip.h) whose work is a row of commands of one size: what
 * a launch reads and writes, storing, merging, naming an element. C11, inline. Whoever includes it has its presil_plan:
 *
 *   presil_kit_plan_new() -> presil_kit_plan_command() for each -> presil_kit_add_view() -> presil_kit_plan_done()
 *
 * presil_kit_plan_info, presil_kit_plan_free, presil_kit_save and presil_kit_timing stand in the chip's table as they
 * are.
 */
#ifndef PRESIL_KIT_PLAN_H
#define PRESIL_KIT_PLAN_H

#include "presil_kit.h"

/* ---- ranges of device memory */

typedef struct {
    presil_byte_range *list;
    uint32_t count, room;
} presil_kit_ranges;

/* false: no host memory. A range that begins where the last one ends is joined to it. */
static inline bool presil_kit_add(presil_kit_ranges *r, uint64_t base, uint64_t bytes) {
    presil_byte_range *last = r->count ? &r->list[r->count - 1] : NULL;
    if (last && last->base.value + last->bytes == base) {
        last->bytes += bytes;
        return true;
    }
    if (r->count == r->room) {
        const uint32_t room = r->room ? 2 * r->room : 8;
        presil_byte_range *more = (presil_byte_range *)realloc(r->list, room * sizeof *more);
        if (!more) return false;
        r->list = more;
        r->room = room;
    }
    r->list[r->count++] = (presil_byte_range){{base}, bytes};
    return true;
}

/* Every byte of a view, what fills its blocks up among them. */
static inline bool presil_kit_add_view(presil_kit_ranges *r, const presil_kit_view *v) {
    const int64_t *s = v->shape, pixel = s[3] * v->stride[3];
    const bool dense = v->stride[2] == pixel;
    if (v->blocked) {
        const int64_t image = (presil_kit_blocks(v) - 1) * v->block + s[1] * s[2] * v->stride[2];
        return presil_kit_add(r, v->data, (uint64_t)((s[0] - 1) * v->stride[0] + image));
    }
    for (int64_t n = 0; n < s[0]; n++) {
        for (int64_t y = 0; y < s[1]; y++) {
            for (int64_t x = 0; x < (dense ? 1 : s[2]); x++) {
                if (!presil_kit_add(r, presil_kit_at(v, n, y, x, 0), (uint64_t)((dense ? s[2] : 1) * pixel)))
                    return false;
            }
        }
    }
    return true;
}

/* Sorted, merged: as plan_info() gives them, and as the next two want them. */
static inline void presil_kit_tidy(presil_kit_ranges *r) {
    r->count = (uint32_t)presil_merge_ranges(r->list, r->count);
}

static inline bool presil_kit_hold(const presil_kit_ranges *r, uint64_t base, uint64_t bytes) {
    for (uint32_t i = 0; i < r->count; i++) {
        const presil_byte_range *one = &r->list[i];
        if (base >= one->base.value && bytes <= one->bytes && base - one->base.value <= one->bytes - bytes) return true;
    }
    return false;
}

static inline bool presil_kit_meet(const presil_kit_ranges *a, const presil_kit_ranges *b) {
    for (uint32_t i = 0, k = 0; i < a->count && k < b->count;) {
        const presil_byte_range *x = &a->list[i], *y = &b->list[k];
        const uint64_t x_end = x->base.value + x->bytes, y_end = y->base.value + y->bytes;
        if (x->base.value < y_end && y->base.value < x_end) return true;
        if (x_end <= y_end)
            i++;
        else
            k++;
    }
    return false;
}

/* Whether two views share a byte; true too where there is no host memory to tell. */
static inline bool presil_kit_overlap(const presil_kit_view *a, const presil_kit_view *b) {
    presil_kit_ranges x = {0}, y = {0};
    bool found = !presil_kit_add_view(&x, a) || !presil_kit_add_view(&y, b);
    presil_kit_tidy(&x);
    presil_kit_tidy(&y);
    found = found || presil_kit_meet(&x, &y);
    free(x.list);
    free(y.list);
    return found;
}

/* ---- plans */

enum { PRESIL_KIT_ADDRESSES = 16 };
struct presil_plan;

/* What a chip says of its commands, which are words of 32 bits. */
typedef struct {
    char magic[8];                                           /* of stored plans: the chip, and a version */
    uint32_t bytes;                                          /* of a command */
    uint32_t timed;                                          /* the first bytes: all that cycles depend on */
    uint64_t peak;                                           /* products a cycle */
    uint32_t (*addresses)(const void *command, uint32_t *w); /* words where a device address begins (low, high), at most
                                                                PRESIL_KIT_ADDRESSES; how many */
    /* Whether all that a command touches stands in the plan's reads and writes: asked of what was stored. */
    bool (*inside)(const struct presil_plan *plan, const void *command);
    bool apart; /* each command has a doorbell of its own: plan_info() says so many segments, one if there is none */
} presil_kit_commands;

struct presil_plan {
    const presil_kit_commands *of;
    char label[64];
    uint64_t macs, estimate, signature;
    uint8_t *commands;
    uint32_t count, room;
    presil_kit_ranges reads, writes;
    presil_kit_view out; /* what describe() speaks of; channels 0: not known */
};

static inline void *presil_kit_command(const presil_plan *p, uint32_t n) {
    return p->commands + (size_t)n * p->of->bytes;
}

static inline void presil_kit_plan_free(presil_plan *p) {
    if (!p) return;
    free(p->commands);
    free(p->reads.list);
    free(p->writes.list);
    free(p);
}

/* The end of plan(): the plan, or why there is none. */
static inline int presil_kit_give_plan(presil_plan *p, int status, presil_plan **out) {
    if (status)
        presil_kit_plan_free(p);
    else
        *out = p;
    return status;
}

static inline presil_plan *presil_kit_plan_new(const presil_kit_commands *of, const char *label,
                                               presil_error_buffer *error) {
    presil_plan *p = (presil_plan *)calloc(1, sizeof *p);
    if (p) {
        p->of = of;
        (void)snprintf(p->label, sizeof p->label, "%s", label);
    } else {
        (void)presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    }
    return p;
}

/* One more, of zeros; NULL: no host memory. */
static inline void *presil_kit_plan_command(presil_plan *p) {
    if (p->count == p->room) {
        const uint32_t room = p->room ? 2 * p->room : 4;
        uint8_t *more = (uint8_t *)realloc(p->commands, (size_t)room * p->of->bytes);
        if (!more) return NULL;
        p->commands = more;
        p->room = room;
    }
    return memset(presil_kit_command(p, p->count++), 0, p->of->bytes);
}

/* Addresses by so much; with `in_page` only their place in the page is left. */
static inline void presil_kit_move(const presil_kit_commands *of, uint8_t *command, uint64_t by, bool in_page) {
    uint32_t at[PRESIL_KIT_ADDRESSES], words[2];
    const uint32_t count = of->addresses(command, at);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(words, command + 4 * (size_t)at[i], sizeof words);
        uint64_t address = ((uint64_t)words[1] << 32 | words[0]) + by;
        if (in_page) address %= 4096;
        words[0] = (uint32_t)address;
        words[1] = (uint32_t)(address >> 32);
        memcpy(command + 4 * (size_t)at[i], words, sizeof words);
    }
}

/* Tidies what is read and written, and signs the commands (presil_plan_info.signature). Returns `ok`, or EHOSTMEM. */
static inline int presil_kit_plan_done(presil_plan *p, presil_error_buffer *error) {
    presil_kit_tidy(&p->reads);
    presil_kit_tidy(&p->writes);
    uint8_t *copy = (uint8_t *)malloc(p->of->bytes);
    if (!copy) return presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    p->signature = 0xcbf29ce484222325u; /* FNV-1a, of words */
    for (uint32_t i = 0; i < p->count; i++) {
        memcpy(copy, presil_kit_command(p, i), p->of->bytes);
        presil_kit_move(p->of, copy, 0, true);
        for (uint32_t at = 0; at + 4 <= p->of->timed; at += 4) {
            uint32_t word;
            memcpy(&word, copy + at, sizeof word);
            p->signature = (p->signature ^ word) * 0x100000001b3u;
        }
    }
    free(copy);
    return PRESIL_OK;
}

/* presil_chip_ops.timing: the timed bytes of each command, addresses by their place in the page. A chip whose service()
 * or submit() does more or less with a command by what another one holds adds that. */
static inline int presil_kit_timing(const presil_chip *chip, const presil_plan *p, presil_timing_add add,
                                    void *context) {
    (void)chip;
    uint8_t *copy = (uint8_t *)malloc(p->of->bytes);
    if (!copy) return PRESIL_EHOSTMEM;
    const uint64_t numbers[] = {p->of->timed, p->count, p->of->apart};
    add(context, numbers, sizeof numbers);
    for (uint32_t i = 0; i < p->count; i++) {
        memcpy(copy, presil_kit_command(p, i), p->of->bytes);
        presil_kit_move(p->of, copy, 0, true);
        add(context, copy, p->of->timed);
    }
    free(copy);
    return PRESIL_OK;
}

static inline int presil_kit_plan_info(const presil_plan *p, presil_plan_info *out) {
    const presil_plan_info own = {.label = p->label,
                                  .macs = p->macs,
                                  .passes = 1,
                                  .peak_macs_per_cycle = p->of->peak,
                                  .descriptors = p->count,
                                  .signature = p->signature,
                                  .estimate = p->estimate,
                                  .segments = p->of->apart && p->count ? p->count : 1,
                                  .reads = p->reads.list,
                                  .writes = p->writes.list,
                                  .read_count = p->reads.count,
                                  .write_count = p->writes.count};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static inline bool presil_kit_add_all(presil_kit_ranges *to, const presil_kit_ranges *from) {
    bool ok = true;
    for (uint32_t i = 0; i < from->count && ok; i++)
        ok = presil_kit_add(to, from->list[i].base.value, from->list[i].bytes);
    return ok;
}

/* The commands of all plans, one plan's after those of another. behind(): may change the first command of each plan but
 * the first, so that it waits for what is before it. */
static inline int presil_kit_merge(const presil_plan *const *plans, uint32_t count, const char *label,
                                   void (*behind)(void *command), presil_plan **out, presil_error_buffer *error) {
    presil_plan *p = presil_kit_plan_new(plans[0]->of, label ? label : "merged", error);
    if (!p) return PRESIL_EHOSTMEM;
    bool ok = true;
    for (uint32_t i = 0; i < count && ok; i++) {
        const presil_plan *one = plans[i];
        ok = presil_kit_add_all(&p->reads, &one->reads) && presil_kit_add_all(&p->writes, &one->writes);
        for (uint32_t k = 0; k < one->count && ok; k++) {
            uint8_t *command = (uint8_t *)presil_kit_plan_command(p);
            ok = command != NULL;
            if (ok) memcpy(command, presil_kit_command(one, k), p->of->bytes);
            if (ok && k == 0 && p->count > 1) behind(command);
        }
        p->macs += one->macs;
        p->estimate += one->estimate;
    }
    const int status =
        ok ? presil_kit_plan_done(p, error) : presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    return presil_kit_give_plan(p, status, out);
}

/* ---- which element: for describe() */

typedef struct {
    int64_t count, stride; /* bytes */
    int dim;
    int64_t scale; /* a step along it is so many of the dimension */
} presil_kit_axis;

/* Along the axes from the longest stride on. Strides need not divide each other: each step that leaves the rest within
 * reach is tried, a few of them. (More there are in views that overlap themselves, and in those of long rows and
 * columns of nearly one stride: an element of theirs may not be found.) */
static inline bool presil_kit_along(const presil_kit_axis *axis, int axes, int64_t at, int64_t bytes, int64_t *index) {
    enum { TRIED = 4 };
    if (!axes) return at >= 0 && at < bytes;
    int64_t reach = bytes - 1;
    for (int i = 1; i < axes; i++) reach += (axis[i].count - 1) * axis[i].stride;
    const int64_t last = at < 0 ? -1 : presil_kit_least(axis->count - 1, at / axis->stride);
    for (int64_t i = last; i >= 0 && i > last - TRIED && at - i * axis->stride <= reach; i--) {
        index[axis->dim] += i * axis->scale;
        if (presil_kit_along(axis + 1, axes - 1, at - i * axis->stride, bytes, index)) return true;
        index[axis->dim] -= i * axis->scale;
    }
    return false;
}

/* The element whose byte lies at `address`. index[3] >= shape[3]: what fills a block up. false: none of the view. */
static inline bool presil_kit_element(const presil_kit_view *v, uint64_t address, int64_t index[4]) {
    presil_kit_axis axis[5], one;
    int64_t at = (int64_t)(address - v->data);
    int axes = 0;
    const bool blocked = v->blocked;
    memset(index, 0, 4 * sizeof *index);
    for (int d = 0; d < 4; d++) {
        one = (presil_kit_axis){d == 3 && blocked ? v->channels : v->shape[d], v->stride[d], d, 1};
        if (d == 3 && blocked) axis[axes++] = (presil_kit_axis){presil_kit_blocks(v), v->block, 3, v->channels};
        if (one.count == 1 || !one.stride) continue;
        if (one.stride < 0) { /* from its other end */
            index[d] = one.count - 1;
            at = (int64_t)((uint64_t)at - (uint64_t)((one.count - 1) * one.stride)); /* of any address */
            one = (presil_kit_axis){one.count, -one.stride, d, -1};
        }
        axis[axes++] = one;
    }
    for (int i = 1; i < axes; i++) {
        for (int k = i; k > 0 && axis[k].stride > axis[k - 1].stride; k--)
            one = axis[k], axis[k] = axis[k - 1], axis[k - 1] = one;
    }
    return presil_kit_along(axis, axes, at, v->stride[3], index);
}

/* "output [n, y, x, c]", "output [i]" of a flat view, or ""; the text's length. */
static inline int presil_kit_describe(const presil_kit_view *v, uint64_t address, char *text, size_t bytes) {
    int64_t i[4];
    if (bytes) text[0] = 0;
    if (!v->channels || !presil_kit_element(v, address, i)) return 0;
    if (v->flat) return snprintf(text, bytes, "output [%" PRId64 "]", i[3]);
    return snprintf(text, bytes, "output [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]%s", i[0], i[1], i[2],
                    i[3], i[3] < v->shape[3] ? "" : " (beyond the last channel)");
}

/* ---- stored plans: a head, commands, reads, writes, with addresses counted from a base */

typedef struct {
    char magic[8], label[64];
    uint64_t macs, estimate;
    uint32_t count, read_count, write_count, reserved;
    presil_kit_view out;
} presil_kit_head;

static inline uint64_t presil_kit_stored_bytes(const presil_kit_head *h, const presil_kit_commands *of) {
    return sizeof *h + (uint64_t)h->count * of->bytes +
           ((uint64_t)h->read_count + h->write_count) * sizeof(presil_byte_range);
}

/* As presil_chip_ops.save. */
static inline int presil_kit_save(const presil_plan *p, presil_daddr base, void *to, uint64_t *size,
                                  presil_error_buffer *error) {
    presil_kit_head h = {.macs = p->macs, .estimate = p->estimate, .count = p->count, .out = p->out};
    h.read_count = p->reads.count, h.write_count = p->writes.count;
    memcpy(h.magic, p->of->magic, sizeof h.magic);
    memcpy(h.label, p->label, sizeof h.label);
    if (h.out.channels) h.out.data -= base.value;
    const uint64_t room = *size;
    *size = presil_kit_stored_bytes(&h, p->of);
    if (!to) return PRESIL_OK;
    if (room < *size) return presil_kit_fail(error, PRESIL_EINVAL, "%" PRIu64 " bytes are needed", *size);
    uint8_t *at = (uint8_t *)to;
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    for (uint32_t i = 0; i < p->count; i++, at += p->of->bytes) {
        memcpy(at, presil_kit_command(p, i), p->of->bytes);
        presil_kit_move(p->of, at, -base.value, false);
    }
    for (uint32_t i = 0; i < h.read_count + h.write_count; i++, at += sizeof(presil_byte_range)) {
        presil_byte_range range = i < h.read_count ? p->reads.list[i] : p->writes.list[i - h.read_count];
        range.base.value -= base.value;
        memcpy(at, &range, sizeof range);
    }
    return PRESIL_OK;
}

/* `count` steps of `stride` bytes: few enough that those of all dimensions add up. */
static inline bool presil_kit_small(int64_t count, int64_t stride) {
    const int64_t most = count > 0 ? (INT64_C(1) << 58) / count : -1;
    return stride >= -most && stride <= most;
}

/* Of a stored view only what no arithmetic on it can break. */
static inline bool presil_kit_sane(const presil_kit_view *v) {
    bool sane = v->channels > 0 && v->channels <= PRESIL_KIT_REACH && v->stride[3] > 0;
    sane = sane && (v->blocked ? v->block > 0 : v->block >= 0); /* of one not in blocks nobody asks how far they are */
    for (int d = 0; d < 4; d++)
        sane = sane && v->shape[d] <= PRESIL_KIT_REACH && presil_kit_small(v->shape[d], v->stride[d]);
    return sane && presil_kit_small(presil_kit_blocks(v), v->block) && presil_kit_small(v->channels, v->stride[3]);
}

static inline int presil_kit_load_body(presil_plan *p, const presil_kit_head *h, const uint8_t *from, presil_daddr base,
                                       uint64_t bytes, presil_error_buffer *error) {
    bool ok = true;
    for (uint32_t i = 0; i < h->count && ok; i++, from += p->of->bytes) {
        uint8_t *command = (uint8_t *)presil_kit_plan_command(p);
        ok = command != NULL;
        if (!ok) break;
        memcpy(command, from, p->of->bytes);
        presil_kit_move(p->of, command, base.value, false);
    }
    for (uint32_t i = 0; i < h->read_count + h->write_count && ok; i++, from += sizeof(presil_byte_range)) {
        presil_byte_range r;
        memcpy(&r, from, sizeof r);
        if (r.base.value > bytes || r.bytes > bytes - r.base.value)
            return presil_kit_fail(error, PRESIL_EINVAL, "a stored plan leaves its memory");
        ok = presil_kit_add(i < h->read_count ? &p->reads : &p->writes, r.base.value + base.value, r.bytes);
    }
    const int status =
        ok ? presil_kit_plan_done(p, error) : presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    for (uint32_t i = 0; i < p->count && !status; i++) {
        if (!p->of->inside(p, presil_kit_command(p, i)))
            return presil_kit_fail(error, PRESIL_EINVAL, "command %u of a stored plan leaves what the plan touches", i);
    }
    return status;
}

/* As presil_chip_ops.load. */
static inline int presil_kit_load(const presil_kit_commands *of, const void *from, uint64_t size, presil_daddr base,
                                  uint64_t bytes, presil_plan **out, presil_error_buffer *error) {
    presil_kit_head h = {.count = 0};
    if (size >= sizeof h) memcpy(&h, from, sizeof h);
    if (size < sizeof h || memcmp(h.magic, of->magic, sizeof h.magic) != 0 ||
        (uint64_t)h.read_count + h.write_count > UINT32_MAX || presil_kit_stored_bytes(&h, of) != size ||
        (h.out.channels && !presil_kit_sane(&h.out)))
        return presil_kit_fail(error, PRESIL_EINVAL, "not a plan of this chip (%.7s), or a torn one", of->magic);
    h.label[sizeof h.label - 1] = 0;
    presil_plan *p = presil_kit_plan_new(of, h.label, error);
    if (!p) return PRESIL_EHOSTMEM;
    p->macs = h.macs, p->estimate = h.estimate;
    p->out = h.out;
    if (h.out.channels) p->out.data += base.value;
    const int status = presil_kit_load_body(p, &h, (const uint8_t *)from + sizeof h, base, bytes, error);
    return presil_kit_give_plan(p, status, out);
}
#endif
