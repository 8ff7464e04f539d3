/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil.h - the driver's public C API: devices, memory, streams, events, matmul and convolution on the chip, reports.
 *
 * Rules that hold everywhere
 * - Functions return PRESIL_OK or a negative presil_status; outputs are untouched on failure; presil_error_text() of
 * the calling thread says what was expected, what was found and what to do.
 * - Structs start with `size` = sizeof(struct): a missing tail counts as zero. Reserved members must be zero (checked).
 * - Calls that take a stream enqueue and return; work of one stream runs in order, on the device's worker (or on a
 * caller that is about to wait). Errors found at execution stick to the stream: the next synchronize returns and clears
 * them. Arguments are checked at the call.
 * - All functions may be called from any thread. Device addresses are presil_daddr (presil_transport.h), host memory
 * void *.
 */
#ifndef PRESIL_H
#define PRESIL_H

#include <stddef.h>
#include <stdint.h>
#include "presil_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PRESIL_API __attribute__((visibility("default")))
#define PRESIL_CHECKED __attribute__((visibility("default"), warn_unused_result))
#else
#define PRESIL_API
#define PRESIL_CHECKED
#endif

#define PRESIL_VERSION "0.1.0"
/* Room in a report; what the numbers are called is the chip's: presil_device_get_names(). */
#define PRESIL_ENGINES 5
#define PRESIL_CAUSES 16
#define PRESIL_COUNTERS 16

typedef struct presil_device presil_device;
typedef struct presil_stream presil_stream; /* NULL: the device's default stream */
typedef struct presil_event presil_event;
typedef struct presil_weights presil_weights; /* packed weights in device memory */
typedef struct presil_list presil_list;       /* a recorded command list */
typedef struct presil_pool presil_pool;       /* memory pool; NULL: the default one */

typedef enum {
    PRESIL_OK = 0,
    PRESIL_EINVAL = -1,       /* bad argument; nothing was done */
    PRESIL_ENOMEM = -2,       /* device memory is full; nothing was done */
    PRESIL_EHOSTMEM = -3,     /* host memory is full */
    PRESIL_EUNSUPPORTED = -4, /* the chip (or this layout) can't do it; nothing was done: compute it on the host */
    PRESIL_ENODEV = -5,       /* no simulator library, chip not understood, or device closed */
    PRESIL_EBUS = -6,  /* bus error (or wrong parity) in a launch; outputs of the launch undefined, device was reset and
                          is usable */
    PRESIL_EDESC = -7, /* the chip refused a command; as EBUS */
    PRESIL_EHUNG = -8, /* no progress; as EBUS. The text says what each engine waits for */
    PRESIL_ECANCELLED = -9, /* presil_device_cancel(); as EBUS */
    PRESIL_ESTOPPED = -10,  /* $fatal, $finish or an assertion in the model; as EBUS */
    PRESIL_EMISMATCH = -11, /* verify: RTL and twin (or reference) differ; outputs are the RTL's */
    PRESIL_EDEAD = -12,     /* the device is unusable until presil_device_reset() */
    PRESIL_EIO = -13,       /* a file (presil_bundle.h) can't be read or written; no device is concerned */
    PRESIL_ETIMING = -14,   /* hybrid: the RTL now takes other cycles than are kept of the launch; outputs are right */
} presil_status;

/* HYBRID: not a mode of a device, but of a report: the executor's result, with the cycles, stalls and counters that the
 * same commands had on the RTL before (presil_store.h, presil_jobs.h).
 * MODEL: the chip's executor, without a clock. VERIFY: chip and executor, compared byte for byte; of a chip without an
 * executor each operator is compared with presil_reference.h: integers exactly, floats as near as the chip says. */
typedef enum { PRESIL_MODE_RTL = 0, PRESIL_MODE_MODEL = 1, PRESIL_MODE_VERIFY = 2, PRESIL_MODE_HYBRID = 3 } presil_mode;

/* presil_tensor has the first four and FP16; presil_operand (presil_op.h) any. INT4: two in a byte, the first below. */
typedef enum {
    PRESIL_INT8 = 0,
    PRESIL_BF16 = 1,
    PRESIL_FP32 = 2,
    PRESIL_INT32 = 3,
    PRESIL_UINT8 = 4,
    PRESIL_INT16 = 5,
    PRESIL_FP16 = 6,
    PRESIL_INT4 = 7,
    PRESIL_FP8_E4M3 = 8,
    PRESIL_FP8_E5M2 = 9,
    PRESIL_INT64 = 10
} presil_dtype;

/* How products are formed: INT8 needs int8 operands; BF16: bf16 or fp32 operands (rounded on load); FP32: fp32
 * operands, six passes (docs/numerics.md 5); FP16: fp16 operands as they lie, one pass, or (EUNSUPPORTED: the chip has
 * no fp16) fp32 operands that are float16 values (two bf16 terms hold them), four passes, the same bits as FP32. Both
 * operands of a product are FP16, or none. */
typedef enum {
    PRESIL_COMPUTE_INT8 = 0,
    PRESIL_COMPUTE_BF16 = 1,
    PRESIL_COMPUTE_FP32 = 2,
    PRESIL_COMPUTE_FP16 = 3
} presil_compute;

