/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - what the files of driver/core share: the device, its queue, and the functions that cross files.
 *
 * Threads: `lock` guards the queue, streams and events; `heap_lock` the allocator. Whoever has set `running` (the
 * worker, or a caller that waits) is the runner: it alone touches the chip, the transport and the twin's view, without
 * holding `lock`.
 */
#ifndef PRESIL_CORE_H
#define PRESIL_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "presil.h"
#include "presil_capture.h"
#include "presil_chip.h"
#include "presil_heap.h"

#define ERROR_TEXT 2048
#define MEMORY_BASE                                                                                                    \
    0x100000000ull /* of our own; not 0, so that device and host addresses can't be mixed up unnoticed */
#define STAGING_BYTES (1ull << 20)    /* for copies through the chip */
#define COPY_BLOCK_BYTES (4ull << 20) /* of a buffer in host memory, where a copy goes through one */
#define DEFAULT_HANG_CYCLES 200000u
#define DEFAULT_HANG_NS 10000000000ull
#define MOST_HANG_CYCLES (1ull << 40)
#define MOST_WAITING 16u  /* rows of a hang */
#define MOST_REGIONS 16u  /* of a transport's own memory */
#define QUEUE_LIMIT 1024u /* items; a caller further ahead waits */

/* ---- ranges.c: lists of DRAM byte ranges */
typedef struct {
    presil_byte_range *at;
    size_t count, capacity;
    bool lost; /* host memory was full: the list is not complete */
} range_list;

void ranges_add(range_list *list, presil_daddr base, uint64_t bytes);
void ranges_merge(range_list *list); /* sorted and disjoint afterwards */
void ranges_free(range_list *list);
/* From the first byte of a box to its last; bytes is UINT64_MAX if it does not fit 64 bits. */
presil_byte_range presil_box_hull(const presil_box *box);
/* All that a plan writes, some of it at a time, up to the first call that does not return 0: that is returned. Rows of
 * boxes are many: ask only if there is something to do. */
typedef int (*presil_ranges_fn)(presil_device *device, const presil_byte_range *ranges, uint32_t count);
int presil_each_write(presil_device *device, const presil_plan_info *info, presil_ranges_fn fn);
/* The same as one list. */
void ranges_add_writes(range_list *list, const presil_plan_info *info);

/* ---- the queue */
typedef enum { ITEM_LAUNCH, ITEM_COPY, ITEM_EVENT, ITEM_WAIT } item_kind;

typedef struct peer_copy peer_copy; /* peer.c */

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
    presil_capture_tensor at[];
} launch_tensors;

