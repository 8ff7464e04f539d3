/* SPDX-License-Identifier: Apache-2.0 */
#include "presil_twin_chip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "presil_regs.h"

enum {
    ID_VALUE = 0x5052534c,
    VERSION_MAJOR = PRESIL_ISA_VERSION,
    COUNTER_DESCRIPTORS = 85,
    COUNTER_LAUNCHES = 86,
    COUNTERS = 90,
    /* completion records (docs/isa.md section 1) */
    RECORD_FORMAT = 1,
    RECORD_STRIDE = 1024,
    RECORD_WORDS = 96,
    LAUNCHES = 8, /* that wait, with `apart` */
    RECORD_HEAD = 4,
    LAUNCH_CYCLES = 300,
    RING_LOG2_MOST = 16,
    /* what the RTL has behind reset: ARPROT, AWPROT 2, ARCACHE, AWCACHE 3 */
    ATTRIBUTES_RESET = 2 << PRESIL_BUS_ATTRIBUTES_PROT_SHIFT | 3 << PRESIL_BUS_ATTRIBUTES_ARCACHE_SHIFT |
        3 << PRESIL_BUS_ATTRIBUTES_AWCACHE_SHIFT
};

struct presil_twin_chip {
    const presil_config *config;
    presil_twin *twin;
    uint32_t ring_lo, ring_hi, ring_log2, head, tail, irq, irq_enable, error_code, error_index;
    uint32_t attributes, timeout;               /* of a bus that the twin has not: kept */
    presil_twin_windows windows, acting;        /* as written; of the launch */
    uint32_t record_page, record_ring;          /* completion records: as written */
    uint32_t acting_page, acting_ring, records; /* of the launch; how many since the last reset */
    int locked;
    uint64_t error_address;
    uint64_t descriptors, launches, descriptors_shown, launches_shown; /* shown: at the last snapshot */
    uint32_t ends[LAUNCHES], waiting; /* apart: tails of launches that are not over, the oldest first */
    int pending, lost; /* lost: a doorbell asked for more than the ring holds, or for less than one before */
    presil_desc *list;
    size_t capacity;
};

static void reset_queue(presil_twin_chip *chip) {
    chip->head = chip->tail = chip->error_code = chip->error_index = chip->records = 0;
    chip->error_address = 0;
    chip->pending = chip->lost = 0;
    chip->waiting = 0;
}

void presil_twin_chip_reset(presil_twin_chip *chip) {
    reset_queue(chip);
    chip->ring_lo = chip->ring_hi = chip->ring_log2 = chip->irq = chip->irq_enable = 0;
    chip->attributes = ATTRIBUTES_RESET;
    chip->timeout = 0;
    chip->windows = (presil_twin_windows){0};
    chip->locked = 0;
    chip->record_page = chip->record_ring = 0;
    chip->descriptors = chip->launches = chip->descriptors_shown = chip->launches_shown = 0;
}

presil_twin_chip *presil_twin_chip_create(const char *config) {
    const presil_config *c = presil_configs;
    while (c->name && strcmp(c->name, config) != 0) c++;
    presil_twin_chip *chip = c->name ? calloc(1, sizeof *chip) : NULL;
    if (!chip) return NULL;
    chip->config = c;
    presil_twin_chip_reset(chip);
    chip->twin = presil_twin_create(c);
    if (chip->twin) return chip;
    free(chip);
    return NULL;
}

void presil_twin_chip_destroy(presil_twin_chip *chip) {
    if (!chip) return;
    presil_twin_destroy(chip->twin);
    free(chip->list);
    free(chip);
}

const presil_config *presil_twin_chip_config(const presil_twin_chip *chip) { return chip->config; }
void presil_twin_chip_threads(presil_twin_chip *chip, unsigned threads) { presil_twin_threads(chip->twin, threads); }