PRESIL_API const char *presil_error_text(void); /* of the calling thread's last failure; never NULL */
PRESIL_API const char *presil_status_name(presil_status status);

/* Where launches come from. `origin` (process-wide; NULL: none) is called on the enqueuing thread, without locks held,
 * for every operator and list; what it returns travels with the launch to its report, and to presil_error_origin() of
 * the thread that is told of the launch's failure (0: not known). */
typedef uint64_t (*presil_origin_fn)(void);
PRESIL_API void presil_set_origin(presil_origin_fn origin);
PRESIL_API uint64_t presil_error_origin(void);

/* `about_to_wait` (process-wide; NULL: none) is called on a thread that is about to wait for the chip, every time it
 * does, with a lock of the device held: it may call nothing of this interface but presil_device_cancel(). A place to
 * see to it that an interrupt of the user's reaches presil_device_cancel(). */
PRESIL_API void presil_set_before_wait(void (*about_to_wait)(void));

/* ---- devices -------------------------------------------------------------------------------- */
typedef struct {
    uint32_t size;
    uint32_t mode;            /* presil_mode */
    const char *config;       /* NULL: the default of the one chip that has one (presil_chip.h) */
    const char *build;        /* NULL: "fast", or what `library` says that it is */
    const char *library;      /* path of a simulator library; NULL: libpresil_sim_<config>_<build>.so from
                                 PRESIL_LIBRARY_PATH, then beside libpresil */
    uint64_t memory_bytes;    /* 0: PRESIL_MEMORY or 16 GiB; sparse memfd */
    const char *memory_model; /* see presil_transport_options; NULL: default */
    uint64_t seed;
    uint64_t hang_cycles;  /* see presil_device_set_watchdog */
    uint32_t twin_threads; /* 0: 1 */
    uint32_t no_map;       /* test: pretend that the transport can't map */
    const char *affinity;  /* see presil_device_set_affinity; NULL: PRESIL_AFFINITY, or no restriction */
    /* "inproc": a simulator library in this process. "socket:PATH[,copy][,timeout=SECONDS]": a server in another
     * (docs/transport-protocol.md), which says what chip and configuration there are; config and build, if given, must
     * be its own. "board:FILE": a chip behind files, which FILE describes (docs/silicon.md). Several, separated by ";":
     * one for each device, by transport_index; "inproc" alone is for all. NULL: PRESIL_TRANSPORT (not if `library` is
     * given), else "inproc". */
    const char *transport;
    uint32_t transport_index;
    /* 1: presil_host_pointer works also where the transport does not map. There are two copies then: a launch sends
     * what it touches and the chip has not got as it is here, and fetches what it wrote. 2: what it wrote is fetched
     * when the host asks for it: presil_host_access(), the synchronize functions, copies. 0: bytes move to the
     * transport when it starts, and the host has none. */
    uint32_t host_memory;
    /* Doorbells that may be in flight at once, at most what the chip takes (presil_chip.h). 0: PRESIL_QUEUE_DEPTH, or
     * what the chip takes; 1 where the transport has a clock, because cycles of launches that overlap depend on when
     * the host submits them. */
    uint32_t queue_depth;
    /* Where the transport has no clock (a board), a launch ends with EHUNG after so much wall time without a sign of
     * life from the chip. 0: PRESIL_WATCHDOG_SECONDS, or 10 s. */
    uint64_t hang_ns;
    /* Path of the chip's library (presil_chip.h). NULL: PRESIL_CHIP_LIBRARY, or libpresil_chip_<name>.so of the chip
     * that the simulator library or the server says it is; where neither is given, of the one chip that has the
     * configuration, of all whose libraries are in PRESIL_LIBRARY_PATH and beside libpresil. */
    const char *chip_library;
} presil_device_options;

/* lanes to config_hash mean nothing to some chips, whose own sizes have names (presil_names.properties). One whose bit
 * is not set in `known` is absent: its 0 is no value. A chip that gives a number other than 0 tells it thereby; it sets
 * the bit itself where 0 is a value, too. The bits are there as far as `size` reaches. */
enum presil_info_known {
    PRESIL_INFO_LANES = 1 << 0,
    PRESIL_INFO_CELLS = 1 << 1,
    PRESIL_INFO_WORD_BYTES = 1 << 2,
    PRESIL_INFO_BANKS = 1 << 3,
    PRESIL_INFO_BANK_WORDS = 1 << 4,
    PRESIL_INFO_ACC_ROWS = 1 << 5,
    PRESIL_INFO_CLOCK_MHZ = 1 << 6,
    PRESIL_INFO_CONFIG_HASH = 1 << 7
};
typedef struct {
    uint32_t size, mode, lanes, cells, word_bytes, banks, bank_words, acc_rows, clock_mhz, config_hash;
    char chip[32], config[32], build[32], simulator[128];
    uint64_t memory_bytes;
    presil_daddr memory_base;
    char transport[160]; /* as chosen from presil_device_options: "inproc", "socket:PATH..." */
    uint32_t known;      /* presil_info_known */
    uint32_t reserved;
} presil_device_info;

