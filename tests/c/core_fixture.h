/* SPDX-License-Identifier: Apache-2.0 */
/* core_fixture.h - what the tests of the driver's core share: devices on the soft transport, a small matmul, the log.
 */
#ifndef CORE_FIXTURE_H
#define CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "presil.h"

#define EXPECT_OK(call) expect_status((call), PRESIL_OK, #call, __FILE__, __LINE__)
#define EXPECT_STATUS(call, status) expect_status((call), (status), #call, __FILE__, __LINE__)
#define EXPECT_TEXT(part) expect_text((part), __FILE__, __LINE__)

void expect_status(int found, int expected, const char *call, const char *file, int line);
void expect_text(const char *part, const char *file, int line); /* presil_error_text() has it */

/* Config tiny, 64 MiB, build "soft" (or as given); warnings go to the fixture's log. */
presil_device *open_device(presil_mode mode, const char *build);
/* Of these options; its status. *device is to be closed whatever it is. */
int start_device(const presil_device_options *options, presil_device **device);
const char *log_text(void); /* since the last open_device */

enum { MATMUL_N = 8 };
typedef struct {
    presil_daddr a, b, out;
} matmul_buffers;

/* bf16 operands and an fp32 result of MATMUL_N × MATMUL_N, with small integers that depend on seed. */
matmul_buffers matmul_alloc(presil_device *device, unsigned seed);
void matmul_free(presil_device *device, matmul_buffers m);
int matmul_enqueue(presil_device *device, presil_stream *stream, const matmul_buffers *m);
void matmul_check(presil_device *device, const matmul_buffers *m, unsigned seed); /* waits; exact */
presil_matmul_desc matmul_desc(const matmul_buffers *m);

/* The reports since the last call of reports_begin. */
enum { MAX_REPORTS = 256 };
extern presil_report reports[MAX_REPORTS];
extern size_t report_count;
void reports_begin(presil_device *device);

uint32_t random32(uint64_t *state);

#endif