/* ---- registers */
static uint32_t counter(const presil_twin_chip *chip, uint32_t offset) {
    const uint32_t n = (offset - PRESIL_REG_COUNTER(0)) / 8;
    const uint64_t value = n == COUNTER_DESCRIPTORS ? chip->descriptors_shown
                           : n == COUNTER_LAUNCHES  ? chip->launches_shown
                                                    : 0;
    return (uint32_t)(offset & 4 ? value >> 32 : value);
}

static int is_window(uint32_t offset) {
    return offset >= PRESIL_REG_WINDOW0_FIRST && offset <= PRESIL_REG_WINDOW3_LAST;
}

static uint32_t *window_at(presil_twin_windows *windows, uint32_t offset) {
    const uint32_t n = (offset - PRESIL_REG_WINDOW0_FIRST) / 8;
    return offset & 4 ? &windows->last[n] : &windows->first[n];
}

static void write_window(presil_twin_chip *chip, uint32_t offset, uint32_t value) {
    const uint32_t last = PRESIL_WINDOW0_LAST_PAGE_MASK | PRESIL_WINDOW0_LAST_ENABLE_MASK |
                          PRESIL_WINDOW0_LAST_READ_MASK | PRESIL_WINDOW0_LAST_WRITE_MASK;
    if (!chip->locked)
        *window_at(&chip->windows, offset) = value & (offset & 4 ? last : PRESIL_WINDOW0_FIRST_PAGE_MASK);
}

uint32_t presil_twin_chip_read(const presil_twin_chip *chip, uint32_t offset) {
    const presil_config *c = chip->config;
    switch (offset) {
    case PRESIL_REG_ID: return ID_VALUE;
    case PRESIL_REG_VERSION: return (uint32_t)VERSION_MAJOR << PRESIL_VERSION_MAJOR_SHIFT;
    case PRESIL_REG_CAP_ARRAY: return c->lanes | c->cells << PRESIL_CAP_ARRAY_CELLS_SHIFT;
    case PRESIL_REG_CAP_MEMORY: return c->word_bytes | c->banks << PRESIL_CAP_MEMORY_BANKS_SHIFT;
    case PRESIL_REG_CAP_BANK: return c->bank_words;
    case PRESIL_REG_CAP_ACC: return c->acc_rows;
    case PRESIL_REG_CONFIG_HASH: return c->hash;
    case PRESIL_REG_CAP_FEATURES:
        return PRESIL_CAP_FEATURES_INT8_MASK | PRESIL_CAP_FEATURES_BF16_MASK | PRESIL_CAP_FEATURES_WINDOWS_MASK |
               PRESIL_CAP_FEATURES_RECORDS_MASK | PRESIL_CAP_FEATURES_FP16_MASK |
               (c->parity ? PRESIL_CAP_FEATURES_PARITY_MASK : 0u);
    case PRESIL_REG_RING_BASE_LO: return chip->ring_lo;
    case PRESIL_REG_RING_BASE_HI: return chip->ring_hi;
    case PRESIL_REG_RING_LOG2: return chip->ring_log2;
    case PRESIL_REG_RING_HEAD: return chip->head;
    case PRESIL_REG_RING_TAIL: return chip->tail;
    case PRESIL_REG_STATUS:
        return (chip->pending ? PRESIL_STATUS_BUSY_MASK : 0u) | (chip->error_code ? PRESIL_STATUS_ERROR_MASK : 0u);
    case PRESIL_REG_ERROR_CODE: return chip->error_code;
    case PRESIL_REG_ERROR_INDEX: return chip->error_index;
    case PRESIL_REG_ERROR_ADDR_LO: return (uint32_t)chip->error_address;
    case PRESIL_REG_ERROR_ADDR_HI: return (uint32_t)(chip->error_address >> 32) & PRESIL_ERROR_ADDR_HI_VALUE_MASK;
    case PRESIL_REG_IRQ_STATUS: return chip->irq;
    case PRESIL_REG_IRQ_ENABLE: return chip->irq_enable;
    case PRESIL_REG_BUS_ATTRIBUTES: return chip->attributes;
    case PRESIL_REG_BUS_TIMEOUT: return chip->timeout;
    case PRESIL_REG_WINDOW_LOCK: return (uint32_t)chip->locked;
    case PRESIL_REG_RECORD_PAGE: return chip->record_page;
    case PRESIL_REG_RECORD_RING:
        return chip->record_ring | (chip->records & 0xffffu) << PRESIL_RECORD_RING_WRITTEN_SHIFT;
    default:
        if (is_window(offset)) return *window_at((presil_twin_windows *)(uintptr_t)&chip->windows, offset);
        return offset >= PRESIL_REG_COUNTER(0) ? counter(chip, offset) : 0;
    }
}