/* Mode MODEL never touches a simulator library, nor a server; RTL and VERIFY load it at the first launch (or
 * presil_device_start), or connect to it here. */
PRESIL_CHECKED int presil_device_open(const presil_device_options *options, presil_device **out);
PRESIL_API void presil_device_close(
    presil_device *device); /* waits for work, reports leaks to the log; NULL is allowed */
PRESIL_CHECKED int presil_device_start(presil_device *device);
PRESIL_CHECKED int presil_device_get_info(presil_device *device, presil_device_info *out);
PRESIL_CHECKED int presil_device_set_mode(presil_device *device,
                                          presil_mode mode); /* waits until idle, resets the queue */
/* Launches in mode VERIFY so far. not_compared: without an executor, where it is not known what a launch computes (a
 * stored or merged list, weights that were packed in another mode, or again after the launch was recorded), or the
 * reference doesn't know it; its report says why, in `difference`. */
typedef struct {
    uint32_t size, reserved0;
    uint64_t compared, differed, not_compared;
} presil_verified;
PRESIL_CHECKED int presil_device_get_verified(presil_device *device, presil_verified *out);
PRESIL_CHECKED int presil_device_set_memory_model(presil_device *device, const char *memory_model, uint64_t seed);
PRESIL_CHECKED int presil_device_set_twin_threads(
    presil_device *device, uint32_t threads); /* of coming launches; 0: 1. Same bits with any number */
/* A launch ends with EHUNG when the bus was silent for so many cycles and no engine of the chip worked meanwhile (or
 * the silence lasts more than 4 times what the whole launch should take). 0: PRESIL_WATCHDOG, or 200000. */
PRESIL_CHECKED int presil_device_set_watchdog(presil_device *device, uint64_t cycles);
/* Where the transport has a clock, a launch ends with EHUNG when it is not done after so many cycles, whatever it does:
 * a chip that moves something for ever is never silent. 0: PRESIL_TIMEOUT_CYCLES, or never. */
PRESIL_CHECKED int presil_device_set_timeout(presil_device *device, uint64_t cycles);
/* One line of a launch that didn't end: an engine of the chip, or who serves them (commands, memory). */
typedef struct {
    char who[16];        /* the chip's name of it */
    char state[32];      /* what it does, in the chip's words */
    char waits_for[160]; /* "": nothing */
    /* Cycles that it has been so for: at least, at most. 0 as `most`: not known. */
    uint64_t since_least, since_most;
    int32_t by;     /* the row of who should give it; -1: none of them */
    uint32_t flags; /* of enum presil_waits_flag */
} presil_waiting;
/* In a circle of rows that wait for each other; waits for what nobody gives; works, and doesn't wait. */
enum presil_waits_flag { PRESIL_WAITS_CIRCLE = 1, PRESIL_WAITS_FOREVER = 2, PRESIL_WAITS_WORKS = 4 };
/* The chip can't tell; it will never end; it would end, but later than the watchdog allows; whatever it is, it has
 * taken the cycles of presil_device_set_timeout(). */
enum presil_hang_verdict { PRESIL_HUNG_OR_SLOW = 0, PRESIL_HUNG = 1, PRESIL_SLOW = 2, PRESIL_TIMED_OUT = 3 };
/* The device's last EHUNG, as the chip was found: at most `most` rows, *count: how many there are, 0: there was none,
 * or the chip doesn't say. rows may be NULL if `most` is 0. The error text says the same in words. */
PRESIL_CHECKED int presil_device_last_hang(presil_device *device, presil_waiting *rows, uint32_t most, uint32_t *count,
                                           int *verdict);
/* CPUs for the device's worker, such as "2,4-7"; "" or NULL: no restriction. While it is set, launches run on the
 * worker only, never on a thread that waits. */
PRESIL_CHECKED int presil_device_set_affinity(presil_device *device, const char *cpus);
/* Drops queued work, but for packed weights on their way; resets the chip; memory is kept. Finds a server that was
 * started again. */
PRESIL_CHECKED int presil_device_reset(presil_device *device);
/* DMA windows: with one of them on, the chip reads and writes nothing outside of them; a launch that would ends with
 * EBUS, and the text says who, where and what for. Window 0, 1, ... (of the chip in rtl/: 0 to 3) is `bytes` bytes at
 * `base`, both multiples of 4096, for launches that begin from now on; access: enum presil_window_access, 0: nothing is
 * permitted in it; bytes 0: it is off. What launches need beside their operands (commands, packed weights, scratch
 * memory) lies in the device's memory, too (presil_device_info), so that all of it is a good window.
 * The driver says them again whenever it has reset the chip, as it does behind every launch that fails: they stay until
 * the device is closed. Mode MODEL knows them, too, but fetches no commands. EUNSUPPORTED: the chip has none; EINVAL,
 * also where they are locked: nothing was changed. */
enum presil_window_access { PRESIL_WINDOW_READ = 1, PRESIL_WINDOW_WRITE = 2 };
PRESIL_CHECKED int presil_device_set_window(presil_device *device, uint32_t window, presil_daddr base, uint64_t bytes,
                                            uint32_t access);
