/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_transport.h - the seam between the driver and whatever carries it to a chip: a Verilated model in a shared
 * object, a socket, a board.
 *
 * A transport library exports `const presil_transport_ops *presil_transport_entry(void)`. Everything here is C; no
 * exception, no allocator and no C++ type crosses. One thread at a time calls into a transport. Addresses of the device
 * are presil_daddr; host memory is void *. Every function returns 0 or a negative presil_transport_error; on failure
 * outputs are untouched and last_error() gives the text.
 *
 * Behaviour
 * - Threads: open() to close() from any thread, one at a time; the thread may change between calls. A transport takes
 *   no signals and installs no handlers. Of the driver it calls back log() and progress(), from inside a call.
 * - Devices: each open() is one, with a chip, a memory and a clock of its own; several of one library may be open, in
 *   one process or in several, and a call of one changes not a byte and not a cycle of another's.
 * - Blocking: wait() until one of its reasons, and it looks at *cancel every 10 ms. Everything else returns when it has
 *   happened, or within a time of its own (an option) with EIO. Only open(), reset(), trace() and the write log
 * allocate.
 * - Order: write32() comes to the chip after every earlier write32(), and after every byte that was written before it
 *   by mem_write(), or by a store to a region that sync_for_device() was told of: a transport does the barrier, and the
 *   read-back where a path holds writes back. write32() may be posted: it has arrived when a later read32() or wait()
 *   returns. Between write32() and the interrupt nobody but the chip touches what its commands name.
 *   map() has happened when it returns, so before any write32() behind it; unmap() likewise, and no access of the chip
 *   that it would have to reach is under way.
 * - After the interrupt, or a read32() that says that the chip is done, sync_for_host() makes its writes visible.
 * - A link that is gone reads as 0xffffffff: such a transport fails with EIO until reset(), which says
 *   PRESIL_TRANSPORT_MEMORY_LOST where the device's memory may not be what it was.
 */
#ifndef PRESIL_TRANSPORT_H
#define PRESIL_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRESIL_TRANSPORT_ABI 2u

typedef struct presil_transport presil_transport;

/* A byte address on the device's DRAM bus. A struct, so that it can't be mixed up with a host pointer or a size. */
typedef struct {
    uint64_t value;
} presil_daddr;

enum presil_transport_error {
    PRESIL_TRANSPORT_EINVAL = -1, /* bad argument; nothing was done */
    PRESIL_TRANSPORT_ENOMEM = -2,
    PRESIL_TRANSPORT_EIO = -3,    /* the peer or file failed; the transport is unusable until reset or reopened */
    PRESIL_TRANSPORT_ENOSYS = -4, /* capability not there */
    PRESIL_TRANSPORT_EBUS = -5,   /* register access answered with an error, or an address outside every region */
    PRESIL_TRANSPORT_ESTOPPED =
        -6, /* $fatal, $stop, $finish or an assertion inside the model: reset() starts a new one */
};

enum presil_transport_capability {
    PRESIL_CAP_CLOCKED = 1u << 0,   /* cycles mean something */
    PRESIL_CAP_TRACE = 1u << 1,     /* trace() works in this library */
    PRESIL_CAP_WRITE_LOG = 1u << 2, /* write_log() works */
    PRESIL_CAP_MAPS = 1u << 3,      /* regions have host pointers */
    PRESIL_CAP_COHERENT = 1u
        << 4, /* chip and host see one memory at all times: sync_for_device and sync_for_host have nothing to do */
    PRESIL_CAP_WRITE_TIMES = 1u << 5, /* write_times() works */
    /* Regions are the transport's own memory, at any device address; memory_fd of open() is not looked at. Their host
     * pointers, where there are any, differ from their device addresses by one constant. */
    PRESIL_CAP_OWN_MEMORY = 1u << 6,
    PRESIL_CAP_POLLED = 1u << 7, /* no interrupt: wait() only lets time pass, whoever waits asks the chip */
    /* The chip reaches only what map() was told (an IOMMU): map() and unmap() are there. */
    PRESIL_CAP_MAP_BLOCKS = 1u << 8,
};

/* What reset() returns instead of 0 where it worked, but the device's memory was in a peer that is no more. */
#define PRESIL_TRANSPORT_MEMORY_LOST 1

