/* SPDX-License-Identifier: Apache-2.0 */
/* processors.h - what a control group leaves of the processors. */
#ifndef PRESIL_JOBS_PROCESSORS_H
#define PRESIL_JOBS_PROCESSORS_H

#include <stdint.h>

/* groups: as /proc/self/cgroup; mount: as /sys/fs/cgroup. The least quota of the process's group and those above it, in
 * processors, rounded up; UINT32_MAX: none. */
uint32_t processors_of_quota(const char *groups, const char *mount);

#endif
