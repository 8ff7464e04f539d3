/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_chip.h - the seam between the driver's core and the knowledge of one chip: how operators become commands, how
 * they are submitted, what its registers and counters mean. The core (memory, streams, reports, verify, capture) uses
 * nothing else. The chip of rtl/ is driver/chip/, libpresil_chip_presil.so; it is loaded like anybody's. A chip with a
 * programming model of its own implements this table over the transport: registers, memory, interrupt.
 *
 * One launch, seen from the chip: plan(op) on the caller's thread -> plan_info() says what it reads and writes ->
 * submit() writes the commands and rings the doorbell -> the core waits for the interrupt -> service() says BUSY,
 * PROGRESS, DONE or ERROR -> counters() adds up the report -> plan_free().
 *
 * With limits.queue_depth >= 2 submit() and the rest are apart: the core calls submit() again, of further segments and
 * launches, while up to queue_depth of them are not over.
 * - They are over in the order of submit(), and each works as if it began when the one before is over: until then it
 *   writes nothing, and reads nothing that those before it may write (their scratch memory is the same, too).
 * - service(), progress(), why(), waits() are about the oldest. Once service() has said DONE, counters() is about that
 *   one, and the next service() about the next; the core asks before it waits: one interrupt may be for several.
 * - Behind ERROR, or one that hangs, nothing begins. The core resets the chip, and submits again those behind it. After
 *   a cancel, or when the transport fails, all of them fail. submit() that fails has begun nothing.
 * - counters() of a chip that can't tell launches apart leaves the report as it is (0: not known).
 * In mode RTL alone; where the chip's memory is mapped and coherent; not while somebody listens (capture, waveforms) or
 * activations are packed: then, and for a transport with a clock unless presil_device_options.queue_depth asks for
 * more, one is in flight (cycles of launches that overlap depend on when the host submits them).
 *
 * Rules
 * - Functions return a presil_status (presil.h) and, on failure, leave a text in `error`: what was expected, what was
 *   found, what to do.
 * - One thread at a time calls functions that take `presil_chip *` or a link; those that take `const presil_chip *`,
 *   and those of plans and layouts, may run on any thread and only read the chip.
 * - Nothing here may end the process, start threads that outlive a call, throw, or call what libpresil exports.
 * - State is in the presil_chip and in plans, not in static variables, files or memory of a fixed name: devices of one
 *   process and of several share nothing.
 * - Signals: a chip installs no handler and blocks none. A cancel (Ctrl-C) is a flag that the core looks at while it
 *   waits, not during a call. In a forked child only plan_free(), layout_free() and describe() are called.
 * - Blocking: the core waits for the chip, between submit() and service(). Nothing here sleeps or waits for it but
 *   reset(), for a bounded time, by link->ops->wait() with a deadline. An access of registers or memory takes what the
 *   transport takes. No watchdog looks at a call: one that doesn't return hangs whoever waits for the device. A lock of
 *   the chip's own is held for moments, never across link->ops.
 * - Time: supports(), activation(), plan(), plan_info(), submit(), completion(), service(), counters() and plan_free()
 *   are on the way of every operator: microseconds. pack(), the conversions of activations and execute() take what
 *   their bytes and products take. The rest is rare.
 * - Memory: any of them may allocate; without room it says PRESIL_EHOSTMEM, and nothing is left behind. What it hands
 *   out (chip, plan, layout) lives until destroy(), plan_free(), layout_free(): on any thread, and they can't fail.
 * - The ABI grows at the ends. A table that ends early (`size`) has no function behind its end. Structs begin with
 *   their size: whoever is given one reads nothing behind it; the core sets it in structs that the chip fills, and a
 *   chip fills them with presil_give(), so that an older core is never written past its end.
 */
#ifndef PRESIL_CHIP_H
#define PRESIL_CHIP_H

#include <stdbool.h>
#include <stdlib.h>
#include "presil_op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PRESIL_CHIP_ABI 3u

typedef struct presil_chip presil_chip; /* one instance: configuration and state */
typedef struct presil_plan presil_plan; /* an opaque command list with what it reads and writes */

