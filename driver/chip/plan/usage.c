/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plan's commands move, by operand, and hold on the chip (presil_chip_ops.usage). Bytes of the bus are those of
 * presil_rows.sv: of each row the beats that hold it. A word of the scratchpad, or a row of sums, is in use from the
 * command that writes it to the last one that reads it before it is written anew.
 */
#include <stdlib.h>
#include <string.h>
#include "rows.h"

/* A LOAD whose chunks overlap, and are longer than this, reads each of them for itself (presil_load.sv). */
enum { WINDOW = 14 }; /* words */
enum { MOST_ROWS = 16, SUM_BYTES = 4 };

/* ---- traffic */
typedef struct {
    const char *name;
    uint32_t role;
} operand_name;

static operand_name name_of(chip_operator of, uint32_t operand) {
    static const operand_name names[CHIP_OPERANDS] = {
        [OPERAND_NONE] = {"loaded", PRESIL_TRAFFIC_OTHER},
        [OPERAND_INPUT] = {"input", PRESIL_TRAFFIC_ACTIVATIONS},
        [OPERAND_WEIGHTS] = {"weight", PRESIL_TRAFFIC_WEIGHTS},
        [OPERAND_PACKED] = {"weight", PRESIL_TRAFFIC_WEIGHTS},
        [OPERAND_PARAMETERS] = {"bias and scales", PRESIL_TRAFFIC_PARAMETERS},
        [OPERAND_RESIDUAL] = {"residual", PRESIL_TRAFFIC_RESIDUAL},
        [OPERAND_OUTPUT] = {"output", PRESIL_TRAFFIC_RESULTS},
    };
    const bool first = operand == OPERAND_INPUT, second = operand == OPERAND_WEIGHTS;
    if (of == OF_WEIGHT_GRADIENT && second) return (operand_name){"gradient", PRESIL_TRAFFIC_ACTIVATIONS};
    if ((of == OF_MATMUL || of == OF_MATMUL_TURNED) && (first || second))
        return (operand_name){first == (of == OF_MATMUL) ? "a" : "b", PRESIL_TRAFFIC_ACTIVATIONS};
    return names[operand];
}

typedef struct {
    presil_traffic told;
    dram_row_list read; /* disjoint in the end: the bytes that were read at least once */
} traffic_row;

typedef struct {
    traffic_row list[MOST_ROWS];
    uint32_t count;
    uint64_t word, beyond; /* beyond: bytes of beats that no row asked for */
    uint64_t read_beats, write_beats;
    traffic_row *now;
} traffic;

static traffic_row *row_of(traffic *t, const char *name, uint32_t role) {
    uint32_t i = 0;
    while (i < t->count && (t->list[i].told.role != role || strcmp(t->list[i].told.name, name) != 0)) i++;
    assert(i < MOST_ROWS);
    if (i == t->count) t->list[t->count++] = (traffic_row){.told = {.name = name, .role = role}};
    return &t->list[i];
}

static uint64_t beats_of(const traffic *t, uint64_t base, uint64_t bytes) {
    return (base + bytes - 1) / t->word - base / t->word + 1;
}

static bool read_row(void *context, uint64_t base, uint64_t bytes) {
    traffic *t = context;
    const uint64_t beats = beats_of(t, base, bytes);
    t->read_beats += beats;
    t->now->told.read_bytes += bytes;
    t->beyond += beats * t->word - bytes;
    return chip_add_row(&t->now->read, base, bytes);
}

static bool write_row(void *context, uint64_t base, uint64_t bytes) {
    traffic *t = context;
    presil_traffic *told = &t->now->told;
    t->write_beats += beats_of(t, base, bytes);
    if (!told->write_bytes || base < told->first.value) told->first.value = base;
    told->write_bytes += bytes;
    return true;
}

