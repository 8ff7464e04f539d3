/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - the queue of a device, its items, and streams, which are orders within it. */
#ifndef PRESIL_CORE_QUEUE_H
#define PRESIL_CORE_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "fail.h"
#include "presil.h"
#include "presil_capture.h"
#include "presil_chip.h"

#define COPY_BLOCK_BYTES (4ull << 20) /* of a buffer in host memory, where a copy goes through one */

typedef enum { ITEM_LAUNCH, ITEM_COPY, ITEM_EVENT, ITEM_WAIT } item_kind;

typedef struct peer_copy peer_copy; /* peer.c */
typedef struct kept_op kept_op;     /* kept_op.c */

typedef struct {
    void *host_to;         /* or to */
    const void *host_from; /* or from */
    presil_daddr to, from;
    uint64_t bytes;
    void *owned;             /* freed afterwards; NULL: none */
    presil_weights *weights; /* a reference: these are its packed bytes, which neither a cancel nor a reset drops */
    peer_copy *peer;         /* a reference: one half of a block on its way between devices */
} copy_item;

/* What the operators of a launch work on. */
typedef struct {
    size_t count;
    kept_op *op; /* owned: the one operator there is; NULL: not known */
    presil_capture_tensor at[];
} launch_tensors;

typedef struct launch_layouts launch_layouts; /* layouts.h */

/* What a plan says of its scratch memory (presil_plan_info), and where that is: `at` is set when the item is enqueued.
 */
typedef struct {
    uint64_t bytes, alignment;
    presil_daddr at;
} scratch_use;

typedef struct {
    item_kind kind;
    presil_stream *stream;
    uint64_t seq;            /* position in the device's queue, from 1 */
    uint64_t origin;         /* LAUNCH: of presil_set_origin */
    presil_plan *plan;       /* LAUNCH: owned unless list */
    presil_list *list;       /* LAUNCH: a reference, which keeps the plan */
    launch_tensors *tensors; /* LAUNCH: as the plan; NULL: not known */
    launch_layouts *layouts; /* LAUNCH: as the plan; NULL: everything as it lies */
    uint64_t plan_ns;
    uint64_t tag; /* of the thread that enqueued it */
    union {
        scratch_use scratch; /* LAUNCH */
        copy_item copy;
        presil_event *event; /* EVENT: a reference */
        struct {
            presil_device *wait_device; /* WAIT: a reference, until it has passed wait_seq */
            uint64_t wait_seq;
        };
    };
} work_item;

struct presil_stream {
    presil_device *device;
    presil_stream *next;
    presil_list *recording;
    uint64_t last_seq; /* of the last item enqueued */
    int error;         /* sticky; its item and text below */
    uint64_t error_seq, error_origin;
    char error_text[ERROR_TEXT];
};

/* What the runner does with an item, and what becomes of the item: of whoever opens the queue. */
typedef struct {
    int (*execute)(presil_device *device, const work_item *item); /* a status with text */
    void (*item_free)(work_item *item);
    /* With the lock held, of an item that is about to get its place in the order: a status with text refuses it. */
    int (*admit)(presil_device *device, work_item *item);
    /* Of a queue that is `deep`. begin: true if the item is in flight now, false if it has to run alone, or later.
     * finish: waits for the oldest that is in flight; its status, with text. */
    bool (*begin)(presil_device *device, const work_item *item);
    int (*finish)(presil_device *device);
} queue_ops;

typedef struct {
    const queue_ops *ops;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    work_item *items; /* a ring of `capacity` */
    size_t head, pending, capacity;
    size_t begun; /* the first of `pending`, which are in flight; written by the runner, under lock */
    bool deep;
    _Atomic uint64_t submitted, completed; /* written under lock */
    unsigned waiters;
    bool running, kicked, quit, worker_started;
    pthread_t runner, worker;
    presil_stream default_stream;
    presil_stream *streams;
    atomic_uint errors; /* streams with one; written under lock */
    char *affinity;     /* the worker's CPUs; NULL: any, and whoever waits may run launches */

    /* cancelling: items up to cancel_seq are dropped; the flag stops a running one */
    _Atomic uint64_t cancel_seq;
    volatile int cancel_flag;
} work_queue;

int presil_queue_open(presil_device *device, const queue_ops *ops);
/* Checks, keeps a copy, and moves a running worker. */
int presil_queue_set_affinity(presil_device *device, const char *cpus);
void presil_queue_close(presil_device *device);   /* joins the worker; the queue is empty */
void presil_queue_destroy(presil_device *device); /* with the last reference */
/* Appends the item, filling stream and seq. run_now: an idle device runs it at once in this thread. */
int presil_queue_push(presil_device *device, presil_stream *stream, work_item *item, bool run_now);
/* Runs items itself if nobody does; EINVAL from a callback of the runner. */
int presil_queue_wait(presil_device *device, uint64_t seq);
bool presil_queue_passed(presil_device *device, uint64_t seq); /* sets the worker going if not */
int presil_exclusive_begin(presil_device *device); /* everything enqueued has passed, and this thread is the runner */
void presil_exclusive_end(presil_device *device);
/* NULL with text if it is another device's. */
presil_stream *presil_stream_of(presil_device *device, presil_stream *stream);
void presil_stream_clear_error(presil_stream *stream); /* with the lock held */
bool presil_cancelled(presil_device *device, uint64_t seq);
void presil_cancel_all(presil_device *device);

#endif
