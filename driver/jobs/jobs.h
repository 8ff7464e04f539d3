/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.h - what the files of this room share. Threads: whoever runs a launch of the device makes a job of it
 * (listen.c); the dispatcher (dispatch.c) gives jobs to processes, takes answers, and delivers them in order. `lock`
 * guards everything but what is marked.
 */
#ifndef PRESIL_JOBS_ROOM_H
#define PRESIL_JOBS_ROOM_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include "presil_jobs.h"
#include "worker.h"

typedef enum { JOB_WAITS, JOB_FOLLOWS, JOB_RUNS, JOB_ENDED } job_state; /* follows: its leader */

typedef struct job job;
struct job { /* in a list, in the order of launches; an ended one stays until those before it are delivered */
    job *next;
    slot *slot; /* NULL: the report is all (the executor refused it) */
    job_state state;
    bool told; /* the device has told of its failure: the executor refused it */
    presil_report report;
    uint64_t weight; /* how long it may take, in a unit of its own */
    int known;       /* enum presil_jobs_known */
    uint8_t key[PRESIL_JOBS_KEY];
    presil_report before; /* KNOWN, SAMPLED: its cycles, and what the chip counts */
    job *leader;          /* an earlier one with its key, which is not delivered yet; NULL: none */
    char text[BLOCK_TEXT];
    /* For whoever asks what failed. */
    presil_kept_launch *kept;       /* NULL: not known */
    presil_capture_launch launch;   /* numbers alone */
    presil_capture_tensor *tensors; /* launch.tensor_count */
};

typedef struct {
    worker process;
    job *job;             /* NULL: idle */
    bool timed;           /* its chip's timing is that of presil_jobs.hello */
    uint64_t until;       /* not 0: it has been started again, and has a chip by then */
    bool rests;           /* it could not be started; not again before there is news of another */
    char why[HELLO_TEXT]; /* it rests */
} place;

struct presil_jobs {
    presil_device *device; /* not guarded, like all that is set when it opens */
    presil_report_fn report;
    void *report_context;
    presil_jobs_timings timings; /* find NULL: none */
    char **argv;
    char *index; /* of argv: which of several transports; written before each start */
    uint32_t transport_first;
    uint64_t limit;    /* bytes of launches */
    uint64_t files;    /* launches at most: the memory of each is an open file */
    uint64_t order;    /* PRESIL_JOBS_ORDER, for tests: not 0: a seed, launches run in any order */
    uint64_t start_ns; /* how long a process may take until it has a chip */
    uint32_t place_count;
    place *places;
    struct pollfd *fds; /* the dispatcher's: `wake` and each process */
    pid_t process;      /* that opened it: a fork has neither dispatcher nor processes */
    pthread_t dispatcher;
    int wake; /* eventfd */
    atomic_bool cancelled;
    block_hello hello; /* of the first process */

    pthread_mutex_t listening; /* of the two below; held while the listener is called, without `lock` */
    presil_capture_ops listener;
    void *listener_context;

    pthread_mutex_t lock;
    pthread_cond_t room, idle;
    job *first, *last;
    slot *spare;                        /* for the next launches */
    uint64_t spare_bytes, spares, held; /* held: slots of jobs */
    bool closing;
    int failed; /* the first failure since the last wait */
    char failed_text[BLOCK_TEXT];
    uint64_t failed_origin;
    presil_jobs_stats stats;
    uint64_t weight_done, weight_left; /* of launches that processes ran; of those that wait or run */

    job *making; /* the launch that runs; the device's thread writes it, and all of it but leader, known, before */
};

enum { INDEX_TEXT = 16 };
int jobs_start_process(presil_jobs *jobs, place *p); /* 0 or an errno; on one thread at a time */
void jobs_wake(presil_jobs *jobs);                   /* async-signal-safe */

/* known.c */
bool jobs_same_timing(const presil_jobs *jobs, const block_hello *hello);
/* On the device's thread, with the job as jobs->making. */
int job_look_up(presil_jobs *jobs, job *j, const presil_capture_launch *launch);
/* Its report, of the executor, gets what is known, or estimated. */
void job_take_known(job *j);
/* A job that has ended, when it is its turn: what is new is kept, what was sampled is compared. Without the lock. */
void job_settle_timing(presil_jobs *jobs, job *j);
/* With the lock held, for one that could run now: it waits for its leader, or knows by now. */
void job_follow(presil_jobs *jobs, job *j);
/* With the lock held, for those that follow it: it is about to be freed. */
void job_leave_followers(presil_jobs *jobs, job *leader);

/* dispatch.c */
void jobs_end_job(presil_jobs *jobs, job *j); /* with the lock held */

/* listen.c */
extern const presil_capture_ops jobs_listener;
void job_free(job *j);
/* With the lock held: the slot is not needed any more. */
void jobs_recycle(presil_jobs *jobs, job *j);

/* failed.c */
/* The text in the words of the device's own launch: the process has only its commands. */
void job_name_place(job *j);
/* To the listener, if there is one, as if it had run here. Without the lock. */
void job_tell_listener(presil_jobs *jobs, job *j);

/* dispatch.c */
void *jobs_dispatch(void *jobs);

#endif