/* No window changes any more, until the device is closed and whoever owns the chip has reset it. */
PRESIL_CHECKED int presil_device_lock_windows(presil_device *device);
PRESIL_CHECKED int presil_device_synchronize(presil_device *device); /* all streams; first error wins */
PRESIL_API void presil_device_cancel(
    presil_device *device); /* async-signal-safe: the running launch ends with ECANCELLED */
PRESIL_CHECKED int presil_device_trace(presil_device *device, const char *path, uint64_t first_launch,
                                       uint64_t launches); /* FST of coming launches (needs build "trace"); NULL: off */
/* The same of cycles [first_cycle, last_cycle] of one launch, counted from when its (first) doorbell was answered: as
 * presil_report.difference_cycle. Simulated time outside of the window costs nothing. */
PRESIL_CHECKED int presil_device_trace_window(presil_device *device, const char *path, uint64_t launch,
                                              uint64_t first_cycle, uint64_t last_cycle);

/* ---- memory --------------------------------------------------------------------------------- */
typedef struct {
    uint32_t size, reserved0;
    uint64_t allocated, allocated_peak, reserved, reserved_peak, active_blocks, allocations, frees, failures, capacity,
        largest_free;
    uint64_t bytes_to_device, bytes_to_host; /* of tensors and weights, moved where memory is not mapped */
    /* Conversions of activations to the chip's own layouts and back since the device was opened: how many, packed
     * bytes, the host's time. */
    uint64_t packs, pack_bytes, pack_ns, unpacks, unpack_bytes, unpack_ns;
    uint64_t scratch; /* of `allocated`: what launches need only while they run */
} presil_memory_stats;

/* One quantity: now, its maximum since the last reset, and the sums of its changes up and down. */
typedef struct {
    uint64_t current, peak, gained, lost;
} presil_memory_counter;
enum {
    PRESIL_MEMORY_BLOCKS = 0,    /* live blocks */
    PRESIL_MEMORY_BYTES = 1,     /* of live blocks, rounded up as they are */
    PRESIL_MEMORY_REQUESTED = 2, /* bytes that were asked for */
    PRESIL_MEMORY_RESERVED = 3,  /* bytes of live and cached blocks */
    PRESIL_MEMORY_SEGMENTS = 4,  /* runs of neighbouring blocks, live or cached, of one pool and kind */
    PRESIL_MEMORY_COUNTERS = 5
};
enum {
    PRESIL_MEMORY_ALL = 0,
    PRESIL_MEMORY_SMALL = 1,
    PRESIL_MEMORY_LARGE = 2,
    PRESIL_MEMORY_KINDS = 3
}; /* small: up to 1 MiB */
typedef struct {
    uint32_t size, reserved0;
    uint64_t failures, flushes; /* flushes: the caches were given back because a block did not fit */
    presil_memory_counter counter[PRESIL_MEMORY_COUNTERS][PRESIL_MEMORY_KINDS];
} presil_memory_counters;

/* A block that is live, or cached (freed, kept for reuse by its pool). */
typedef struct {
    presil_daddr address;
    uint64_t bytes, requested;
    uint32_t pool; /* number of its pool, 0: the default one */
    uint32_t kind; /* PRESIL_MEMORY_SMALL or _LARGE */
    uint32_t live;
    uint32_t reserved0;
} presil_memory_block;

/* Blocks are 4 KiB-aligned; reuse follows program order of (alloc, free) calls on a stream, never observed completion:
 * launches that were enqueued before may still work on one that is new, and on scratch memory that was there; through
 * presil_host_pointer() it is written after presil_host_access(). bytes = 0 gives address 0. */
PRESIL_CHECKED int presil_alloc(presil_device *device, presil_stream *stream, presil_pool *pool, uint64_t bytes,
                                presil_daddr *out);
PRESIL_CHECKED int presil_free(presil_device *device, presil_daddr address);
PRESIL_CHECKED int presil_memory_get_stats(presil_device *device, presil_memory_stats *out);
PRESIL_CHECKED int presil_memory_get_counters(presil_device *device, presil_memory_counters *out);
/* Writes up to `capacity` blocks in order of address, and to *count how many there are. */
PRESIL_CHECKED int presil_memory_snapshot(presil_device *device, presil_memory_block *blocks, uint64_t capacity,
                                          uint64_t *count);
/* 1 and the number of its pool, if a live block starts at the address; else 0. */
PRESIL_API int presil_memory_pool_of(presil_device *device, presil_daddr address, uint32_t *number);
/* Size of the live block that starts at the address, whole pages; 0: none does. */
PRESIL_API uint64_t presil_memory_bytes_of(presil_device *device, presil_daddr address);
PRESIL_API void presil_memory_reset_peak(presil_device *device);
PRESIL_API void presil_memory_reset_totals(
    presil_device *device); /* gained, lost, failures and flushes count from 0 again */
PRESIL_CHECKED int presil_memory_set_limit(presil_device *device,
                                           uint64_t bytes); /* allocated bytes beyond it are ENOMEM; 0: none */