static void control(presil_twin_chip *chip, uint32_t value) {
    if (value & PRESIL_CONTROL_QUEUE_RESET_MASK) {
        reset_queue(chip);
        chip->irq = 0;
    }
    if (value & PRESIL_CONTROL_COUNTER_CLEAR_MASK) chip->descriptors = chip->launches = 0;
    if (value & PRESIL_CONTROL_COUNTER_SNAPSHOT_MASK) {
        chip->descriptors_shown = chip->descriptors;
        chip->launches_shown = chip->launches;
    }
}

static bool is_apart(const presil_twin_chip *chip) {
    return chip->acting_page & PRESIL_RECORD_PAGE_ENABLE_MASK && chip->acting_ring & PRESIL_RECORD_RING_APART_MASK;
}

static void doorbell(presil_twin_chip *chip, uint32_t tail) {
    const uint32_t count = tail - chip->head;
    if (chip->ring_log2 > RING_LOG2_MOST || count > 1u << chip->ring_log2 || count < chip->tail - chip->head)
        chip->lost = 1;
    if (!chip->pending) {
        chip->acting = chip->windows;
        chip->acting_page = chip->record_page;
        chip->acting_ring = chip->record_ring;
    }
    if (is_apart(chip)) {
        if (chip->waiting == LAUNCHES)
            chip->lost = 1;
        else
            chip->ends[chip->waiting++] = tail;
    }
    chip->pending = 1;
}

void presil_twin_chip_write(presil_twin_chip *chip, uint32_t offset, uint32_t value) {
    const uint32_t both = PRESIL_IRQ_STATUS_DONE_MASK | PRESIL_IRQ_STATUS_ERROR_MASK;
    const uint32_t attributes = PRESIL_BUS_ATTRIBUTES_PROT_MASK | PRESIL_BUS_ATTRIBUTES_QOS_MASK |
                                PRESIL_BUS_ATTRIBUTES_ARCACHE_MASK | PRESIL_BUS_ATTRIBUTES_AWCACHE_MASK;
    switch (offset) {
    case PRESIL_REG_RING_BASE_LO: chip->ring_lo = value; break;
    case PRESIL_REG_RING_BASE_HI: chip->ring_hi = value & PRESIL_RING_BASE_HI_VALUE_MASK; break;
    case PRESIL_REG_RING_LOG2: chip->ring_log2 = value & PRESIL_RING_LOG2_VALUE_MASK; break;
    case PRESIL_REG_RING_TAIL:
        if (!chip->error_code) doorbell(chip, value); /* a stopped queue does nothing until it is reset */
        chip->tail = value;
        break;
    case PRESIL_REG_CONTROL: control(chip, value); break;
    case PRESIL_REG_IRQ_ENABLE: chip->irq_enable = value & both; break;
    case PRESIL_REG_IRQ_CLEAR: chip->irq &= ~value; break;
    case PRESIL_REG_BUS_ATTRIBUTES: chip->attributes = value & attributes; break;
    case PRESIL_REG_BUS_TIMEOUT: chip->timeout = value; break;
    case PRESIL_REG_RECORD_PAGE:
        chip->record_page = value & (PRESIL_RECORD_PAGE_PAGE_MASK | PRESIL_RECORD_PAGE_ENABLE_MASK);
        break;
    case PRESIL_REG_RECORD_RING:
        chip->record_ring = value & (PRESIL_RECORD_RING_LOG2_MASK | PRESIL_RECORD_RING_APART_MASK);
        break;
    case PRESIL_REG_WINDOW_LOCK: chip->locked |= (int)(value & PRESIL_WINDOW_LOCK_LOCKED_MASK); break;
    default:
        if (is_window(offset)) write_window(chip, offset, value);
        break;
    }
}

