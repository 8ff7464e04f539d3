/* SPDX-License-Identifier: Apache-2.0 */
/* bundle_fixture.h - a small bundle with every kind of record and every field, and what must be read from it. */
#ifndef BUNDLE_FIXTURE_H
#define BUNDLE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above. */
#include <cmocka.h>
#include "presil_bundle.h"

#define EXPECT_BUNDLE(call) expect_bundle(call, PRESIL_OK, #call)
#define EXPECT_BUNDLE_STATUS(call, status) expect_bundle(call, status, #call)
#define EXPECT_BUNDLE_TEXT(part) expect_bundle_text(part)
void expect_bundle(int found, int expected, const char *call);
void expect_bundle_text(const char *part);

enum { FIXTURE_BASE = 0x40000000, FIXTURE_BYTES = 280000 };
extern uint8_t fixture_memory[FIXTURE_BYTES]; /* of the device, from FIXTURE_BASE on: a function of the seed */
void fixture_fill(uint32_t seed);
extern const presil_bundle_source fixture_source;

/* A path in a new directory of the test's own; fixture_done() removes it. */
const char *fixture_path(const char *name);
void fixture_done(void);

/* Chip, labels, two launches with results, an attachment. small: few bytes, for whoever tries every one of them. */
void fixture_write(presil_bundle_writer *writer, int small);
void fixture_write_file(const char *path, const presil_bundle_write_options *options, int small);
/* Reads all of it, compares with what fixture_write wrote. */
void fixture_check(presil_bundle_reader *reader, int small);
/* Opens, reads every record and all memories. What could be read; the first failure's status in *status. */
uint64_t fixture_read_all(presil_bundle_reader *reader, int *status);

/* The file in memory, malloc()ed. */
uint8_t *fixture_load(const char *path, uint64_t *bytes);
void fixture_save(const char *path, const void *bytes, uint64_t count);

#endif
