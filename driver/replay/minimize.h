/* SPDX-License-Identifier: Apache-2.0 */
/* minimize.h - the search for the smallest launch that fails in the same way: its state, and what its three steps
 * (shape, commands, data) share. */
#ifndef PRESIL_REPLAY_MINIMIZE_H
#define PRESIL_REPLAY_MINIMIZE_H

#include <time.h>
#include "replay.h"

typedef struct shape_search shape_search; /* smaller.c */

typedef struct {
    replay *r;
    shape_search *shapes;        /* of the one that was found; NULL: as captured */
    presil_list *whole;          /* all commands, of the device that is open now */
    bool cuts;                   /* the chip can leave commands out */
    uint8_t *keep, *trial, *cut; /* of each command */
    uint64_t commands, kept, runs;
    presil_bundle_range *ranges; /* what the launch reads, joined; `data` and `original` have their bytes */
    uint64_t range_count, bytes, filled;
    uint8_t *data, *original;
    uint64_t commands_before, bytes_before; /* as captured */
    char shape[256];                        /* "rows 56 -> 4, channels in 64 -> 8"; empty: as captured */
    probed first, now;                      /* first: how it fails */
    char kind[256];
    int outcome;
    bool stopped, limited; /* limited: by --tries or --seconds */
    uint64_t tries;        /* runs up to here, and seconds from `start`: of the step that is done */
    double seconds, start;
    time_t told;
} reduction;

/* Whether another run is in order: not stopped, within the step's tries and seconds. */
bool minimize_may_go_on(const reduction *m);
/* Another device, as new: what a wrong chip keeps from launch to launch is not the next try's. An exit status; `whole`
 * is gone. */
int minimize_renew(reduction *m);
/* Runs the list on memory as it is. false: another outcome, or m->stopped. */
bool minimize_run(reduction *m, presil_list *list);
void minimize_tell(reduction *m, bool always);

/* ---- smaller.c: an exit status each */
/* Looks for a smaller shape; if there is one, commands and data are of that. */
int minimize_shape(reduction *m);
int shape_plan(shape_search *s, presil_list **out); /* the one that was found, on the device that is open */
void shape_forget(shape_search *s);                 /* before that device is closed */
void shape_free(shape_search *s);                   /* NULL is allowed */

#endif