static bool add_load(traffic *t, presil_desc d, uint64_t shift) {
    const uint32_t chunks = presil_load_n0(&d), chunk = presil_load_chunk_bytes(&d);
    const bool apart = chunks > 1 && presil_load_step0(&d) < (int64_t)chunk && chunk > WINDOW * t->word;
    bool ok = true;
    dram_rows rows = load_rows(&d, shift);
    if (!apart) return chip_each_row(&rows, read_row, t);
    presil_load_n0_set(&d, 1);
    for (uint32_t i = 0; i < chunks && ok; i++) {
        rows = load_rows(&d, shift);
        ok = chip_each_row(&rows, read_row, t);
        presil_load_pos0_set(&d, presil_load_pos0(&d) + presil_load_step0(&d));
    }
    return ok;
}

static bool add_command(traffic *t, const presil_plan *plan, size_t n, chip_operator of) {
    const presil_desc *d = &plan->list[n];
    const uint32_t op = presil_desc_opcode(d), operand = plan->operands ? plan->operands[n] : OPERAND_NONE;
    if (op != PRESIL_OPCODE_LOAD && op != PRESIL_OPCODE_STORE) return true;
    const bool store = op == PRESIL_OPCODE_STORE;
    const operand_name name = name_of(of, store ? OPERAND_OUTPUT : operand);
    t->now = row_of(t, name.name, name.role);
    if (!store) return add_load(t, *d, chip_shift(plan, n));
    const dram_rows rows = store_rows(d, chip_shift(plan, n));
    return chip_each_row(&rows, write_row, t);
}

/* false: no host memory. */
static bool walk_traffic(const presil_plan *plan, traffic *t, presil_traffic *told) {
    uint32_t part = 0;
    bool ok = true, known = true;
    for (size_t n = 0; n < plan->count && ok; n++) {
        while (part < plan->part_count && n >= plan->parts[part].end) part++;
        const chip_operator of = part < plan->part_count ? plan->parts[part].of : plan->of;
        known = known && of != OF_UNTOLD;
        ok = add_command(t, plan, n, of);
    }
    /* Sums never leave the accumulators; of commands from elsewhere nobody knows what their operands are. */
    if (known) (void)row_of(t, "partial sums", PRESIL_TRAFFIC_PARTIAL);
    presil_traffic *commands = &row_of(t, "descriptors", PRESIL_TRAFFIC_COMMANDS)->told;
    commands->read_bytes = plan->count * sizeof(presil_desc);
    commands->apart = 1; /* the counter fetch_beats has them */
    row_of(t, "alignment", PRESIL_TRAFFIC_ALIGNMENT)->told.read_bytes = t->beyond;
    for (uint32_t i = 0; i < t->count; i++) {
        traffic_row *row = &t->list[i];
        uint64_t once = 0;
        row->read.count = presil_merge_ranges(row->read.at, row->read.count);
        for (size_t r = 0; r < row->read.count; r++) once += row->read.at[r].bytes;
        if (row->read.count) row->told.again_bytes = row->told.read_bytes - once;
        if (row->read.count) row->told.first = row->read.at[0].base;
        free(row->read.at);
        told[i] = row->told;
    }
    return ok;
}

/* ---- what the chip's memories hold */
typedef struct {
    size_t opened, read; /* steps; opened 0: never written, else one more */
} life;

typedef struct {
    life *cells[CHIP_MEMORIES];
    uint64_t *in_use[CHIP_MEMORIES]; /* at a step: how many more (or fewer, modulo 2^64) than before it */
    size_t first;                    /* step of the launch's first command */
} lives;

static void close_life(const lives *l, int memory, const life *c) {
    if (!c->opened) return;
    const size_t last = c->read > c->opened ? c->read : c->opened; /* never read: the command that wrote it first */
    l->in_use[memory][c->opened - 1]++;
    l->in_use[memory][last]--;
}