PRESIL_API void presil_memory_empty_cache(presil_device *device);
PRESIL_CHECKED int presil_pool_create(presil_device *device, presil_pool **out);
PRESIL_API void presil_pool_destroy(presil_pool *pool); /* live blocks move to the default pool */
/* keep 1: blocks freed in it stay the pool's, whatever is short of memory, until it is destroyed or told 0: for whoever
 * goes on using their addresses. */
PRESIL_API void presil_pool_keep(presil_pool *pool, int keep);
PRESIL_API uint32_t presil_pool_number(
    const presil_pool *pool); /* as in presil_memory_block; NULL: 0. Numbers of destroyed pools are used again */

/* Host address of device memory (the mapping; shared, so no copies), or NULL if the transport does not map (without
 * `host_memory`) or the range is not inside the device's memory. Whether it maps is known once it is open: with a
 * transport that might not, call presil_device_start() first. */
PRESIL_API void *presil_host_pointer(presil_device *device, presil_daddr address, uint64_t bytes);
/* The reverse: 1 and *out if p lies in the mapping of the device. */
PRESIL_API int presil_device_address(presil_device *device, const void *p, presil_daddr *out);
/* Waits as presil_device_synchronize() does; then these bytes of the mapping are what the device has, and the host may
 * read and write them until a launch that touches them is enqueued. With host_memory 2, and with a chip that packs
 * activations (presil_chip.h), that is less than presil_device_synchronize(), which brings everything. bytes 0: it
 * waits, and brings nothing. */
PRESIL_CHECKED int presil_host_access(presil_device *device, const void *at, uint64_t bytes);

/* In stream order; the host buffer must stay valid until the stream has passed it. Source and target on the device may
 * overlap. */
typedef enum {
    PRESIL_COPY_DIRECT = 0,
    PRESIL_COPY_DMA = 1
} presil_copy_path; /* DMA: staged through the chip's LOAD and STORE */
PRESIL_CHECKED int presil_copy_to_device(presil_device *device, presil_stream *stream, presil_daddr to,
                                         const void *from, uint64_t bytes, presil_copy_path path);
PRESIL_CHECKED int presil_copy_to_host(presil_device *device, presil_stream *stream, void *to, presil_daddr from,
                                       uint64_t bytes, presil_copy_path path);
PRESIL_CHECKED int presil_copy_on_device(presil_device *device, presil_stream *stream, presil_daddr to,
                                         presil_daddr from, uint64_t bytes, presil_copy_path path);
/* Through two buffers of at most 4 MiB in host memory. Both queues take part: what goes wrong on either side, a cancel
 * too, is an error of both; what was copied before it stays. */
PRESIL_CHECKED int presil_copy_peer(presil_device *to_device, presil_daddr to, presil_device *from_device,
                                    presil_daddr from, presil_stream *stream, uint64_t bytes);

/* ---- streams and events --------------------------------------------------------------------- */
PRESIL_CHECKED int presil_stream_create(presil_device *device, int priority, presil_stream **out);
PRESIL_API void presil_stream_destroy(presil_stream *stream); /* after its work */
PRESIL_CHECKED int presil_stream_synchronize(presil_device *device, presil_stream *stream);
PRESIL_API int presil_stream_query(presil_device *device, presil_stream *stream); /* 1: idle, 0: busy */
PRESIL_CHECKED int presil_event_create(presil_device *device, presil_event **out);
PRESIL_API void presil_event_destroy(presil_event *event);
PRESIL_CHECKED int presil_event_record(presil_event *event, presil_stream *stream);
/* The stream of `device` (NULL: its default one) waits; the event may be another device's. */
PRESIL_CHECKED int presil_event_wait(presil_event *event, presil_device *device, presil_stream *stream);
PRESIL_CHECKED int presil_event_synchronize(presil_event *event); /* the caller waits */
PRESIL_API int presil_event_query(presil_event *event);           /* 1: passed or never recorded */
PRESIL_CHECKED int presil_event_cycles(presil_event *event,
                                       uint64_t *cycles); /* chip clock at the event; EUNSUPPORTED without a clock */

/* ---- operators ------------------------------------------------------------------------------ */
/* A view; strides in elements, any sign; unused dimensions: none. dtype of the elements in memory. */
typedef struct {
    presil_daddr data;
    uint32_t dtype; /* presil_dtype */
    uint32_t ndim;  /* <= 4 */
    int64_t shape[4], stride[4];
} presil_tensor;

/* docs/isa.md section 5, docs/numerics.md section 7. Zero-initialised: plain conversion. */
typedef struct {
    uint32_t clamp; /* 1: clamp_lo, clamp_hi in fp32 (ReLU: 0, +inf). Not for int8 outputs. */
    float clamp_lo, clamp_hi;
    int32_t out_zero_point, int_lo,
        int_hi;                    /* int8 outputs: after adding the zero point; ReLU: int_lo = out_zero_point */
    int32_t residual_zero_point;   /* int8 residual */
    float residual_scale;          /* int8 residual: scale of the residual / scale of the output */
    const presil_tensor *residual; /* NULL: none. Shape of the output; any strides with a unit or zero innermost one (0:
                                      broadcast over rows) */
} presil_epilogue;