/* in: open. size = sizeof(struct); unknown tail is ignored, missing tail is zero. */
typedef struct {
    uint32_t size;
    uint32_t abi;  /* PRESIL_TRANSPORT_ABI */
    int memory_fd; /* memfd with the device DRAM, or -1: the transport brings its own memory. Stays the caller's. */
    uint32_t reserved0;
    uint64_t memory_bytes;    /* multiple of 4096 */
    presil_daddr memory_base; /* device address of the first byte, multiple of 4096 */
    const char *memory_model; /* "default", "ideal", or "latency=100,bytes=64,stall=0.05,..." (docs/simulation.md);
                                 NULL: default */
    uint64_t seed;            /* of everything random in the harness */
    const char *options;      /* "key=value,..." for this transport alone; NULL: none */
    void (*log)(void *context, const char *text); /* may be NULL */
    void *log_context;
} presil_transport_options;

/* size: in, sizeof(struct) of the caller; out, of what was filled in. A transport fills in no more than both sides have
 * (presil_transport_tell). */
typedef struct {
    uint32_t size, abi, capabilities, clock_mhz;
    char chip[32];    /* names the chip vtable: "presil" for the chip in rtl/ */
    char config[32];  /* "base", ...; "": not said, and the chip's default (presil_chip.h) */
    char build[32];   /* "fast", "check", ... */
    char text[128];   /* for people: simulator and its version, CPU extensions it was built for */
    char rtl[72];     /* SHA-256 of the chip's sources and parameters, in hexadecimal digits; "": not known */
    char library[72]; /* of the simulator's file, whatever its linker took (GNU build-id); "": not known */
} presil_transport_info;

typedef struct {
    presil_daddr base;
    uint64_t bytes;
    void *host; /* NULL: not mapped, use mem_read/mem_write */
} presil_region;

enum presil_wait_reason {
    PRESIL_WAIT_IRQ = 0,       /* the interrupt is high */
    PRESIL_WAIT_DEADLINE = 1,  /* the deadline passed */
    PRESIL_WAIT_CANCELLED = 2, /* *cancel became non-zero (looked at every 10 ms of wall time or more often) */
    PRESIL_WAIT_HUNG = 3, /* no handshake on the chip's memory bus for hang_cycles. The chip may be computing: whoever
                             waits asks its registers, and waits again */
};

typedef struct {
    uint32_t size;
    uint32_t reason;            /* out: presil_wait_reason */
    uint64_t deadline_cycles;   /* in: at most so many more cycles; 0: none */
    uint64_t deadline_ns;       /* in: at most so much wall time; 0: none */
    uint64_t hang_cycles;       /* in: watchdog; 0: off */
    const volatile int *cancel; /* in: may be NULL */
    void (*progress)(void *context,
                     uint64_t cycles); /* in: called about every 50 ms of wall time, from this thread; may be NULL */
    void *progress_context;
    uint64_t cycles; /* out: cycles simulated by this call */
} presil_wait;

/* A DRAM byte range that the chip wrote (strobed bytes only), since the log was switched on or last fetched; sorted,
 * disjoint. */
typedef struct {
    presil_daddr base;
    uint64_t bytes;
} presil_write_range;

/*
 * When the chip wrote a byte of those that write_log_fetch() gives: the first time and the last. A cycle is counted
 * from the first wait() behind its launch(), so from when the doorbell was answered. launch: 0 for the first launch()
 * whose writes the log has, 1 for the next, ...
 */
typedef struct {
    uint32_t size; /* in: sizeof(struct) */
    uint32_t first_launch, last_launch;
    uint32_t reserved0;
    uint64_t first_cycle, last_cycle;
} presil_write_time;

/* The first bus fault since launch(): an access outside the mapped regions. */
typedef struct {
    uint32_t valid, is_write;
    presil_daddr address;
    uint64_t cycle;
} presil_bus_fault;

/* The oldest transaction of the chip's bus that has not ended. */
typedef struct {
    uint32_t valid, is_write, id;
    uint32_t on_chip;     /* 1: the memory waits for the chip (to take what it offers, or to send data); 0: it works */
    presil_daddr address; /* of the next beat; of a write whose data are there: 0, if the memory doesn't keep it */
    uint32_t bytes;       /* that have not moved yet; of a write whose response is to come: 0 */
    uint32_t reserved0;
    uint64_t since; /* cycles since it was asked for; of a write whose data are there: since the last of them */
    uint64_t due;   /* cycles until the memory does its part: 0: now; UINT64_MAX: never */
} presil_bus_open;

