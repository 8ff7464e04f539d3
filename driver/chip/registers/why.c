/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the chip doesn't move: hung or slow, what each engine waits for, since when, and who should give it. From the
 * wait registers, the counters, the commands and, where the transport knows, the oldest open bus transaction.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "port.h"

/* Rows of the answer: the engines (but for VECTOR, which no descriptor reaches), and who serves them. */
enum { ROW_COMMAND = PRESIL_ENGINES - 1, ROW_MEMORY, ROWS, QUEUE = 4, TOKENS = 4 * PRESIL_ENGINES };

static const char *const cause_names[PRESIL_CAUSES] = {"busy",
                                                       "no descriptor",
                                                       "waits for LOAD",
                                                       "waits for MATRIX",
                                                       "waits for EPILOGUE",
                                                       "waits for STORE",
                                                       "waits for VECTOR",
                                                       "waits for weights",
                                                       "lost arbitration",
                                                       "bus request",
                                                       "bus data",
                                                       "bus response",
                                                       "draining",
                                                       "stopped by an error",
                                                       "?",
                                                       "?"};

typedef struct {
    const presil_desc *list; /* of the running segment; count 0: not known */
    uint32_t count;
    uint32_t status, cause, head, tail;
    uint32_t tokens[PRESIL_ENGINES], mask[PRESIL_ENGINES], index[PRESIL_ENGINES];
    bool bus_known;
    presil_bus_open bus;
} stalled;

static void append(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t bytes, const char *format, ...) {
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    if (used + 1 < bytes) (void)vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
}

static void look(presil_chip *chip, port *p, const presil_plan *plan, stalled *s) {
    *s = (stalled){.status = get(p, PRESIL_REG_STATUS),
                   .cause = get(p, PRESIL_REG_WAIT_CAUSE),
                   .head = get(p, PRESIL_REG_RING_HEAD) - chip->launch.first,
                   .tail = get(p, PRESIL_REG_RING_TAIL) - chip->launch.first};
    if (chip->behind_count) s->tail = chip->launch.count;
    for (uint32_t e = 0; e < PRESIL_ENGINES; e++) {
        s->tokens[e] = get(p, PRESIL_REG_WAIT_TOKENS0 + 4 * e);
        s->mask[e] = get(p, PRESIL_REG_WAIT_MASK0 + 4 * e);
        s->index[e] = get(p, PRESIL_REG_WAIT_INDEX0 + 4 * e);
        if (s->mask[e] || s->index[e]) s->index[e] -= chip->launch.first; /* 0, 0: nobody waits */
    }
    if (plan) {
        const size_t first = chip_segment_first(plan, chip->launch.segment);
        s->list = plan->list + first;
        s->count = (uint32_t)(plan->segment_ends[chip->launch.segment] - first);
    }
    const presil_link *link = p->link;
    s->bus_known = link->ops->bus_open && link->ops->bus_open(link->handle, &s->bus) == 0;
}

static uint32_t cause_of(const stalled *s, uint32_t engine) { return s->cause >> (4 * engine) & 15u; }
static uint32_t have(const stalled *s, uint32_t token) { return s->tokens[token / 4] >> (8 * (token % 4)) & 255u; }
static bool belongs(const stalled *s, uint32_t n, uint32_t engine) {
    return presil_desc_opcode(&s->list[n]) == engine + 1;
}
/* The first of an engine's descriptors that has not begun, as far as they have been handed out. */
static uint32_t not_begun(const stalled *s, uint32_t engine) {
    return s->mask[engine] || s->index[engine] ? s->index[engine] : s->head;
}

/* Who gives a token next: the first descriptor whose signal has not come. Signals that have come: what is there, and
 * what those that began have taken. s->count: nobody. */
static uint32_t giver(const stalled *s, uint32_t token) {
    uint32_t given = have(s, token);
    for (uint32_t n = 0; n < s->count && n < s->head; n++) {
        const uint32_t engine = presil_desc_opcode(&s->list[n]) - 1;
        if (engine < PRESIL_ENGINES && n < not_begun(s, engine) && (presil_desc_wait(&s->list[n]) >> token & 1u))
            given++;
    }
    for (uint32_t n = 0; n < s->count; n++) {
        if (!belongs(s, n, token / 4) || !(presil_desc_signal(&s->list[n]) >> (token % 4) & 1u)) continue;
        if (!given--) return n;
    }
    return s->count;
}

