/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_chip.h - the seam between the driver's core and the knowledge of one chip: how operators become commands, how
 * they are submitted, what its registers and counters mean. The core (memory, streams, reports, verify, capture) uses
 * nothing else. The chip of rtl/ is driver/chip/; a second, smaller one stands in tests/. A chip with a programming
 * model of its own implements this vtable over the transport: registers, memory, interrupt.
 *
 * Functions return a presil_status (presil.h) and, on failure, leave a text in `error` (error_bytes includes the 0).
 * Called by one thread at a time for each chip object, but for layout/plan/pack/describe and *_free, which only read
 * the chip and may run on any thread.
 */
#ifndef PRESIL_CHIP_H
#define PRESIL_CHIP_H

#include "presil.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PRESIL_CHIP_ABI 2u

typedef struct presil_chip presil_chip;     /* one instance: configuration and state */
typedef struct presil_layout presil_layout; /* how a weights tensor is packed */
typedef struct presil_plan presil_plan;     /* an opaque command list with what it reads and writes */

typedef struct {
    char *text;
    size_t bytes;
} presil_error_buffer;

/* A transport and how to call it. */
typedef struct {
    const presil_transport_ops *ops;
    presil_transport *handle;
    /* In service() and counters(): the accesses that completion() asked for, made behind the interrupt; else 0. */
    const presil_register_access *done;
    size_t done_count;
} presil_link;

enum { PRESIL_COMPLETION_MOST = 256 };

/* Command memory that the core gives to the chip: ring_bytes of DRAM, 4 KiB-aligned. host: where it is mapped, or NULL
 * (then write it with mem_write). */
typedef struct {
    presil_daddr base;
    uint64_t bytes;
    void *host;
} presil_command_memory;

typedef struct {
    uint32_t address_bits;     /* of the bus master */
    uint32_t buffer_alignment; /* bytes, of buffers that the core allocates: power of two, <= 4096 */
    uint64_t command_bytes;    /* command memory wanted */
    uint32_t has_interrupt;    /* 0: the core polls service() */
    uint32_t has_executor;     /* execute() works: modes MODEL and VERIFY */
} presil_chip_limits;

typedef struct {
    presil_daddr base;
    uint64_t bytes;
} presil_byte_range;

typedef struct {
    const char *label;
    uint64_t macs, passes, peak_macs_per_cycle, descriptors;
    uint64_t signature; /* hash of the commands with addresses reduced to what timing can depend on (offset in the
                           page): seed of the launch */
    uint64_t estimate;  /* cycles that the launches should take in all, about; 0: not known */
    uint32_t segments;  /* launches needed; 1 unless the commands exceed the command memory */
    const presil_byte_range *reads, *writes; /* sorted, merged; owned by the plan */
    uint32_t read_count, write_count;
} presil_plan_info;

enum presil_service_result { PRESIL_SERVICE_BUSY = 0, PRESIL_SERVICE_DONE = 1, PRESIL_SERVICE_ERROR = 2 };

typedef struct {
    int result;     /* presil_service_result */
    int status;     /* ERROR: presil_status (EBUS, EDESC) */
    char text[256]; /* ERROR: code, descriptor and its label, address, in words */
} presil_service;

/* A window of DRAM for the executor; writes are reported in order. */
typedef struct {
    presil_daddr base;
    uint64_t bytes;
    uint8_t *host;
    void (*on_write)(void *context, presil_daddr address, uint64_t bytes); /* may be NULL */
    void *context;
    uint32_t threads;
} presil_executor_memory;

typedef struct {
    uint32_t size, abi;
    const char *name; /* as presil_transport_info.chip */
    /* From a configuration name alone, without hardware. */
    int (*create)(const char *config, presil_chip **out, presil_error_buffer *error);
    void (*destroy)(presil_chip *chip);
    int (*limits)(const presil_chip *chip, presil_chip_limits *out);
    int (*info)(const presil_chip *chip, presil_device_info *out); /* fills array and memory sizes, clock, hash */
    /* Reads identification and capabilities; refuses (ENODEV) a chip that is not what create() was told, saying what
     * differs. */
    int (*probe)(presil_chip *chip, const presil_link *link, presil_error_buffer *error);
    int (*reset)(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                 presil_error_buffer *error); /* after it the chip is idle and ready for submit */

    int (*layout)(const presil_chip *chip, const presil_weights_desc *desc, presil_layout **out, uint64_t *bytes,
                  presil_error_buffer *error);
    int (*pack)(const presil_chip *chip, const presil_layout *layout, const presil_weights_desc *desc, void *to,
                presil_error_buffer *error); /* writes `bytes` */
    void (*layout_free)(presil_layout *layout);

    /* layout NULL: the kernel by view, desc->kernel; EUNSUPPORTED if the chip wants it packed. */
    int (*plan_conv2d)(const presil_chip *chip, const presil_conv2d_desc *desc, const presil_layout *layout,
                       presil_daddr packed, presil_plan **out, presil_error_buffer *error);
    int (*plan_weight_grad)(const presil_chip *chip, const presil_conv2d_weight_grad_desc *desc, presil_plan **out,
                            presil_error_buffer *error);
    int (*plan_matmul)(const presil_chip *chip, const presil_matmul_desc *desc, presil_plan **out,
                       presil_error_buffer *error);
    int (*plan_copy)(const presil_chip *chip, presil_daddr to, presil_daddr from, uint64_t bytes, presil_plan **out,
                     presil_error_buffer *error);
    int (*plan_nop)(const presil_chip *chip, presil_plan **out, presil_error_buffer *error);
    int (*plan_info)(const presil_plan *plan, presil_plan_info *out);
    /* "output [n, y, x, c], tile 3, descriptor 17 (STORE)" for a DRAM address that the plan writes. */
    int (*describe)(const presil_plan *plan, presil_daddr address, char *text, size_t bytes);
    void (*plan_free)(presil_plan *plan);

    int (*submit)(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                  const presil_plan *plan, uint32_t segment, presil_error_buffer *error); /* up to the doorbell */
    int (*service)(presil_chip *chip, const presil_link *link, const presil_plan *plan,
                   presil_service *out); /* after an interrupt, or polled; acknowledges it */
    int (*why)(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text,
               size_t bytes); /* what every engine waits for */
    int (*counters)(presil_chip *chip, const presil_link *link,
                    presil_report *out); /* ADDS those of the last launch: cycles, stalls, bytes, beats, descriptors */
    int (*execute)(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                   presil_error_buffer *error); /* NULL if there is none */
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
     * which each journey costs makes them in the same one as the wait, and both then look at link->done. NULL, or
     * behind the end of the table (`size`): none. */
    size_t (*completion)(const presil_chip *chip, presil_register_access *out);
    /* What why() says, for programs, in a launch that doesn't move: at most `most` rows (one for each engine, and for
     * whoever serves them); *count: how many there are; *verdict: enum presil_hang_verdict. `by` of a row is the number
     * of another. NULL, or behind the end of the table: there is only the text. */
    int (*waits)(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_waiting *rows,
                 uint32_t most, uint32_t *count, int *verdict);
    /* For debuggers (presil_debug.h), all of them or none; NULL, or behind the end of the table: none.
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
} presil_chip_ops;

/* The chip in rtl/, built into libpresil. Others: a shared object that exports presil_chip_entry, named
 * libpresil_chip_<name>.so. */
typedef const presil_chip_ops *(*presil_chip_entry_fn)(void);
const presil_chip_ops *presil_chip_builtin(void);

#ifdef __cplusplus
}
#endif
#endif