/* One register access of wait_then. */
typedef struct {
    uint32_t offset, is_write;
    uint32_t value; /* in: of a write; out: of a read */
    uint32_t reserved0;
} presil_register_access;

/*
 * A table may be shorter than this one (`size`), down to and with reset(): what is behind its end is NULL.
 * Required: open, close, info, last_error, read32, write32, region, wait, reset. The rest may be NULL, and what then
 * holds is said at each. Whoever uses a table checks it once, with presil_transport_missing(), and again with what
 * info() says.
 */
typedef struct {
    uint32_t size, abi; /* sizeof, PRESIL_TRANSPORT_ABI: checked by the driver before anything else is called */
    int (*open)(const presil_transport_options *options, presil_transport **out, char *error, size_t error_bytes);
    void (*close)(presil_transport *t); /* frees all; NULL is allowed */
    int (*info)(presil_transport *t, presil_transport_info *out);
    const char *(*last_error)(presil_transport *t); /* valid until the next call */
    int (*read32)(presil_transport *t, uint32_t offset, uint32_t *value);
    int (*write32)(presil_transport *t, uint32_t offset, uint32_t value);
    int (*region)(presil_transport *t, uint32_t index, presil_region *out); /* EINVAL past the last */
    /* Both NULL: every region has a host pointer. */
    int (*mem_read)(presil_transport *t, presil_daddr from, void *to, uint64_t bytes);
    int (*mem_write)(presil_transport *t, presil_daddr to, const void *from, uint64_t bytes);
    /* NULL: there is nothing to do. */
    int (*sync_for_device)(presil_transport *t, presil_daddr base, uint64_t bytes);
    int (*sync_for_host)(presil_transport *t, presil_daddr base, uint64_t bytes);
    /* Before a doorbell, with nothing in flight: puts the memory model, its random state and every arbiter of the
     * harness in a state that depends on (seed, launch) alone. NULL: there is no harness, timing is what it is. */
    int (*launch)(presil_transport *t, uint64_t launch);
    int (*wait)(presil_transport *t, presil_wait *w);
    /* Clock cycles since open. NULL: not with PRESIL_CAP_CLOCKED; events have no cycles. */
    int (*cycles)(presil_transport *t, uint64_t *cycles);
    int (*reset)(presil_transport *
                     t); /* reset pin; a stopped model is made anew. DRAM is kept; else PRESIL_TRANSPORT_MEMORY_LOST. */
    /* FST of a window counted from now; path NULL: off. NULL: not with PRESIL_CAP_TRACE. */
    int (*trace)(presil_transport *t, const char *path, uint64_t first_cycle, uint64_t last_cycle);
    /* NULL: not with PRESIL_CAP_WRITE_LOG; mode VERIFY then sees no stray writes. Ranges are valid until the next call.
     */
    int (*write_log)(presil_transport *t, int on);
    int (*write_log_fetch)(presil_transport *t, const presil_write_range **ranges, size_t *count);
    int (*bus_fault)(presil_transport *t, presil_bus_fault *out); /* NULL: it is not known */
    /* Between launches. NULL: presil_device_set_memory_model() is refused, open() still gets a model to refuse. */
    int (*set_memory_model)(presil_transport *t, const char *memory_model, uint64_t seed);
    /* Fault injection for tests: "slverr@ADDR", "decerr@ADDR", "fatal@CYCLE", "stop@CYCLE", "slow=NS_PER_CYCLE"; NULL:
     * none. ENOSYS where not built in, as if the function were NULL. */
    int (*inject)(presil_transport *t, const char *fault);
    /* read32 of `count` offsets in order, as one exchange with a peer for whom each costs a journey. NULL: there is no
     * gain, use read32. */
    int (*read32_many)(presil_transport *t, const uint32_t *offsets, size_t count, uint32_t *values);
    /* wait(), and if its reason is IRQ these register accesses in order (else none of them), as one exchange with a
     * peer. A failed access fails the call. NULL: there is no gain, use wait, read32 and write32. */
    int (*wait_then)(presil_transport *t, presil_wait *w, presil_register_access *then, size_t count);
    /* For a byte of the log, also after it was fetched, up to the next launch(): fills in *out. EINVAL: the log has not
     * got the byte, or not its time (a log of very many writes). NULL: not with PRESIL_CAP_WRITE_TIMES. */
    int (*write_times)(presil_transport *t, presil_daddr address, presil_write_time *out);
    /* Between waits. NULL: it is not known. */
    int (*bus_open)(presil_transport *t, presil_bus_open *out);
    /* A block of device memory becomes reachable for the chip, at the I/O address that is its device address: the
     * driver chooses it, as VFIO_IOMMU_MAP_DMA and IOMMU_IOAS_MAP have it. Multiples of 4096, in one region, nothing of
     * it mapped yet. The driver maps commands before reset of the chip, and before a launch the blocks that it touches
     * (blocks that are mapped stay so); it unmaps them, with the same base and bytes, between launches, before their
     * pages are given back to the system. The host's accesses, mem_read() and mem_write() need no mapping. close()
     * unmaps all; so does a reset() that says PRESIL_TRANSPORT_MEMORY_LOST, and no other. NULL: not with
     * PRESIL_CAP_MAP_BLOCKS; the chip reaches all of every region at all times. */
    int (*map)(presil_transport *t, presil_daddr base, uint64_t bytes);
    int (*unmap)(presil_transport *t, presil_daddr base, uint64_t bytes);
    /* All that the cycles of a launch are a function of, beside its commands, its addresses' offsets in a page of 4 KiB
     * and the number that launch() was given: what the chip was made of, how it is simulated, the memory model and its
     * seed, as one line of text with its end in `bytes` bytes. Equal texts promise equal cycles, on any machine.
     * With PRESIL_TIMING_ADDRESSES in it, of commands with whole addresses; else of offsets in pages of 4 KiB.
     * ENOSYS: they are not such a function now (a fault is injected). NULL: they never are. EINVAL: the text is longer.
     */
    int (*timing)(presil_transport *t, char *text, size_t bytes);
} presil_transport_ops;
enum { PRESIL_TRANSPORT_TIMING = 1024 }; /* room that is enough for it */
#define PRESIL_TIMING_ADDRESSES "addresses=whole"

