/* SPDX-License-Identifier: Apache-2.0 */
/* How many processors this process may use: a container has fewer than its machine, by affinity or by quota. */
#define _GNU_SOURCE
#include "processors.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "presil_jobs.h"

enum { PATH_TEXT = 4096 };

static bool read_line(char *out, size_t bytes, const char *folder, const char *name) {
    char path[3 * PATH_TEXT];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    const bool got = file && fgets(out, (int)bytes, file);
    if (file) (void)fclose(file);
    return got;
}

/* Version 2: "QUOTA PERIOD" or "max PERIOD"; version 1: a file each, and -1. */
static uint32_t quota_of(const char *folder) {
    char text[64], more[64];
    uint64_t quota = 0, period = 0;
    bool known = read_line(text, sizeof text, folder, "cpu.max") &&
                 sscanf(text, "%20" SCNu64 " %20" SCNu64, &quota, &period) == 2;
    if (!known)
        known = read_line(text, sizeof text, folder, "cpu.cfs_quota_us") && *text != '-' &&
                read_line(more, sizeof more, folder, "cpu.cfs_period_us") && sscanf(text, "%20" SCNu64, &quota) == 1 &&
                sscanf(more, "%20" SCNu64, &period) == 1;
    if (!known || !quota || !period) return UINT32_MAX;
    const uint64_t processors = (quota - 1) / period + 1;
    return processors < UINT32_MAX ? (uint32_t)processors : UINT32_MAX;
}

/* The group at `path` and those above it, up to the mount: inside a container its path may be the host's, and only the
 * mount itself is there. */
static uint32_t least_quota(const char *mount, const char *controllers, char *path) {
    uint32_t least = UINT32_MAX;
    for (;;) {
        char folder[2 * PATH_TEXT];
        (void)snprintf(folder, sizeof folder, "%.1024s%s%s%s", mount, *controllers ? "/" : "", controllers, path);
        const uint32_t here = quota_of(folder);
        if (here < least) least = here;
        char *slash = strrchr(path, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

static bool has_cpu(const char *controllers) {
    for (const char *at = controllers; (at = strstr(at, "cpu")); at++)
        if ((at == controllers || at[-1] == ',') && (at[3] == ',' || !at[3])) return true;
    return false;
}

uint32_t processors_of_quota(const char *groups, const char *mount) {
    uint32_t least = UINT32_MAX;
    char line[PATH_TEXT];
    FILE *file = fopen(groups, "re");
    while (file && fgets(line, sizeof line, file)) { /* NUMBER:CONTROLLERS:PATH */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        controllers++;
        if (*controllers && !has_cpu(controllers)) continue;
        const uint32_t here = least_quota(mount, controllers, path);
        if (here < least) least = here;
    }
    if (file) (void)fclose(file);
    return least;
}

uint32_t presil_jobs_processors(void) {
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t own = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set)
                         : online > 0                                ? (uint32_t)online
                                                                     : 1, /* more than a set has room for */
        quota = processors_of_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota < own ? quota : own;
}