static void name_descriptor(const stalled *s, uint32_t n, char *text, size_t bytes) {
    append(text, bytes, "descriptor %u", n);
    if (n < s->count)
        append(text, bytes, " (%s, tile %u)", chip_opcode_name(&s->list[n]), presil_desc_tag(&s->list[n]));
}

static void token_row(const stalled *s, uint32_t engine, presil_waiting *row) {
    uint32_t token = 0;
    while (token < TOKENS && (!(s->mask[engine] >> token & 1u) || have(s, token))) token++;
    if (token == TOKENS) return; /* it has just come */
    const uint32_t from = token / 4;
    char *text = row->waits_for;
    const size_t bytes = sizeof row->waits_for;
    append(text, bytes, "token %u of %s for ", token % 4, chip_engine_names[from]);
    name_descriptor(s, s->index[engine], text, bytes);
    if (!s->count) return;
    const uint32_t n = giver(s, token);
    if (n == s->count) {
        row->flags |= PRESIL_WAITS_FOREVER;
        append(text, bytes, ", which nobody gives any more");
        return;
    }
    append(text, bytes, "; ");
    name_descriptor(s, n, text, bytes);
    const bool handed = n < s->head;
    append(text, bytes, " gives it, and %s",
           !handed                  ? "is not handed out yet"
           : n < not_begun(s, from) ? "has begun"
                                    : "is in its queue");
    row->by = handed ? (int32_t)from : (int32_t)ROW_COMMAND;
}

static void engine_row(const stalled *s, uint32_t engine, presil_waiting *row) {
    const uint32_t cause = cause_of(s, engine);
    const bool active = s->status >> (PRESIL_STATUS_ACTIVE_SHIFT + engine) & 1u;
    (void)snprintf(row->who, sizeof row->who, "%s", chip_engine_names[engine]);
    (void)snprintf(row->state, sizeof row->state, "%s", cause_names[cause]);
    if (cause >= PRESIL_CAUSE_WAIT_LOAD && cause <= PRESIL_CAUSE_WAIT_VECTOR) {
        token_row(s, engine, row);
    } else if (cause == PRESIL_CAUSE_BUS_REQUEST || cause == PRESIL_CAUSE_BUS_DATA ||
               cause == PRESIL_CAUSE_BUS_RESPONSE) {
        row->by = ROW_MEMORY;
        append(row->waits_for, sizeof row->waits_for, "%s",
               cause == PRESIL_CAUSE_BUS_REQUEST    ? "the bus to accept an address"
               : cause == PRESIL_CAUSE_BUS_RESPONSE ? "write responses"
               : engine == PRESIL_OPCODE_LOAD - 1   ? "read data"
                                                    : "the bus to accept write data");
    } else if (cause == PRESIL_CAUSE_WEIGHTS) {
        append(row->waits_for, sizeof row->waits_for, "weights from the scratchpad");
    } else if (cause == PRESIL_CAUSE_SCRATCHPAD) {
        append(row->waits_for, sizeof row->waits_for, "a port of the scratchpad");
    } else if (cause == PRESIL_CAUSE_COMMAND) {
        uint32_t n = s->head;
        while (n < s->count && !belongs(s, n, engine)) n++;
        if (n >= s->count) return; /* it has done all */
        append(row->waits_for, sizeof row->waits_for, "its next command, ");
        name_descriptor(s, n, row->waits_for, sizeof row->waits_for);
        row->by = ROW_COMMAND;
    } else if (active) {
        row->flags |= PRESIL_WAITS_WORKS;
    }
}