/* Weights in host memory (or mapped device memory), read during the call. shape O, I/groups, KH, KW; strides in
 * elements, may be negative (flipped kernels). */
typedef struct {
    uint32_t size;
    uint32_t compute;   /* presil_compute */
    const void *weight; /* NULL: nothing is packed; they are there to be asked about (PRESIL_ONLY_ASK, presil_op.h) */
    uint32_t weight_dtype; /* FP32, BF16, INT8, or FP16: for inputs of FP16 */
    uint32_t groups;
    int64_t shape[4], stride[4];
    const void *bias;   /* O values: fp32, or int32 for COMPUTE_INT8 (zero point already folded in: docs/numerics.md 7);
                           NULL: none */
    const float *scale; /* O values; NULL: none */
    int64_t dilation[2]; /* of the convolutions they will be used for: decides packing (docs/numerics.md 5) */
    int64_t input_dilation[2];
} presil_weights_desc;

/* The packed bytes are written in stream order and survive cancel and reset. Where they can't be written (a transport
 * that failed), operators refuse the weights with EINVAL until they are updated. */
PRESIL_CHECKED int presil_weights_create(presil_device *device, const presil_weights_desc *desc, presil_weights **out);
/* Packs other values of the same shape, dtypes and compute type at the same address, after the launches that were
 * enqueued so far. EINVAL, too: a bias or scale is given where none was packed, or not where one was. */
PRESIL_CHECKED int presil_weights_update(presil_weights *weights, const presil_weights_desc *desc);
PRESIL_API void presil_weights_destroy(presil_weights *weights); /* after the launches that use them; NULL is allowed */
PRESIL_API uint64_t presil_weights_bytes(const presil_weights *weights); /* packed, in device memory */

/* input and output in NHWC order of dimensions (whatever the strides): N, H, W, C. Output positions: oh·stride +
 * kh·dilation − padding in the dilated input. */
typedef struct {
    uint32_t size;
    uint32_t pad_value; /* int8: the input's zero point as a byte; else 0 */
    const char *label;  /* for reports, copied; NULL: "conv2d" */
    presil_tensor input, output;
    const presil_weights *weights;
    int64_t stride[2], padding[2], dilation[2], input_dilation[2];
    presil_epilogue epilogue;
    uint32_t tiling; /* test: 0 best; n > 0: the n-th forced tiling (same bits) */
    uint32_t reserved0;
    /* With weights NULL: the kernel as it lies in device memory (O, KH, KW, I/groups; strides of any sign, so that a
     * kernel may be turned or its channels exchanged), read by the launch itself; no bias, no scale, no packing
     * (docs/numerics.md 5), not for COMPUTE_INT8. */
    presil_tensor kernel;
    uint32_t compute, groups; /* presil_compute; groups 0: 1 */
    int64_t group_stride;     /* elements between the kernels of one group of outputs and the next; 0: O/groups *
                                 kernel.stride[0] */
} presil_conv2d_desc;

/* out[b] = a[b] · b[b] (+ residual): a: [B, M, K], b: [B, K, N], out: [B, M, N]; batch strides may be 0. */
typedef struct {
    uint32_t size;
    uint32_t compute; /* presil_compute */
    const char *label;
    presil_tensor a, b, out;
    presil_epilogue epilogue;
    uint32_t tiling;
    uint32_t reserved0;
} presil_matmul_desc;

/* Gradient of a convolution's weights: out[o, ky, kx, c] = sum over n, y, x of grad[n, y, x, o] * input[n, y*stride +
 * ky*dilation - padding, likewise x, c of o's group]. grad: N, OH, OW, O. input: N, H, W, C. out: O, KH, KW, C/groups,
 * rows of its kernel following each other (stride[1] = KW*stride[2]). Order: docs/numerics.md 5. */
typedef struct {
    uint32_t size;
    uint32_t compute; /* presil_compute, not INT8 */
    const char *label;
    presil_tensor input, grad, out;
    int64_t stride[2], padding[2], dilation[2];
    uint32_t groups; /* 0: 1 */
    uint32_t tiling;
    const presil_tensor *residual; /* NULL: none. Added in fp32; shape of out and rows like its, FP32, BF16 or FP16. May
                                      be out itself: the sum over several launches */
} presil_conv2d_weight_grad_desc;

/* EUNSUPPORTED, the text says why: a layout that the chip's LOAD can't fetch (strides of 2 GiB or more among them), or
 * one sum that needs more commands than a launch holds: partial sums never leave the accumulators (on `base`
 * sums of up to 2^19 elements in fp32, 2^22 in bf16 and 2^23 in int8 always fit). No other size is refused. */
PRESIL_CHECKED int presil_conv2d_weight_grad(presil_device *device, presil_stream *stream,
                                             const presil_conv2d_weight_grad_desc *desc);
PRESIL_CHECKED int presil_conv2d(presil_device *device, presil_stream *stream, const presil_conv2d_desc *desc);
PRESIL_CHECKED int presil_matmul(presil_device *device, presil_stream *stream, const presil_matmul_desc *desc);
PRESIL_CHECKED int presil_nop(presil_device *device, presil_stream *stream); /* an empty launch */