int presil_twin_chip_pending(const presil_twin_chip *chip) { return chip->pending; }
int presil_twin_chip_irq(const presil_twin_chip *chip) { return (chip->irq & chip->irq_enable) != 0; }

/* ---- a launch */
/* The descriptors between head and tail into `list`. An error code of docs/isa.md section 1, with its place in *error.
 */
static int fetch(presil_twin_chip *chip, const presil_twin_memory *memory, uint32_t count, presil_twin_error *error) {
    const uint64_t ring = ((uint64_t)chip->ring_hi << 32 | chip->ring_lo) & ~UINT64_C(4095);
    const uint32_t entries = chip->lost ? 0 : 1u << chip->ring_log2;
    presil_desc *list =
        count > chip->capacity && count <= entries ? realloc(chip->list, count * sizeof *list) : chip->list;
    if (chip->lost || count > entries || (count && !list)) return error->code = PRESIL_ERROR_RING;
    if (count > chip->capacity) chip->capacity = count;
    chip->list = list;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t address = ring + (uint64_t)((chip->head + i) & (entries - 1)) * sizeof(presil_desc),
                       offset = address - memory->base;
        if (!presil_twin_permits(&chip->acting, address, 0)) {
            error->index = i;
            error->address = address;
            return error->code = PRESIL_ERROR_WINDOW;
        }
        if (address < memory->base || offset > memory->bytes || sizeof(presil_desc) > memory->bytes - offset) {
            const uint64_t beat = chip->config->word_bytes, end = memory->base + memory->bytes; /* first that fails */
            error->index = i;
            error->address = address >= memory->base && address < end ? end - end % beat : address;
            return error->code = PRESIL_ERROR_FETCH_BUS;
        }
        memcpy(&chip->list[i], memory->host + offset, sizeof(presil_desc));
    }
    return PRESIL_ERROR_NONE;
}

static uint64_t positions(const presil_desc *d) {
    return (uint64_t)presil_load_n0(d) * presil_load_n1(d) * presil_load_n2(d) * presil_load_n3(d);
} /* STORE has them in the same place */

/* Activations that the array takes, one a cycle: with `depthwise` each of the window once. */
static uint64_t streamed(const presil_desc *d) {
    uint64_t nx = presil_matrix_nx(d), ny = presil_matrix_ny(d), kx = presil_matrix_kx(d), ky = presil_matrix_ky(d);
    if (!presil_matrix_depthwise(d)) return nx * ny * kx * ky * presil_matrix_ncb(d);
    uint64_t dx = presil_matrix_dx(d), dy = presil_matrix_dy(d);
    if (!dx || !dy) return 0; /* refused at decode */
    return ((nx - 1) * presil_matrix_sx(d) / dx + kx) * ((ny - 1) * presil_matrix_sy(d) / dy + ky);
}

static uint32_t end_of_launch(const presil_twin_chip *chip) { return chip->waiting ? chip->ends[0] : chip->tail; }

/* Bytes over the bus and rows through the array, each at one a cycle, whichever takes longer. */
uint64_t presil_twin_chip_estimate(presil_twin_chip *chip, const presil_twin_memory *memory) {
    const uint32_t word = chip->config->word_bytes, count = end_of_launch(chip) - chip->head;
    uint64_t bus = 0, array = 0;
    presil_twin_error error = {0};
    if (!chip->pending || fetch(chip, memory, count, &error)) return LAUNCH_CYCLES;
    for (uint32_t i = 0; i < count; i++) {
        const presil_desc *d = &chip->list[i];
        const uint32_t opcode = presil_desc_opcode(d);
        if (opcode == PRESIL_OPCODE_LOAD || opcode == PRESIL_OPCODE_STORE)
            bus += positions(d) * ((presil_load_chunk_bytes(d) + word - 1) / word);
        if (opcode == PRESIL_OPCODE_MATRIX) array += streamed(d);
        bus += sizeof *d / word;
    }
    return LAUNCH_CYCLES + (bus > array ? bus : array);
}

