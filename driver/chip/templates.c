/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of operators that were planned before: the same problem at other addresses (equal offsets in their pages) has
 * the same commands, so a repeated one gets a copy with its own addresses. What is kept is bounded: plans of up to MOST
 * descriptors, one a slot, the latest wins.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "chip.h"

enum { SLOTS = 256, MOST = 256, PAGE = 4096 };

/* Everything that commands depend on. Pointers are cleared, what they point to is beside them. */
typedef struct {
    chip_problem problem;
    presil_layout layout;
    uint64_t config;
} template_key;

typedef struct {
    uint64_t hash, base[CHIP_OPERANDS];
    template_key key;
    presil_plan *plan; /* list, operands and segments alone */
} template_slot;

static template_slot *slots;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t take_base(uint64_t *address) {
    uint64_t base = *address;
    *address %= PAGE;
    return base;
}

static void key_of(const chip_problem *p, template_key *key, uint64_t base[CHIP_OPERANDS]) {
    memset(key, 0, sizeof *key);
    memcpy(&key->problem, p, sizeof *p);
    if (p->layout) memcpy(&key->layout, p->layout, sizeof key->layout);
    key->config = p->config->hash;
    chip_problem *k = &key->problem;
    k->config = NULL;
    k->layout = NULL;
    base[OPERAND_INPUT] = take_base(&k->in.base);
    base[OPERAND_WEIGHTS] = take_base(&k->wgt_base);
    base[OPERAND_PACKED] = take_base(&k->packed);
    base[OPERAND_RESIDUAL] = take_base(&k->res.base);
    base[OPERAND_OUTPUT] = take_base(&k->out.base);
}

static uint64_t hash_of(const template_key *key) {
    uint64_t h = 1, v;
    for (size_t i = 0; i + sizeof v <= sizeof *key; i += sizeof v) {
        memcpy(&v, (const uint8_t *)key + i, sizeof v);
        h = (h ^ v) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

/* Addresses are the same two words in LOAD and STORE. */
static void move_addresses(presil_plan *plan, const uint64_t from[CHIP_OPERANDS], const uint64_t to[CHIP_OPERANDS]) {
    for (size_t i = 0; i < plan->count; i++) {
        presil_desc *d = &plan->list[i];
        uint8_t operand = plan->operands[i];
        if (operand == OPERAND_NONE) continue;
        uint64_t address =
            ((uint64_t)presil_load_addr_hi(d) << 32 | presil_load_addr_lo(d)) + to[operand] - from[operand];
        presil_load_addr_lo_set(d, (uint32_t)address);
        presil_load_addr_hi_set(d, (int64_t)(address >> 32));
    }
}

static bool copy_commands(presil_plan *to, const presil_plan *from) {
    size_t n = from->count ? from->count : 1;
    to->list = malloc(n * sizeof *to->list);
    to->operands = malloc(n);
    to->segment_ends = malloc(from->segments * sizeof *to->segment_ends);
    if (!to->list || !to->operands || !to->segment_ends) return false;
    memcpy(to->list, from->list, from->count * sizeof *to->list);
    memcpy(to->operands, from->operands, from->count);
    memcpy(to->segment_ends, from->segment_ends, from->segments * sizeof *to->segment_ends);
    to->count = from->count;
    to->segments = from->segments;
    to->signature = from->signature;
    to->estimate = from->estimate;
    to->tiling = from->tiling;
    return true;
}

static void drop_commands(presil_plan *plan) {
    free(plan->list);
    free(plan->operands);
    free(plan->segment_ends);
    plan->list = NULL;
    plan->operands = NULL;
    plan->segment_ends = NULL;
}

bool chip_template_recall(const chip_problem *p, presil_plan *plan) {
    template_key key;
    uint64_t base[CHIP_OPERANDS];
    key_of(p, &key, base);
    uint64_t hash = hash_of(&key);
    bool hit = false;
    pthread_mutex_lock(&lock);
    const template_slot *slot = slots ? &slots[hash % SLOTS] : NULL;
    if (slot && slot->plan && slot->hash == hash && !memcmp(&slot->key, &key, sizeof key)) {
        hit = copy_commands(plan, slot->plan);
        if (hit)
            move_addresses(plan, slot->base, base);
        else
            drop_commands(plan);
    }
    pthread_mutex_unlock(&lock);
    return hit;
}

void chip_template_remember(const chip_problem *p, const presil_plan *plan) {
    if (plan->count > MOST) return;
    presil_plan *copy = calloc(1, sizeof *copy);
    if (!copy || !copy_commands(copy, plan)) {
        chip_plan_free(copy);
        return;
    }
    template_key key;
    uint64_t base[CHIP_OPERANDS];
    key_of(p, &key, base);
    uint64_t hash = hash_of(&key);
    presil_plan *old = copy;
    pthread_mutex_lock(&lock);
    if (!slots) slots = calloc(SLOTS, sizeof *slots);
    if (slots) {
        template_slot *slot = &slots[hash % SLOTS];
        old = slot->plan;
        slot->hash = hash;
        slot->key = key;
        slot->plan = copy;
        memcpy(slot->base, base, sizeof base);
    }
    pthread_mutex_unlock(&lock);
    chip_plan_free(old);
}
