/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problems that were solved before: the same problem at other addresses (equal offsets in their pages) has the same
 * commands, so plans share them, each with what is to be added to the addresses of its operands. Commands in here are
 * never changed. What is kept is bounded in bytes, the least recently used goes first; plans that share it keep it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "plan.h"

/* Of the bytes that are kept, how many parts one template may have: the others are worth more than one giant. */
enum { BUCKETS = 1024, PAGE = 4096, SHARE = 4 };

/* Everything that commands depend on. Pointers are cleared, what they point to is beside them. */
typedef struct {
    chip_problem problem;
    presil_layout layout;
    uint64_t config;
} template_key;

struct chip_template {
    atomic_uint references; /* the store's, and one of each plan */
    uint64_t hash, bytes, base[CHIP_OPERANDS];
    template_key key;
    presil_plan plan; /* lists and what follows from them alone */
    chip_template *next, *older, *newer;
};

static struct {
    pthread_mutex_t lock;
    chip_template *bucket[BUCKETS], *oldest, *newest;
    chip_template_figures figures;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .figures.most_bytes = 64u << 20};

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
    base[OPERAND_NONE] = 0;
    base[OPERAND_INPUT] = take_base(&k->in.base);
    base[OPERAND_WEIGHTS] = take_base(&k->wgt_base);
    base[OPERAND_PACKED] = base[OPERAND_PARAMETERS] = take_base(&k->packed);
    base[OPERAND_RESIDUAL] = take_base(&k->res.base);
    base[OPERAND_OUTPUT] = take_base(&k->out.base);
}

static uint64_t hash_of(const template_key *key) {
    uint64_t h = 1, v;
    for (size_t i = 0; i + sizeof v <= sizeof *key; i += sizeof v) {
        memcpy(&v, (const uint8_t *)key + i, sizeof v);
        h = chip_mix(h, v);
    }
    return h;
}

/* ---- sharing */
static void hold(chip_template *t) { (void)atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed); }

static void drop(chip_template *t) {
    if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1) return;
    free(chip_own_list(&t->plan));
    free(chip_own_operands(&t->plan));
    free(chip_own_ends(&t->plan));
    free(t);
}

void chip_template_release(const chip_template *t) { drop((chip_template *)(uintptr_t)t); }

static void share(chip_template *t, const uint64_t base[CHIP_OPERANDS], presil_plan *plan) {
    plan->list = t->plan.list;
    plan->operands = t->plan.operands;
    plan->segment_ends = t->plan.segment_ends;
    plan->count = t->plan.count;
    plan->segments = t->plan.segments;
    plan->signature = t->plan.signature;
    plan->estimate = t->plan.estimate;
    plan->tiling = t->plan.tiling;
    plan->shared = t;
    for (int i = 0; i < CHIP_OPERANDS; i++) plan->shift[i] = base[i] - t->base[i];
}

/* ---- the store; these are called with the lock held */
static void unlist(chip_template *t) {
    *(t->older ? &t->older->newer : &store.oldest) = t->newer;
    *(t->newer ? &t->newer->older : &store.newest) = t->older;
}

static void list_newest(chip_template *t) {
    t->older = store.newest;
    t->newer = NULL;
    *(store.newest ? &store.newest->newer : &store.oldest) = t;
    store.newest = t;
}

static chip_template *find(uint64_t hash, const template_key *key) {
    chip_template *t = store.bucket[hash % BUCKETS];
    while (t && (t->hash != hash || memcmp(&t->key, key, sizeof *key))) t = t->next;
    return t;
}

/* Takes out what is too much, oldest first; returns it, linked by `next`. */
static chip_template *evict(void) {
    chip_template *gone = NULL;
    while (store.oldest && store.figures.bytes > store.figures.most_bytes) {
        chip_template *t = store.oldest, **at = &store.bucket[t->hash % BUCKETS];
        while (*at != t) at = &(*at)->next;
        *at = t->next;
        unlist(t);
        store.figures.bytes -= t->bytes;
        store.figures.templates--;
        store.figures.evicted++;
        t->next = gone;
        gone = t;
    }
    return gone;
}

static void drop_all(chip_template *t) {
    for (chip_template *next; t; t = next) {
        next = t->next;
        drop(t);
    }
}

/* ---- the interface */
bool chip_template_recall(const chip_problem *p, presil_plan *plan) {
    template_key key;
    uint64_t base[CHIP_OPERANDS];
    key_of(p, &key, base);
    const uint64_t hash = hash_of(&key);
    pthread_mutex_lock(&store.lock);
    chip_template *t = find(hash, &key);
    if (t) {
        hold(t);
        if (t != store.newest) {
            unlist(t);
            list_newest(t);
        }
    }
    store.figures.recalled += t != NULL;
    store.figures.planned += t == NULL;
    pthread_mutex_unlock(&store.lock);
    if (t) share(t, base, plan);
    return t != NULL;
}

void chip_template_remember(const chip_problem *p, presil_plan *plan) {
    chip_template *t = calloc(1, sizeof *t);
    if (!t) return;
    key_of(p, &t->key, t->base);
    t->hash = hash_of(&t->key);
    t->bytes =
        sizeof *t + plan->count * (sizeof *plan->list + sizeof *plan->operands) + plan->segments * sizeof(size_t);
    t->plan = *plan;
    atomic_init(&t->references, 2);
    pthread_mutex_lock(&store.lock);
    /* Another thread may have solved it meanwhile. */
    const bool kept = t->bytes <= store.figures.most_bytes / SHARE && !find(t->hash, &t->key);
    chip_template *gone = NULL;
    if (kept) {
        t->next = store.bucket[t->hash % BUCKETS];
        store.bucket[t->hash % BUCKETS] = t;
        list_newest(t);
        store.figures.bytes += t->bytes;
        store.figures.templates++;
        plan->shared = t;
        gone = evict();
    }
    pthread_mutex_unlock(&store.lock);
    if (!kept) free(t);
    drop_all(gone);
}

chip_template_figures chip_templates(void) {
    pthread_mutex_lock(&store.lock);
    const chip_template_figures figures = store.figures;
    pthread_mutex_unlock(&store.lock);
    return figures;
}

void chip_templates_limit(uint64_t most_bytes) {
    pthread_mutex_lock(&store.lock);
    store.figures.most_bytes = most_bytes;
    chip_template *gone = evict();
    pthread_mutex_unlock(&store.lock);
    drop_all(gone);
}