/* What info() does with its own, filled in: as much of it as the caller has room for. Callers of older releases have
 * the struct up to `text`. */
static inline void presil_transport_tell(const presil_transport_info *own, presil_transport_info *out) {
    const size_t older = offsetof(presil_transport_info, rtl);
    const size_t bytes = out->size >= sizeof *own ? sizeof *own : older;
    memcpy(out, own, bytes);
    out->size = (uint32_t)bytes;
}

/* The name of the first required function that a table lacks, and of those that capabilities promise; NULL: it has all.
 * capabilities: of info(), 0 before it is known. ops: of sizeof(presil_transport_ops) bytes. */
static inline const char *presil_transport_missing(const presil_transport_ops *ops, uint32_t capabilities) {
    if (!ops->open) return "open";
    if (!ops->close) return "close";
    if (!ops->info) return "info";
    if (!ops->last_error) return "last_error";
    if (!ops->read32) return "read32";
    if (!ops->write32) return "write32";
    if (!ops->region) return "region";
    if (!ops->wait) return "wait";
    if (!ops->reset) return "reset";
    if (!ops->mem_read != !ops->mem_write) return ops->mem_read ? "mem_write" : "mem_read";
    if (!ops->write_log != !ops->write_log_fetch) return ops->write_log ? "write_log_fetch" : "write_log";
    if (capabilities & PRESIL_CAP_CLOCKED && !ops->cycles) return "cycles";
    if (capabilities & PRESIL_CAP_TRACE && !ops->trace) return "trace";
    if (capabilities & PRESIL_CAP_WRITE_LOG && !ops->write_log) return "write_log";
    if (capabilities & PRESIL_CAP_WRITE_TIMES && !ops->write_times) return "write_times";
    if (capabilities & PRESIL_CAP_MAP_BLOCKS && !ops->map) return "map";
    if (capabilities & PRESIL_CAP_MAP_BLOCKS && !ops->unmap) return "unmap";
    return 0;
}

/* The one symbol of a transport library. */
typedef const presil_transport_ops *(*presil_transport_entry_fn)(void);
const presil_transport_ops *presil_transport_entry(void);

#ifdef __cplusplus
}
#endif
#endif