typedef struct {
    char *text;
    size_t bytes;
} presil_error_buffer;

/* Copies a struct of `bytes` bytes to one whose first member is the room it has, as far as that goes; the room stays.
 * Both begin with `uint32_t size`. */
static inline void presil_give(void *out, const void *own, size_t bytes) {
    uint32_t room;
    memcpy(&room, out, sizeof room);
    memcpy(out, own, bytes < room ? bytes : room);
    memcpy(out, &room, sizeof room);
}

/* A transport and how to call it. */
typedef struct {
    uint32_t size, reserved;
    const presil_transport_ops *ops;
    presil_transport *handle;
    /* In service() and counters(): the accesses that completion() asked for, made behind the interrupt; else 0. */
    const presil_register_access *done;
    size_t done_count;
} presil_link;

enum { PRESIL_COMPLETION_MOST = 256 };

/* Command memory that the core gives to the chip: ring_bytes of DRAM, 4 KiB-aligned. host: where it is mapped, or NULL
 * (then write it with mem_write). In submit() also where the plan's scratch memory lies (presil_plan_info); 0: the plan
 * wants none. */
typedef struct {
    uint32_t size, reserved;
    presil_daddr base;
    uint64_t bytes;
    void *host;
    presil_daddr scratch;
    uint64_t scratch_bytes;
} presil_command_memory;

/* What a result equals, whatever the order in which the chip computes it: that of another implementation bit for bit
 * (INTEGER: of exact integer arithmetic; IEEE: with the order of additions that the chip documents), or within
 * `tolerance` of it. */
enum presil_numerics { PRESIL_NUMERICS_INTEGER = 0, PRESIL_NUMERICS_IEEE = 1, PRESIL_NUMERICS_TOLERANCE = 2 };

typedef struct {
    uint32_t size;
    uint32_t address_bits;     /* of the bus master; device memory is put where they reach */
    uint32_t buffer_alignment; /* bytes, of buffers that the core allocates: power of two, <= 4096 */
    uint32_t has_interrupt;    /* 0: the core polls service(), at intervals that grow */
    uint64_t command_bytes;    /* command memory wanted; 0: none */
    uint32_t has_executor;     /* execute() works: mode MODEL, and what VERIFY compares with */
    /* 1: a launch may be over when submit() returns, and no interrupt will tell: the core calls service() once before
     * it waits. 0: every launch, an empty one too, ends with an interrupt (or is polled). */
    uint32_t asks_first;
    uint32_t numerics;          /* enum presil_numerics, of floating-point results; integer ones are exact */
    uint32_t timing_needs_data; /* 1: cycles depend on the values of tensors, not on shapes and addresses alone */
    double tolerance;           /* TOLERANCE: largest difference, relative to the largest magnitude of the result */
    uint64_t kinds;       /* bit n: it has operators of presil_op_kind n; it is asked about no others. 0: about all */
    uint32_t queue_depth; /* so many times submit() is called before the first of them is over; 0: once */
    /* 1: inputs of ELEMENTWISE may be its output (presil_op_in_place()), as if all were read before any is written. So
     * whoever reads ahead reads what it has not written yet, and no element is computed twice: neither where tiles meet
     * nor by two segments. 0: the core refuses such operators, and the host computes them. */
    uint32_t in_place;
    /* With queue_depth >= 2: commands (presil_plan_info.descriptors) of all launches that are not over, at most; one
     * alone may have more. 0: any number. */
    uint32_t queue_commands;
    /* Bytes at the end of command_bytes that the chip itself writes: status, no launch's result. */
    uint32_t command_written;
} presil_chip_limits;

typedef struct {
    presil_daddr base;
    uint64_t bytes;
} presil_byte_range;