/* Record without submitting: between begin and end, operators on the stream are planned and kept. Addresses and weights
 * must stay valid while the list lives. */
PRESIL_CHECKED int presil_record_begin(presil_device *device, presil_stream *stream);
PRESIL_CHECKED int presil_record_end(presil_device *device, presil_stream *stream, presil_list **out);
/* Makes the recorded operators one launch with one report: each sees what those before it wrote, no doorbell between
 * them. The bits stay, the cycles don't. Before the first submit. EUNSUPPORTED if the chip can't: the list then stays a
 * launch an operator. */
PRESIL_CHECKED int presil_list_merge(presil_list *list, const char *label);
/* What lies in [from, from + bytes) will lie at `to`, whose distance is a multiple of 4 KiB. */
typedef struct {
    presil_daddr from, to;
    uint64_t bytes;
} presil_move;
/* The list for operands at other places, without planning: bits, cycles and signatures stay. What lies in no move
 * (packed weights among them) stays where it is. Moves may share bytes if they agree. EINVAL: they don't, or are not
 * whole pages apart, or a place is not device memory; EUNSUPPORTED: the chip can't, or a launch has tensors in a layout
 * of the chip's own. Then record it there. */
PRESIL_CHECKED int presil_list_moved(const presil_list *list, const presil_move *moves, uint32_t count,
                                     presil_list **out);
PRESIL_API uint32_t presil_list_launches(const presil_list *list);
PRESIL_CHECKED int presil_list_submit(presil_list *list, presil_stream *stream);
PRESIL_API void presil_list_destroy(presil_list *list);

/* ---- reports -------------------------------------------------------------------------------- */
typedef struct {
    uint32_t size, mode; /* presil_mode; MODEL too where the transport has no clock */
    char label[64];
    uint64_t launch;              /* running number of the device */
    uint64_t macs;                /* nominal: output elements × channels per group × kernel, or M·N·K */
    uint64_t passes;              /* 6 for COMPUTE_FP32, 4 for COMPUTE_FP16 of FP32, else 1 */
    uint64_t peak_macs_per_cycle; /* of the array for this compute type */
    uint64_t cycles;              /* doorbell to idle; 0 in mode MODEL (no clock) */
    uint64_t stalls[PRESIL_ENGINES][PRESIL_CAUSES]; /* cycles; each engine's sum = cycles */
    uint64_t read_bytes, write_bytes, read_beats, write_beats, descriptors;
    int32_t verified; /* VERIFY: 1 equal, 0 differs; -1 not compared (`difference` may say why) */
    uint32_t status;  /* -presil_status */
    uint64_t sim_ns, twin_ns,
        host_ns; /* wall time inside the transport, inside the twin, planning and everything else of this launch */
    uint64_t fill, drain; /* cycles before the matrix engine's first and after its last busy one; summed over the
                             launch's segments */
    char difference[256]; /* first difference: tensor coordinate, tile, descriptor */
    uint64_t origin;      /* of presil_set_origin */
    uint64_t tag;         /* of presil_set_tag, of the thread that enqueued the launch */
    /* With `difference`: the first differing byte, and when the chip wrote it last, in cycles since the doorbell of the
     * segment (of a launch with several); UINT64_MAX: not known, or never. */
    uint64_t difference_address, difference_cycle;
    uint64_t differing_bytes, stray_bytes, missing_bytes; /* wrong; written by the chip alone; by the model alone */
    uint32_t difference_expected, difference_found;       /* that byte, where both wrote it */
    uint32_t difference_segment;
    uint32_t segments;                  /* doorbells of this launch */
    uint64_t counters[PRESIL_COUNTERS]; /* whatever else the chip counts */
    /* Of activations to or from the chip's own layouts before this launch could begin; ns is in host_ns too. */
    uint64_t conversions, conversion_bytes, conversion_ns;
    /* Mode HYBRID. 1: `cycles` is an estimate (presil_store.h), and of what else the chip counts only that is known
     * which estimated_too names. cycles_error: relative; of estimates of known launches 95 of 100 are nearer. */
    uint32_t estimated, estimated_too; /* presil_estimated_flag */
    double cycles_error;
    double stalls_error; /* as a part of the cycles, of the cause that is furthest off: likewise */
} presil_report;
/* BYTES: read_bytes and write_bytes are those of the commands, exact; BEATS: read_beats and write_beats likewise.
 * STALLS: `stalls` are an estimate, too. */
enum presil_estimated_flag { PRESIL_ESTIMATED_BYTES = 1, PRESIL_ESTIMATED_STALLS = 2, PRESIL_ESTIMATED_BEATS = 4 };

typedef void (*presil_report_fn)(void *context,
                                 const presil_report *report); /* after each launch, on the thread that ran it */
typedef void (*presil_progress_fn)(void *context, const char *label, uint64_t launch,
                                   uint64_t cycles); /* about every 50 ms during a launch */
/* NULL: none. When it returns, the one before is not running any more (unless it is called from it). A progress
 * function stays until the launch that has it ends. */