static void command_row(const stalled *s, presil_waiting *row) {
    (void)snprintf(row->who, sizeof row->who, "COMMAND");
    (void)snprintf(row->state, sizeof row->state, "descriptor %u of %u", s->head, s->tail);
    if (s->head == s->tail) {
        for (uint32_t e = 0; e < ROW_COMMAND; e++)
            if (cause_of(s, e) != PRESIL_CAUSE_COMMAND) return; /* they are not done */
        row->by = ROW_MEMORY;
        append(row->waits_for, sizeof row->waits_for, "the responses of all writes, to end the launch");
    }
    if (s->head >= s->tail || s->head >= s->count) return;
    const uint32_t engine = presil_desc_opcode(&s->list[s->head]) - 1;
    uint32_t queued = 0;
    for (uint32_t n = engine < PRESIL_ENGINES ? not_begun(s, engine) : s->head; n < s->head && n < s->count; n++)
        queued += belongs(s, n, engine);
    if (queued >= QUEUE) {
        row->by = (int32_t)engine;
        append(row->waits_for, sizeof row->waits_for, "room in the queue of %s for ", chip_engine_names[engine]);
        name_descriptor(s, s->head, row->waits_for, sizeof row->waits_for);
    } else {
        row->by = ROW_MEMORY;
        append(row->waits_for, sizeof row->waits_for, "descriptor %u to be fetched", s->head);
    }
}

static void memory_row(const stalled *s, presil_waiting *row) {
    const presil_bus_open *b = &s->bus;
    (void)snprintf(row->who, sizeof row->who, "memory");
    if (!s->bus_known) {
        (void)snprintf(row->state, sizeof row->state, "not known");
        return;
    }
    if (!b->valid) {
        (void)snprintf(row->state, sizeof row->state, "nothing is open");
        return;
    }
    (void)snprintf(row->state, sizeof row->state, "%s open", b->is_write ? "write" : "read");
    row->since_least = row->since_most = b->since;
    char *text = row->waits_for;
    const size_t bytes = sizeof row->waits_for;
    if (b->on_chip) {
        row->by = b->is_write ? PRESIL_OPCODE_STORE - 1 : b->id == 0 ? PRESIL_OPCODE_LOAD - 1 : (int32_t)ROW_COMMAND;
        append(text, bytes, "the chip to %s", b->is_write ? "send data" : "take data");
    } else if (b->due == UINT64_MAX) {
        row->flags |= PRESIL_WAITS_FOREVER;
        append(text, bytes, "nothing that will come: it never answers");
    } else {
        row->flags |= PRESIL_WAITS_WORKS;
        append(text, bytes, "its own answer, in %llu cycles", (unsigned long long)b->due);
    }
    append(text, bytes, "; oldest open: %s of 0x%llx, ID %u, %u bytes to come", b->is_write ? "write" : "read",
           (unsigned long long)b->address.value, b->id, b->bytes);
}

/* Marks a circle of the rows' `by`; whether there is one. */
static bool mark_circle(presil_waiting *rows) {
    for (int start = 0; start < ROWS; start++) {
        int at = start, steps = 0;
        do at = rows[at].by;
        while (at >= 0 && at != start && ++steps < ROWS);
        if (at != start) continue;
        do {
            rows[at].flags |= PRESIL_WAITS_CIRCLE;
            at = rows[at].by;
        } while (at != start);
        return true;
    }
    return false;
}

static void count_cycles(presil_chip *chip, port *p, const stalled *s, presil_waiting *rows) {
    put(p, PRESIL_REG_CONTROL, CONTROL_COUNTER_SNAPSHOT);
    const uint32_t cycles = get(p, PRESIL_REG_COUNTER(COUNTER_CYCLES));
    for (uint32_t e = 0; e < ROW_COMMAND; e++) {
        const uint32_t c = cause_of(s, e), n = get(p, PRESIL_REG_COUNTER(e * PRESIL_CAUSES + c));
        rows[e].since_most = n;
        const bool still = chip->looked && n - chip->look[e * PRESIL_CAUSES + c] == cycles - chip->look[LOOK_CYCLES];
        rows[e].since_least = still ? cycles - chip->look[LOOK_CYCLES] : 0;
    }
}