static inline int presil_range_order(const void *a, const void *b) {
    const uint64_t x = ((const presil_byte_range *)a)->base.value, y = ((const presil_byte_range *)b)->base.value;
    return (x > y) - (x < y);
}
/* Sorts ranges and joins those that touch, in place; returns how many are left. */
static inline size_t presil_merge_ranges(presil_byte_range *list, size_t count) {
    size_t kept = 0;
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++) sorted = list[i - 1].base.value <= list[i].base.value;
    if (!sorted) qsort(list, count, sizeof *list, presil_range_order);
    for (size_t i = 0; i < count; i++) {
        presil_byte_range *last = kept ? &list[kept - 1] : NULL;
        const uint64_t end = list[i].base.value + list[i].bytes;
        if (!last || list[i].base.value > last->base.value + last->bytes)
            list[kept++] = list[i];
        else if (end > last->base.value + last->bytes)
            last->bytes = end - last->base.value;
    }
    return kept;
}

/* Where a byte will lie; in none of the moves: where it is. */
static inline presil_daddr presil_moved(const presil_move *moves, uint32_t count, presil_daddr at) {
    for (uint32_t i = 0; i < count; i++) {
        if (at.value - moves[i].from.value < moves[i].bytes)
            return (presil_daddr){at.value + (moves[i].to.value - moves[i].from.value)};
    }
    return at;
}

/* Rows of `bytes` bytes at equal distances, upwards, the first at `base`: in dimension i count[i] of them, stride[i]
 * bytes apart. */
enum { PRESIL_BOX_DIMS = 8 };
typedef struct {
    presil_daddr base;
    uint64_t bytes;
    uint32_t dims, reserved; /* 0: one row */
    uint64_t count[PRESIL_BOX_DIMS], stride[PRESIL_BOX_DIMS];
} presil_box;

typedef struct {
    uint32_t size, reserved;
    const char *label;
    uint64_t macs, passes, peak_macs_per_cycle, descriptors;
    uint64_t signature; /* hash of the commands with addresses reduced to what timing can depend on (offset in the
                           page): seed of the launch */
    uint64_t estimate;  /* cycles that the launches should take in all, about; 0: not known */
    uint32_t segments;  /* launches needed; 1 unless the commands exceed the command memory */
    /* Sorted, merged; owned by the plan. What may be written in part, or not at all, is in `reads` too. */
    const presil_byte_range *reads, *writes;
    uint32_t read_count, write_count;
    /* What it writes beside `writes`, where that would be many ranges: a slice of channels is one for every pixel. They
     * are walked only where it is asked byte by byte what a launch may write. */
    const presil_box *write_boxes;
    uint32_t write_box_count, reserved1;
    /* Device memory that the launch needs only while it runs, and its alignment: 0, or a power of two up to 2^30 (at
     * least 4096 is given). The core has it: submit() and execute() are told where, and it may lie elsewhere each time,
     * at the same offset in a page. All segments of a launch have the same; the next launch has it too, so what is in
     * it before is anything. It stands in neither `reads` nor `writes`, and what is left in it is compared with
     * nothing. */
    uint64_t scratch_bytes, scratch_alignment;
} presil_plan_info;

/* PROGRESS: part of the work is done (a layer, a tile), the launch is not: the watchdog starts anew. BUSY: nothing
 * happened, or it is not known; a thousand interrupts in a row that mean nothing end the launch with EHUNG. */
enum presil_service_result {
    PRESIL_SERVICE_BUSY = 0,
    PRESIL_SERVICE_DONE = 1,
    PRESIL_SERVICE_ERROR = 2,
    PRESIL_SERVICE_PROGRESS = 3
};

typedef struct {
    uint32_t size;
    int result;     /* presil_service_result */
    int status;     /* ERROR: presil_status (EBUS, EDESC) */
    char text[256]; /* ERROR: code, descriptor and its label, address, in words */
} presil_service;

/* A window of DRAM for the executor; writes are reported in order. */
typedef struct {
    uint32_t size, reserved;
    presil_daddr base;
    uint64_t bytes;
    uint8_t *host;
    void (*on_write)(void *context, presil_daddr address, uint64_t bytes); /* may be NULL */
    void *context;
    uint32_t threads, reserved1;
    presil_daddr scratch; /* as in presil_command_memory; need not be reported */
    uint64_t scratch_bytes;
} presil_executor_memory;

/* Takes a piece of what a plan's cycles depend on: any thread, microseconds; it keeps no pointer. */
typedef void (*presil_timing_add)(void *context, const void *bytes, size_t count);

