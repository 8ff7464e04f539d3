/* SPDX-License-Identifier: Apache-2.0 */
/* Completion records (docs/isa.md section 1): what the chip leaves in memory of a launch, in place of its registers.
 * They lie in a ring of their own behind that of the commands, as many as launches may be with the chip; after a queue
 * reset the first is at its beginning. */
#include <stdlib.h>
#include <string.h>
#include "port.h"

enum { FORMAT = 1, HEAD = 4, NUMBER = CHIP_RECORD_WORDS - 1, RING_LOG2 = 3 };
_Static_assert(CHIP_RECORD_WORDS * 8 <= CHIP_RECORD_STRIDE && (int)HEAD + (int)COUNTERS <= (int)NUMBER, "one fits");
_Static_assert(1 << RING_LOG2 == CHIP_LAUNCHES, "one each");

/* PRESIL_RECORDS: 1, or 0 or unset. False: it is neither. */
static bool wanted(bool *out) {
    const char *const text = getenv("PRESIL_RECORDS");
    *out = text && strcmp(text, "1") == 0;
    return *out || !text || !*text || strcmp(text, "0") == 0;
}

bool chip_records_wanted(void) {
    bool yes;
    (void)wanted(&yes);
    return yes;
}

static uint64_t offset_of(uint32_t number) { return (number - 1) % CHIP_LAUNCHES * (uint64_t)CHIP_RECORD_STRIDE; }
static presil_daddr address_of(const presil_chip *chip, uint32_t number) {
    return (presil_daddr){chip->ring + CHIP_RING_BYTES + offset_of(number)};
}

int chip_start_records(const presil_chip *chip, port *p, presil_error_buffer *error) {
    bool yes;
    if (!wanted(&yes))
        return chip_fail(error, PRESIL_EINVAL, "PRESIL_RECORDS: 0 or 1 expected, found '%s'", getenv("PRESIL_RECORDS"));
    if (!chip->records) return PRESIL_OK;
    if (!(get(p, PRESIL_REG_CAP_FEATURES) & PRESIL_CAP_FEATURES_RECORDS_MASK) && p->status == 0)
        return chip_fail(error, PRESIL_EUNSUPPORTED, "PRESIL_RECORDS=1: this chip has no completion records");
    put(p, PRESIL_REG_RECORD_PAGE, (uint32_t)(address_of(chip, 1).value >> 12) | PRESIL_RECORD_PAGE_ENABLE_MASK);
    put(p, PRESIL_REG_RECORD_RING, RING_LOG2 | PRESIL_RECORD_RING_APART_MASK);
    return PRESIL_OK;
}

int chip_forget_record(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                       presil_error_buffer *error) {
    if (!chip->records) return PRESIL_OK;
    static const uint64_t none = 0;
    const uint32_t number = chip->running ? chip->record_number + chip->behind_count + 1 : 1;
    const presil_daddr at = {address_of(chip, number).value + NUMBER * sizeof none};
    chip->record = memory->host ? (uint8_t *)memory->host + CHIP_RING_BYTES : NULL;
    int failed = 0;
    if (chip->record) {
        memcpy(chip->record + offset_of(number) + NUMBER * sizeof none, &none, sizeof none);
        failed = link->ops->sync_for_device && link->ops->sync_for_device(link->handle, at, sizeof none);
    } else {
        failed = link->ops->mem_write(link->handle, at, &none, sizeof none);
    }
    return failed ? chip_fail(error, PRESIL_EDEAD, "can't write the record: %s", link->ops->last_error(link->handle))
                  : PRESIL_OK;
}

/* The chip may be writing it: its number, the last word, is looked at first, and again in what is taken then. */
static bool is_written(const presil_chip *chip, const presil_link *link) {
    const uint64_t number = chip->record_number & 0xffff;
    uint64_t found = 0;
    const presil_daddr at = {address_of(chip, chip->record_number).value + NUMBER * sizeof found};
    if (!chip->record) return link->ops->mem_read(link->handle, at, &found, sizeof found) == 0 && found == number;
    if (link->ops->sync_for_host && link->ops->sync_for_host(link->handle, at, sizeof found)) return false;
    const uint8_t *const from = chip->record + offset_of(chip->record_number);
    return __atomic_load_n((const uint64_t *)(const void *)from + NUMBER, __ATOMIC_ACQUIRE) == number;
}

bool chip_read_record(presil_chip *chip, const presil_link *link, uint32_t *code, uint32_t *index, uint64_t *address) {
    uint64_t *const word = chip->said;
    const uint64_t bytes = sizeof chip->said;
    const presil_daddr at = address_of(chip, chip->record_number);
    if (!is_written(chip, link)) return false;
    if (!chip->record) {
        if (link->ops->mem_read(link->handle, at, word, bytes)) return false;
    } else {
        if (link->ops->sync_for_host && link->ops->sync_for_host(link->handle, at, bytes)) return false;
        memcpy(word, chip->record + offset_of(chip->record_number), bytes);
    }
    *code = word[0] & 0xf;
    *index = (uint32_t)(word[0] >> 32);
    *address = word[1];
    return word[NUMBER] == (chip->record_number & 0xffff) && (word[0] >> 8 & 0xff) == FORMAT &&
           (word[0] >> 16 & 0x7f) == COUNTERS;
}

void chip_record_counters(const presil_chip *chip, uint64_t value[COUNTERS]) {
    memcpy(value, chip->said + HEAD, COUNTERS * sizeof *value);
}