static void touch(void *context, size_t step, int memory, uint32_t where, bool write) {
    const lives *l = context;
    life *c = &l->cells[memory][where];
    const size_t now = l->first + step + 1;
    if (!write) {
        if (c->opened) c->read = now;                      /* else it is read for nothing: padding */
    } else if (!c->opened || (c->read && c->read < now)) { /* what one command reads and writes goes on */
        close_life(l, memory, c);
        *c = (life){.opened = now};
    }
}

static bool make_lives(lives *l, const size_t cells[CHIP_MEMORIES], size_t steps) {
    bool ok = true;
    for (int m = 0; m < CHIP_MEMORIES; m++) {
        l->cells[m] = malloc(cells[m] * sizeof *l->cells[m]);
        l->in_use[m] = calloc(steps + 1, sizeof *l->in_use[m]);
        ok = ok && l->cells[m] && l->in_use[m];
    }
    return ok;
}

static size_t steps_of(const presil_plan *plan, size_t first, size_t end) {
    size_t steps = 0;
    for (size_t i = first; i < end; i++) steps += presil_desc_opcode(&plan->list[i]) != PRESIL_OPCODE_NOP;
    return steps;
}

/* How many steps there are; 0: commands that aren't right. Nothing stays from launch to launch. */
static size_t walk_lives(const presil_plan *plan, lives *l, const size_t cells[CHIP_MEMORIES]) {
    const chip_accesses accesses = {touch, l};
    for (uint32_t s = 0; s < plan->segments; s++) {
        const size_t first = chip_segment_first(plan, s), end = plan->segment_ends[s];
        for (int m = 0; m < CHIP_MEMORIES; m++) memset(l->cells[m], 0, cells[m] * sizeof *l->cells[m]);
        if (chip_check_accesses(&plan->config, plan->list + first, end - first, &accesses)) return 0;
        for (int m = 0; m < CHIP_MEMORIES; m++) {
            for (size_t i = 0; i < cells[m]; i++) close_life(l, m, &l->cells[m][i]);
        }
        l->first += steps_of(plan, first, end);
    }
    return l->first;
}

static void add_up(uint64_t *in_use, size_t steps, uint64_t bytes) {
    uint64_t cells = 0;
    for (size_t i = 0; i < steps; i++) {
        cells += in_use[i];
        in_use[i] = cells * bytes;
    }
}

int chip_plan_usage(const presil_chip *chip, const presil_plan *plan, presil_usage_tell tell, void *context) {
    const presil_config *c = &chip->config;
    const size_t cells[CHIP_MEMORIES] = {chip_words(c), 2 * (size_t)c->acc_rows};
    const uint64_t bytes[CHIP_MEMORIES] = {c->word_bytes, (uint64_t)c->cells * SUM_BYTES};
    traffic t = {.word = c->word_bytes};
    presil_traffic told[MOST_ROWS];
    lives l = {.first = 0};
    bool ok = walk_traffic(plan, &t, told);
    ok = make_lives(&l, cells, plan->count) && ok;
    const size_t steps = ok ? walk_lives(plan, &l, cells) : 0;
    presil_occupancy held[CHIP_MEMORIES] = {
        {.name = "scratchpad", .reserved = (uint64_t)plan->tiling.total_words * c->word_bytes},
        {.name = "accumulators"}};
    for (int m = 0; m < CHIP_MEMORIES; m++) {
        if (steps) add_up(l.in_use[m], steps, bytes[m]);
        held[m].capacity = cells[m] * bytes[m];
        held[m].in_use = l.in_use[m];
        held[m].steps = steps;
    }
    const presil_usage usage = {.size = sizeof usage,
                                .traffic_count = t.count,
                                .memory_count = steps ? CHIP_MEMORIES : 0,
                                .traffic = told,
                                .memories = held,
                                .read_beats = t.read_beats,
                                .write_beats = t.write_beats};
    if (ok) tell(context, &usage);
    for (int m = 0; m < CHIP_MEMORIES; m++) {
        free(l.cells[m]);
        free(l.in_use[m]);
    }
    return ok ? PRESIL_OK : PRESIL_EHOSTMEM;
}