PRESIL_API void presil_set_report(presil_device *device, presil_report_fn fn, void *context);
/* A number that the reports of what the calling thread enqueues from now on carry: whoever opens an operator or a range
 * sets it, and restores what it returns, the one before (0: none), when that ends. Unlike `origin` nobody computes it a
 * launch. */
PRESIL_API uint64_t presil_set_tag(uint64_t tag);
PRESIL_API void presil_set_progress(presil_device *device, presil_progress_fn fn, void *context);

/* What the numbers of a report are called: of stalls[e][c], e is an engine, c a cause; of counters[n], n a counter. */
enum presil_name_flag {
    PRESIL_NAME_WORKS = 1, /* a cause: the engine works */
    PRESIL_NAME_ARRAY = 2  /* an engine: the one that multiplies; what holds it up bounds the launch */
};
typedef struct {
    const char *name;    /* one word: "matrix", "wait_load"; NULL: unused */
    const char *unit;    /* of counters: "bytes"; else NULL: cycles */
    const char *meaning; /* for people; NULL: the name says it */
    const char *bound;   /* of causes: what bounds a launch whose array meets this one most, "load"; NULL: "overhead" */
    uint32_t flags, reserved;
} presil_name;
/* A size of this chip in its own word: "rows", 16. unit, meaning: may be NULL. */
typedef struct {
    const char *name, *unit, *meaning;
    uint64_t value;
} presil_property;
typedef struct {
    /* At most PRESIL_ENGINES, _CAUSES, _COUNTERS, which stay as they are: presil_report's table is in every chip and
     * every listener. presil_device_open() refuses a chip with more (ENODEV); it adds up what works alike. */
    uint32_t size, engine_count, cause_count, counter_count;
    const presil_name *engines, *causes, *counters; /* the chip's; valid as long as the device is open */
    /* What a launch is made of, many of them: "descriptors", "operations"; NULL: how many there were
     * (presil_report.descriptors) means nothing. */
    const char *commands;
    /* What presil_device_info has no member for, or has one in another chip's words. */
    const presil_property *properties;
    uint32_t property_count, reserved;
} presil_names;
/* Also from a report function. */
PRESIL_CHECKED int presil_device_get_names(presil_device *device, presil_names *out);
/* ---- what a launch's commands move and hold, as its plan says ------------------------------- */
/* What the bytes of a row of traffic are. PARTIAL: sums that leave the chip and come back. ALIGNMENT: what the bus
 * carries beyond the bytes that were asked for. OTHER: the chip doesn't tell. */
enum presil_traffic_role {
    PRESIL_TRAFFIC_OTHER = 0,
    PRESIL_TRAFFIC_WEIGHTS = 1,
    PRESIL_TRAFFIC_ACTIVATIONS = 2,
    PRESIL_TRAFFIC_RESIDUAL = 3,
    PRESIL_TRAFFIC_PARAMETERS = 4, /* bias, scales */
    PRESIL_TRAFFIC_RESULTS = 5,
    PRESIL_TRAFFIC_PARTIAL = 6,
    PRESIL_TRAFFIC_COMMANDS = 7,
    PRESIL_TRAFFIC_ALIGNMENT = 8
};
/* The rows of a launch that are not `apart` add up to the read_bytes and write_bytes of its report. */
typedef struct {
    const char *name; /* "input", "weight": the operator's word for an operand, else the chip's */
    uint32_t role;
    uint32_t apart; /* 1: the report's read_bytes don't have it, another counter may */
    uint64_t read_bytes, write_bytes;
    uint64_t again_bytes; /* of read_bytes: bytes of device memory that this launch had read before */
    presil_daddr first;   /* the lowest byte that it reads or writes; 0: it is no operand, or not known */
} presil_traffic;
/* A memory on the chip, during a launch. in_use[n]: bytes that the n-th command finds there and somebody reads from
 * then on, or puts there, in an order in which the commands may begin; when each of them does, is not known. */
typedef struct {
    const char *name;            /* "scratchpad" */
    uint64_t capacity, reserved; /* bytes; reserved: set aside for the launch, 0: not known */
    const uint64_t *in_use;
    uint64_t steps;
} presil_occupancy;
typedef struct {
    uint32_t size, traffic_count, memory_count, reserved;
    const presil_traffic *traffic;
    const presil_occupancy *memories;
    uint64_t read_beats, write_beats; /* those of the launch's report; 0 and 0: not told */
} presil_usage;
/* Before each launch, on the thread that runs it: what it points to is there during the call. launch: as in its report.
 * Not called where the chip doesn't tell. It takes the host longer than planning the launch. */
typedef void (*presil_usage_fn)(void *context, uint64_t launch, const presil_usage *usage);
PRESIL_API void presil_set_usage(presil_device *device, presil_usage_fn fn, void *context); /* as presil_set_report */

PRESIL_API void presil_set_log(void (*log)(void *context, const char *text),
                               void *context); /* process-wide; default: stderr on warnings */

/* Test only: passed to the transport's inject(); EUNSUPPORTED where not built in. */
PRESIL_CHECKED int presil_inject(presil_device *device, const char *fault);

#ifdef __cplusplus
}
#endif
#endif