int chip_waits(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_waiting *rows, uint32_t most,
               uint32_t *count, int *verdict) {
    port p = {link, 0};
    stalled s;
    presil_waiting all[ROWS];
    memset(all, 0, sizeof all);
    look(chip, &p, plan, &s);
    for (int i = 0; i < ROWS; i++) all[i].by = -1;
    for (uint32_t e = 0; e < ROW_COMMAND; e++) engine_row(&s, e, &all[e]);
    command_row(&s, &all[ROW_COMMAND]);
    memory_row(&s, &all[ROW_MEMORY]);
    count_cycles(chip, &p, &s, all);
    bool hung = mark_circle(all), works = false;
    for (int i = 0; i < ROWS; i++) {
        /* The memory alone is not what the chip waits for unless somebody does. */
        hung |= (all[i].flags & PRESIL_WAITS_FOREVER) != 0;
        works |= (all[i].flags & PRESIL_WAITS_WORKS) != 0;
    }
    *verdict = hung ? PRESIL_HUNG : works ? PRESIL_SLOW : s.bus_known ? PRESIL_HUNG : PRESIL_HUNG_OR_SLOW;
    *count = ROWS;
    memcpy(rows, all, sizeof *rows * (most < ROWS ? most : ROWS));
    return port_status(&p, NULL);
}

static void say_circle(const presil_waiting *rows, char *text, size_t bytes) {
    int first = 0;
    while (first < ROWS && !(rows[first].flags & PRESIL_WAITS_CIRCLE)) first++;
    if (first == ROWS) return;
    append(text, bytes, " in a circle, %s", rows[first].who);
    for (int at = rows[first].by; at != first; at = rows[at].by) append(text, bytes, " -> %s", rows[at].who);
    append(text, bytes, " -> %s", rows[first].who);
}

static void say_since(const presil_waiting *row, char *text, size_t bytes) {
    const unsigned long long least = row->since_least, most = row->since_most;
    if (!most) return;
    if (least == most)
        append(text, bytes, " (for %llu cycles)", most);
    else if (least)
        append(text, bytes, " (for %llu to %llu cycles)", least, most);
    else
        append(text, bytes, " (for at most %llu cycles)", most);
}

int chip_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes) {
    static const char *const verdicts[] = {"hung or slow", "hung", "slow, not hung"};
    presil_waiting rows[ROWS];
    uint32_t count = 0;
    int verdict = 0;
    if (!bytes) return PRESIL_EINVAL;
    text[0] = 0;
    const int status = chip_waits(chip, link, plan, rows, ROWS, &count, &verdict);
    if (status) return status;
    append(text, bytes, "%s", verdicts[verdict]);
    say_circle(rows, text, bytes);
    for (uint32_t i = 0; i < count; i++) {
        const presil_waiting *row = &rows[i];
        if (!*row->waits_for && !(row->flags & PRESIL_WAITS_WORKS)) continue;
        append(text, bytes, "; %s: %s", row->who, row->state);
        if (*row->waits_for) append(text, bytes, ", needs %s", row->waits_for);
        say_since(row, text, bytes);
    }
    return PRESIL_OK;
}

/* Also what count_cycles() compares with: an engine that was in one state in between has been there at least so long.
 */
int chip_progress(presil_chip *chip, const presil_link *link, uint64_t *work) {
    port p = {link, 0};
    uint32_t offset[LOOKS];
    put(&p, PRESIL_REG_CONTROL, CONTROL_COUNTER_SNAPSHOT);
    /* 2^32 cycles between two looks are too many: the low half does. */
    for (uint32_t n = 0; n < LOOKS; n++) offset[n] = PRESIL_REG_COUNTER(n == LOOK_CYCLES ? COUNTER_CYCLES : n);
    uint32_t now[LOOKS] = {0};
    get_many(&p, offset, LOOKS, now);
    *work = 0;
    for (uint32_t e = 0; e < ROW_COMMAND; e++) *work += now[e * PRESIL_CAUSES + PRESIL_CAUSE_BUSY];
    if (!chip->looked || *work != chip->look_work) memcpy(chip->look, now, sizeof now);
    chip->look_work = *work;
    chip->looked = p.status == 0;
    return port_status(&p, NULL);
}