typedef struct {
    item_kind kind;
    presil_stream *stream;
    uint64_t seq;            /* position in the device's queue, from 1 */
    uint64_t origin;         /* LAUNCH: of presil_set_origin */
    presil_plan *plan;       /* LAUNCH: owned unless list */
    presil_list *list;       /* LAUNCH: a reference, which keeps the plan */
    launch_tensors *tensors; /* LAUNCH: as the plan; NULL: not known */
    uint64_t plan_ns;
    uint64_t tag; /* of the thread that enqueued it */
    copy_item copy;
    presil_event *event;        /* EVENT: a reference */
    presil_device *wait_device; /* WAIT: a reference, until it has passed wait_seq */
    uint64_t wait_seq;
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

struct presil_event {
    presil_device *device;
    atomic_int references;
    uint64_t seq; /* 0: never recorded */
    uint64_t cycles;
    bool clocked;
};

typedef struct {
    presil_plan *plan;
    launch_tensors *tensors; /* owned; NULL: not known */
    uint64_t plan_ns;
} recorded_plan;

struct presil_list {
    presil_device *device;
    atomic_int references;
    recorded_plan *plans;
    size_t count, capacity;
    atomic_bool submitted;
};

struct presil_pool {
    presil_device *device;
    uint32_t index;
};

struct presil_weights {
    presil_device *device;
    atomic_int references; /* the handle and every queued write */
    atomic_bool unwritten; /* the last write failed: nothing may be computed with what lies there */
    presil_layout *layout;
    presil_daddr packed;
    uint64_t bytes;
    bool placed;              /* in the caller's memory */
    presil_weights_desc desc; /* as packed, without pointers */
};

/* listeners.c. `launch` is first: a listener that has it has this. */
typedef struct {
    presil_capture_launch launch; /* that is running */
    presil_device *device;
    presil_capture_ops ops;
    void *context;
    const presil_plan *plan; /* of `launch` */
    atomic_bool on;          /* somebody listens; read by whoever enqueues */
    bool listening;          /* to this launch */
    bool ran;                /* it has, on the chip */
    range_list may_write;    /* of a plan with boxes: what they come to */
} capture_state;

/* residency.c; all NULL where there is one memory. A byte, and two positions in the queue, a page. */
typedef struct {
    uint8_t *state, *sent;     /* sent: the device's bytes, as far as they were sent or fetched */
    uint64_t *written, *owned; /* by the launch of that position; owned: by nobody whose launches are older */
    uint64_t low, high;        /* pages that are newer on the device are among these */
    atomic_ullong stale;       /* how many there are */
    uint64_t seq, checked;     /* of the item that runs, UINT64_MAX: none; the page that was compared last, plus 1 */
} residency;

struct presil_device {
    atomic_int references; /* the handle and every object that points here */
    atomic_bool closed;
    unsigned process; /* fork_generation at open */

    /* as opened */
    char config[32], build[32];
    bool config_given, build_given;
    char transport_spec[160]; /* "inproc", or the kind and its options: "socket:..." (choose_transport.c) */
    char *library_path, *chip_path, *memory_model;
    uint64_t seed, hang_cycles, hang_ns; /* hang_ns: where the transport has no clock */
    presil_waiting hang[MOST_WAITING];   /* the last EHUNG, under report_lock */
    uint32_t hang_rows;
    int hang_verdict;
    atomic_uint twin_threads;
    bool no_map, host_memory, fetch_late; /* late: when the host asks */

    /* chip and transport */
    const presil_chip_ops *chip_ops; /* chip_table */
    presil_chip_ops chip_table;      /* the chip's, NULL where it ends */
    presil_chip *chip;
    presil_chip_limits limits;
    atomic_int mode;
    atomic_bool started; /* the transport is open and the chip probed */
    bool dead;
    bool maps;       /* the transport works on our mapping */
    bool own_memory; /* the mapping, or what is behind mem_read(), is the transport's own */
    presil_link link;
    presil_transport_ops transport_ops; /* link.ops: the transport's table, NULL where it ends or has nothing */
    presil_transport_info transport;

    /* memory */
    int memory_fd;
    uint8_t *mapping;
    uint32_t gaps[MOST_REGIONS], gap_count; /* first pages of what lies between regions, and is no memory */
    uint64_t memory_bytes, memory_wanted;   /* wanted: as asked for; 0: not */
    presil_daddr memory_base;
    residency residency;
    atomic_ullong bytes_to_device, bytes_to_host; /* written by the runner */
    presil_command_memory command;
    presil_daddr staging;
    pthread_mutex_t heap_lock;
    presil_heap heap;
    presil_heap_counter own[PRESIL_HEAP_COUNTERS][PRESIL_HEAP_KINDS]; /* the driver's own block */
    uint64_t memory_limit;                                            /* pages; 0: none */

    /* queue */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    work_item *items; /* a ring of `capacity` */
    size_t head, pending, capacity;
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

    /* launches; the runner's */
    uint64_t launches;
    uint64_t clock; /* of the chip, after the last launch */
    char *trace_path;
    uint64_t trace_first, trace_count;
    bool tracing, trace_window; /* window: these cycles of one launch */
    uint64_t trace_from, trace_to;
    uint8_t *view; /* the twin's private view of memory (VERIFY), or its staging memory if the transport does not map */
    bool view_is_copy;
    range_list twin_writes;
    range_list rtl_writes;          /* of the transport's log, of the last launch */
    bool logging, rtl_writes_known; /* the log is on; it was fetched */
    capture_state capture;
    pthread_mutex_t report_lock;
    pthread_cond_t reported;
    bool reporting; /* a report is being delivered, by `reporter` */
    pthread_t reporter;
    presil_report_fn report;
    presil_progress_fn progress;
    void *report_context, *progress_context;
};

/* ---- error.c, log.c */
/* Sets the thread's error text and returns status. */
__attribute__((format(printf, 2, 3))) int presil_fail(int status, const char *format, ...);
__attribute__((format(printf, 1, 2))) void presil_warn(const char *format, ...);
void presil_log_transport(void *context, const char *text);
void presil_set_error_origin(uint64_t origin); /* after presil_fail, which clears it */
uint64_t presil_origin(void);                  /* of the caller's launch */
int presil_transport_failed(const presil_device *device, const char *doing,
                            int error); /* status for a presil_transport_error, with the transport's text */
/* Copies a caller's struct of `size` bytes into one of ours; 0, or EINVAL if it is too small for `least` or has an
 * unknown tail that is not zero. */
int presil_take(void *to, size_t to_bytes, const void *from, uint32_t size, size_t least, const char *what);

/* ---- device.c */
int presil_enter(
    const presil_device *device); /* 0, or EINVAL, ENODEV with text: first thing in every function of the API */
void presil_device_hold(presil_device *device);
void presil_device_drop(presil_device *device);
int presil_start_if_needed(presil_device *device); /* for modes with a chip; takes the queue's exclusive section */
extern atomic_uint presil_fork_generation;

/* ---- library.c, choose_transport.c */
int presil_choose_transport(presil_device *device, const char *list,
                            uint32_t index);                  /* sets transport_spec; list NULL: from the environment */
bool presil_transport_is_remote(const presil_device *device); /* not a library of this process: it has a name already */
const presil_transport_ops *presil_transport_remote_ops(const presil_device *device); /* NULL: it is not remote */
int presil_library_transport(const presil_device *device, presil_transport_ops *out); /* checked, a copy */
/* name: of the chip, if its library isn't given; checked, a copy */
int presil_library_chip(const presil_device *device, const char *name, presil_chip_ops *out);

/* ---- start.c */
int presil_choose_chip(presil_device *device); /* at open: by configuration, or by what the simulator library says */
int presil_start(presil_device *device);       /* runner; opens the transport unless it is open */
/* Runner; after a failed launch, or because it was asked for (then it is no failure that a new peer has not the old
 * one's memory: a warning says so). On failure the device is dead and the text says why. */
int presil_recover(presil_device *device, bool asked);

/* ---- memory.c */
int presil_memory_open(presil_device *device);
void presil_memory_close(presil_device *device);
int presil_memory_adopt(presil_device *device); /* of a transport that is open, where the memory is its own */
int presil_memory_reserve_commands(presil_device *device);
bool presil_memory_contains(const presil_device *device, presil_daddr address, uint64_t bytes);
bool presil_memory_home_is_mapping(const presil_device *device);              /* else the transport has the bytes */
uint8_t *presil_memory_at(const presil_device *device, presil_daddr address); /* in the mapping */
int presil_memory_read(presil_device *device, presil_daddr from, void *to, uint64_t bytes);        /* runner */
int presil_memory_write(presil_device *device, presil_daddr to, const void *from, uint64_t bytes); /* runner */
int presil_memory_upload(
    presil_device *device); /* runner; what the memfd holds goes to a transport that does not map */

int presil_memory_settle(presil_device *device); /* the host has everything that the device wrote */
int presil_device_wait(presil_device *device);   /* stream.c: presil_device_synchronize() without that */

/* ---- residency.c: runner; they do nothing where there is one memory */
int presil_residency_open(presil_device *device);
void presil_residency_close(presil_device *device);
void presil_residency_owned(presil_device *device, uint32_t page, uint64_t pages); /* any thread, heap_lock held */
int presil_residency_send(presil_device *device, const presil_plan_info *info);    /* what its launch touches */
int presil_residency_wrote(presil_device *device, const presil_plan_info *info, bool now); /* now: fetches it */
void presil_residency_spoilt(presil_device *device, const presil_plan_info *info);
int presil_residency_fetch(presil_device *device, presil_daddr base, uint64_t bytes);
int presil_residency_fetch_all(presil_device *device);
int presil_residency_overwrite(presil_device *device, presil_daddr base, uint64_t bytes);
void presil_residency_forget(presil_device *device, uint64_t page, uint64_t pages);
uint64_t presil_residency_lost(presil_device *device); /* all is sent anew; bytes that only the device had */

/* ---- queue.c */
int presil_queue_open(presil_device *device);
int presil_queue_set_affinity(presil_device *device,
                              const char *cpus); /* checks, keeps a copy, and moves a running worker */
void presil_queue_close(presil_device *device);  /* joins the worker; the queue is empty */
/* Appends the item, filling stream and seq. run_now: an idle device runs it at once in this thread. */
int presil_queue_push(presil_device *device, presil_stream *stream, work_item *item, bool run_now);
int presil_queue_wait(presil_device *device,
                      uint64_t seq); /* runs items itself if nobody does; EINVAL from a callback of the runner */
bool presil_queue_passed(presil_device *device, uint64_t seq); /* sets the worker going if not */
int presil_exclusive_begin(presil_device *device); /* everything enqueued has passed, and this thread is the runner */
void presil_exclusive_end(presil_device *device);
void presil_stream_clear_error(presil_stream *stream); /* with the lock held */
presil_stream *presil_stream_of(presil_device *device,
                                presil_stream *stream); /* NULL with text if it is another device's */
bool presil_cancelled(presil_device *device, uint64_t seq);
void presil_cancel_all(presil_device *device);

/* ---- execute.c: what the runner does with an item; returns a status with text */
int presil_execute(presil_device *device, const work_item *item);
void presil_item_free(work_item *item);

/* ---- launch.c, model.c, verify.c */
int presil_launch(presil_device *device, const work_item *item);
int presil_launch_rtl(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                      presil_report *report);
int presil_launch_model(presil_device *device, const presil_plan *plan, const presil_plan_info *info,
                        presil_report *report);
int presil_launch_verify(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                         presil_report *report);
int presil_twin_run(presil_device *device, const presil_plan *plan, uint8_t *memory, uint32_t log_writes,
                    presil_report *report);
/* Runner: the transport's log of writes, on before a launch; fetched behind it, before anything else is launched; off.
 */
void presil_log_begin(presil_device *device);
int presil_log_fetch(presil_device *device);
void presil_log_end(presil_device *device);
/* When the chip wrote a byte of the log that was fetched last; false: not known. */
bool presil_write_time_of(const presil_device *device, presil_daddr address, presil_write_time *out);
int presil_view_stage(
    presil_device *device,
    const presil_plan_info *info); /* the twin's copy of what the plan touches, where the transport has the bytes */
void presil_view_close(presil_device *device);
uint64_t presil_now_ns(void);
int presil_plan_look(const presil_device *device, const presil_plan *plan, presil_plan_info *out);
/* Checks the plan's ranges, then records or enqueues it; owns it and its tensors (or NULL) from here on. */
int presil_plan_enqueue(presil_device *device, presil_stream *stream, presil_plan *plan, launch_tensors *tensors,
                        uint64_t plan_ns);

/* ---- listeners.c: runner, and only with device->capture.on */
void presil_capture_begin(presil_device *device, const work_item *item, const presil_plan_info *info,
                          const presil_report *report);
void presil_capture_expected(presil_device *device);
/* text: of ERROR_TEXT bytes, of a failed launch; the listener may add to it */
void presil_capture_end(presil_device *device, const presil_report *report, char *text);
launch_tensors *presil_tensors_new(const presil_capture_tensor *from, size_t count); /* NULL: no host memory */
launch_tensors *presil_tensors_join(const recorded_plan *plans, size_t count);       /* NULL: they have none */

/* ---- report.c */
void presil_report_deliver(presil_device *device, const presil_report *report); /* runner */

/* ---- weights.c, peer.c */
void presil_weights_drop(presil_weights *weights);
void presil_peer_drop(peer_copy *peer);
/* Runner: before the half of a block is copied, the failure of the other; after it, its own status. */
int presil_peer_before(peer_copy *peer);
void presil_peer_after(peer_copy *peer, int status);
/* Checks stream, mode and path of a copy, and that it is not recorded; stream NULL becomes the default one. */
int presil_copy_begin(presil_device *device, presil_stream **stream, presil_copy_path path);
int presil_copy_check_range(const presil_device *device, presil_daddr address, uint64_t bytes);

/* ---- event.c, record.c */
void presil_event_drop(presil_event *event);
void presil_event_passed(presil_event *event); /* runner */
int presil_list_append(presil_list *list, presil_plan *plan, launch_tensors *tensors, uint64_t plan_ns);
void presil_list_drop(presil_list *list);

#endif