static void store64(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(value >> 8 * i);
}

/* What the chip says of the launch that is over, into memory. An error code, with the place in *error. */
static int record(presil_twin_chip *chip, const presil_twin_memory *memory, presil_twin_write_fn on_write,
                  void *context, presil_twin_error *error) {
    const uint64_t first = (uint64_t)(chip->acting_page & PRESIL_RECORD_PAGE_PAGE_MASK) << 12,
                   at = first + (uint64_t)(chip->records & 0xffffu &
                                           ((1u << (chip->acting_ring & PRESIL_RECORD_RING_LOG2_MASK)) - 1u)) *
                                    RECORD_STRIDE,
                   bytes = RECORD_WORDS * 8, offset = at - memory->base;
    error->index = 0;
    error->address = at;
    if (!presil_twin_permits(&chip->acting, at, 1)) return error->code = PRESIL_ERROR_WINDOW;
    if (at < memory->base || offset > memory->bytes || bytes > memory->bytes - offset)
        return error->code = PRESIL_ERROR_WRITE_BUS;
    uint8_t *const to = memory->host + offset;
    memset(to, 0, bytes);
    store64(to, chip->error_code | RECORD_FORMAT << 8 | COUNTERS << 16 | (uint64_t)chip->error_index << 32);
    store64(to + 8, chip->error_address);
    store64(to + 16, chip->head);
    store64(to + (RECORD_HEAD + COUNTER_DESCRIPTORS) * 8, chip->descriptors);
    store64(to + (RECORD_HEAD + COUNTER_LAUNCHES) * 8, chip->launches);
    store64(to + (RECORD_WORDS - 1) * 8, ++chip->records & 0xffffu);
    if (on_write) on_write(context, at, bytes, chip->head);
    return PRESIL_ERROR_NONE;
}

static void stop(presil_twin_chip *chip, const presil_twin_error *error) {
    chip->error_code = (uint32_t)error->code;
    chip->error_index = chip->head + error->index;
    chip->error_address = error->address;
}

void presil_twin_chip_run(presil_twin_chip *chip, const presil_twin_memory *memory, presil_twin_write_fn on_write,
                          void *context) {
    if (!chip->pending) return;
    const uint32_t end = end_of_launch(chip), count = end - chip->head;
    presil_twin_error error = {0};
    presil_twin_set_windows(chip->twin, &chip->acting);
    if (!fetch(chip, memory, count, &error))
        (void)presil_twin_execute(chip->twin, chip->list, count, memory, on_write, context, &error);
    if (error.code) stop(chip, &error);
    if (chip->waiting) memmove(chip->ends, chip->ends + 1, --chip->waiting * sizeof *chip->ends);
    if (error.code) chip->waiting = 0;
    chip->pending = chip->waiting != 0;
    chip->head = end;
    chip->descriptors += count;
    chip->launches++;
    if (error.deadlock) return; /* the chip would hang, without an interrupt */
    presil_twin_error unwritten = {0};
    if (chip->acting_page & PRESIL_RECORD_PAGE_ENABLE_MASK && record(chip, memory, on_write, context, &unwritten) &&
        !chip->error_code)
        stop(chip, &unwritten);
    if (is_apart(chip)) chip->descriptors = chip->launches = 0;
    if (chip->error_code) chip->pending = 0;
    chip->irq |= chip->error_code ? PRESIL_IRQ_STATUS_ERROR_MASK : PRESIL_IRQ_STATUS_DONE_MASK;
}