/* What a plan's cycles are made of, for estimates of launches that no simulator has run (docs/hybrid.md): launches of
 * one `kind` differ in amounts alone. cycles: what the chip expects, of a model of its own; how far off that is, is
 * learnt from launches that were simulated. amounts: of anything that may decide how far (commands, beats, rows),
 * always the same ones in the same order. stalls: what the chip expects the cycles of its engines to be spent on, about
 * (presil_report.stalls); 0 everywhere: it doesn't say. Such an estimate has the stalls of those most like it. */
enum { PRESIL_WORK_AMOUNTS = 8 };
typedef struct {
    uint32_t size, count; /* of amounts */
    uint64_t kind, cycles;
    uint64_t amounts[PRESIL_WORK_AMOUNTS];
    uint64_t stalls[PRESIL_ENGINES][PRESIL_CAUSES];
} presil_work;
/* Takes what a plan's commands move and hold; keeps no pointer. */
typedef void (*presil_usage_tell)(void *context, const presil_usage *usage);

/* May be NULL: layout, pack, layout_free (together), supports, describe, why, counters, and everything from execute on.
 */
typedef struct {
    uint32_t size, abi;
    const char *name; /* as presil_transport_info.chip */
    /* From a configuration name alone, without hardware. "": nobody named one; a chip that has a default takes it, and
     * info() says which it is; the others refuse it as they do any name that is not theirs. */
    int (*create)(const char *config, presil_chip **out, presil_error_buffer *error);
    void (*destroy)(presil_chip *chip);
    int (*limits)(const presil_chip *chip, presil_chip_limits *out);
    /* Fills in what means something to the chip: array and memory sizes, clock, hash. The rest it leaves alone: absent
     * (presil_info_known). */
    int (*info)(const presil_chip *chip, presil_device_info *out);
    /* Reads identification and capabilities; refuses (ENODEV) a chip that is not what create() was told, saying what
     * differs. */
    int (*probe)(presil_chip *chip, const presil_link *link, presil_error_buffer *error);
    int (*reset)(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                 presil_error_buffer *error); /* after it the chip is idle and ready for submit */

    /* Packed weights: how many bytes, and the bytes. The core keeps them in device memory and hands them to plan() as
     * the operand "weight" with this layout. EUNSUPPORTED: the chip takes kernels as they lie. */
    int (*layout)(const presil_chip *chip, const presil_weights_desc *desc, presil_layout **out, uint64_t *bytes,
                  presil_error_buffer *error);
    int (*pack)(const presil_chip *chip, const presil_layout *layout, const presil_weights_desc *desc, void *to,
                presil_error_buffer *error); /* writes `bytes` */
    void (*layout_free)(presil_layout *layout);

    /* Whether plan() would take the operator, wherever its operands lie (their `data` means nothing); the text is told
     * to the user. EUNSUPPORTED for everything that this chip, or this version of it, does not know: a kind, a dtype,
     * an attribute, a step. NULL: the core asks plan() and throws the plan away. */
    int (*supports)(const presil_chip *chip, const presil_op *op, presil_error_buffer *error);
    /* The commands for it. Everything in `op` has been checked to lie in device memory (packed operands excepted: they
     * are the core's own) and is read during the call alone. NOP and COPY are asked of every chip: COPY of bytes (INT8,
     * one dimension) is the path PRESIL_COPY_DMA, EUNSUPPORTED where the chip has none. */
    int (*plan)(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error);
    int (*plan_info)(const presil_plan *plan, presil_plan_info *out); /* twice a launch: cheap */
    /* "output [n, y, x, c], tile 3, descriptor 17 (STORE)" for a DRAM address that the plan writes. */
    int (*describe)(const presil_plan *plan, presil_daddr address, char *text, size_t bytes);
    void (*plan_free)(presil_plan *plan);

    int (*submit)(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                  const presil_plan *plan, uint32_t segment, presil_error_buffer *error); /* up to the doorbell */
    int (*service)(presil_chip *chip, const presil_link *link, const presil_plan *plan,
                   presil_service *out); /* after an interrupt, or polled; acknowledges it */
    int (*why)(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text,
               size_t bytes); /* what every engine waits for */
    /* ADDS those of the last launch: cycles, stalls, bytes, beats, descriptors. NULL: a chip that counts nothing; the
     * report has the cycles for which the core waited, 0 where the transport has no clock. */
    int (*counters)(presil_chip *chip, const presil_link *link, presil_report *out);
    int (*execute)(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                   presil_error_buffer *error); /* limits.has_executor */
    /* One plan that does what `plans` do one after the other, as one launch. NULL if the chip can't. Plans that were
     * merged already are refused. */
    int (*merge)(const presil_chip *chip, const presil_plan *const *plans, uint32_t count, const char *label,
                 presil_plan **out, presil_error_buffer *error);
    /* As presil_list_save and presil_list_load, for one plan; NULL if the chip has no such format. What is loaded has
     * been checked to stay inside [base, base + bytes). */
    int (*save)(const presil_plan *plan, presil_daddr base, void *to, uint64_t *size, presil_error_buffer *error);
    int (*load)(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                presil_plan **out, presil_error_buffer *error);
    /* For the watchdog, during a launch: a number that has changed whenever an engine did something since the last
     * call. NULL: a chip whose bus is silent for long hangs. */
    int (*progress)(presil_chip *chip, const presil_link *link, uint64_t *work);
    /* The register accesses with which service() and counters() begin after every interrupt, in this order, at most
     * PRESIL_COMPLETION_MOST of them; returns how many. They are harmless whatever the interrupt means. A transport to
     * which each journey costs makes them in the same one as the wait, and both then look at link->done. NULL: none. */
    size_t (*completion)(const presil_chip *chip, presil_register_access *out);
    /* What why() says, for programs, in a launch that doesn't move: at most `most` rows (one for each engine, and for
     * whoever serves them); *count: how many there are; *verdict: enum presil_hang_verdict. `by` of a row is the number
     * of another. NULL: there is only the text. */
    int (*waits)(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_waiting *rows,
                 uint32_t most, uint32_t *count, int *verdict);
    /* For debuggers (presil_debug.h), all of them or none.
     * How many commands a plan has; what the n-th of them is called ("LOAD, tile 3"). */
    int (*commands)(const presil_plan *plan, uint64_t *count);
    int (*command_name)(const presil_plan *plan, uint64_t n, char *text, size_t bytes);
    /* Bytes that prefix() carries to `to`. */
    int (*observed)(const presil_chip *chip, uint64_t *bytes);
    /* The first n commands as a plan; n = all, to NULL: as they are. With `to`: first what is undefined in the chip's
     * own memories is given a value, and at the end their contents are written to memory there; describe() then names
     * those bytes ("scratchpad word 7, byte 3"). EINVAL: these n can't stand alone. */
    int (*prefix)(const presil_chip *chip, const presil_plan *plan, uint64_t n, const presil_daddr *to,
                  presil_plan **out, presil_error_buffer *error);
    /* Those commands whose byte of `keep` is not 0, in their order, as a plan, but for those that make no sense without
     * one that is left out: their bytes become 0. EINVAL: no command is left. */
    int (*subset)(const presil_chip *chip, const presil_plan *plan, uint8_t *keep, presil_plan **out,
                  presil_error_buffer *error);
    /* What its reports call engines, causes and counters; at any time after create(), and no more of them than
     * presil_names says: such a chip is not opened. NULL: reports have totals alone. */
    int (*names)(const presil_chip *chip, presil_names *out);
    /* As load, of commands that the chip refuses, or that never end: to see it do so again. They stay inside
     * [base, base + bytes) all the same, and whoever executes them without a clock ends in a bounded time. NULL, or
     * behind the end of the table: only what is right is loaded. */
    int (*load_refused)(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                        presil_plan **out, presil_error_buffer *error);
    /* Activations in layouts of the chip's own: all three or none; any thread.
     * In which layout, of how many bytes, the chip wants this operand of `op` (all of them strided here); EUNSUPPORTED:
     * as it lies. *out is the chip's for as long as that lives, and what tells layouts apart: tensors of one dtype and
     * shape that are packed in the same one are the same bytes. plan() is given the operand with this `layout`, `data`
     * being where the core has its bytes (4 KiB-aligned), and `shape` what they stand for; each operand for itself: a
     * plan that is asked for with some operands packed and others not may be refused (EUNSUPPORTED), and is then asked
     * for with all of them as they lie. Of recorded lists it is the other way round: packed only what is refused as it
     * lies, converted before each launch; such a list is neither merged nor stored. What a launch writes of a
     * packed output is all that readers of that layout look at, or stands in `reads` too. */
    int (*activation)(const presil_chip *chip, const presil_op *op, const presil_operand *operand,
                      const presil_layout **out, uint64_t *bytes);
    /* Between `strided`, the host's address of element [0, 0, ...] of the operand (whose strides are those in memory,
     * and whose `layout` is given), and all `bytes` of `packed`. unpack writes the elements, and nothing between them.
     * The core calls them where a launch or the host needs the other form, while the chip stands still. */
    int (*pack_activation)(const presil_chip *chip, const presil_operand *operand, const void *strided, void *packed);
    int (*unpack_activation)(const presil_chip *chip, const presil_operand *operand, const void *packed, void *strided);
    /* The declaration that cycles and counters do not depend on the values of tensors: calls add() with all of a plan
     * that they do depend on, in any number of pieces: the commands, each DRAM address reduced to its offset in a page
     * of 4 KiB, and where one doorbell's end and the next one's begin. Two plans that give the same bytes take the same
     * cycles on the same chip, memory model and `signature`, wherever their operands lie and whatever is in them
     * (presil conform tests it). EUNSUPPORTED: not of this plan. NULL, or with limits.timing_needs_data: of none. */
    int (*timing)(const presil_chip *chip, const presil_plan *plan, presil_timing_add add, void *context);
    /* simulator: as presil_transport_ops.timing gives it, which has the memory's parameters; never NULL. Called for
     * launches that have never been simulated, on the way of an operator: it may take a part of what the simulator
     * would. Plans of which timing() tells the same have the same work. EUNSUPPORTED: not of this plan. NULL: of none,
     * and no launch is estimated. */
    int (*work)(const presil_chip *chip, const presil_plan *plan, const char *simulator, presil_work *out);

    /* What a plan's commands move, by operand, and hold in the chip's own memories: calls tell() once. Rows of traffic
     * add up to what counters() counts of the whole plan (presil_traffic). Any thread; asked only if somebody listens
     * (presil_set_usage), so it may walk all that the commands touch. NULL: not known. */
    int (*usage)(const presil_chip *chip, const presil_plan *plan, presil_usage_tell tell, void *context);
    /* The same commands for operands at other places (presil_list_moved): of whatever they reach, presil_moved() says
     * where it will lie, whole pages away; of an operand either all is moved or nothing. Ranges and describe() move
     * with it, timing() tells the same. moves: sorted and disjoint. NULL: the caller plans anew. */
    int (*moved)(const presil_chip *chip, const presil_plan *plan, const presil_move *moves, uint32_t count,
                 presil_plan **out, presil_error_buffer *error);
    /* DMA windows, as presil_device_set_window() and presil_device_lock_windows() say them: base and bytes are whole
     * pages, nothing runs. link NULL: there is no chip yet, or mode MODEL never has one. The chip remembers them for
     * execute(), and writes them to its registers again in reset(). NULL: it has none. */
    int (*set_window)(presil_chip *chip, const presil_link *link, uint32_t window, presil_daddr base, uint64_t bytes,
                      uint32_t access, presil_error_buffer *error);
    int (*lock_windows)(presil_chip *chip, const presil_link *link, presil_error_buffer *error);
} presil_chip_ops;

/* The one symbol of a chip's library, libpresil_chip_<name>.so. It is looked for beside the simulator library of
 * presil_device_options, in PRESIL_LIBRARY_PATH and beside libpresil; or presil_device_options.chip_library names it.
 */
typedef const presil_chip_ops *(*presil_chip_entry_fn)(void);
PRESIL_API const presil_chip_ops *presil_chip_entry(void);

#ifdef __cplusplus
}
#endif
#endif
