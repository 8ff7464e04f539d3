/* SPDX-License-Identifier: Apache-2.0 */
/* callbacks.h - what launches tell: the callbacks, and the last hang. */
#ifndef PRESIL_CORE_CALLBACKS_H
#define PRESIL_CORE_CALLBACKS_H

#include <pthread.h>
#include <stdbool.h>
#include "presil.h"
#include "presil_chip.h"

#define MOST_WAITING 16u /* rows of a hang */

/* All under `lock`. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool busy; /* a report, or a usage, is being delivered, by `reporter` */
    pthread_t reporter;
    presil_report_fn report;
    presil_progress_fn progress;
    presil_usage_fn usage;
    void *report_context, *progress_context, *usage_context;
    presil_waiting hang[MOST_WAITING]; /* the last EHUNG */
    uint32_t hang_rows;
    int hang_verdict;
} report_state;

void presil_reports_open(report_state *reports);
void presil_reports_close(report_state *reports);
void presil_report_deliver(report_state *reports, const presil_report *report); /* runner */
/* Runner, before a launch: asks the chip, if somebody listens. */
void presil_usage_deliver(presil_device *device, uint64_t launch, const presil_plan *plan);
/* What the chip calls the numbers of its reports; ENODEV: it has more of them than a report has room for. */
int presil_report_names(const presil_device *device, presil_names *out);

#endif
