/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - a program compiled ahead of time (docs/aot.md): read from a file, placed in a device's memory, run. */
#ifndef PRESIL_PROGRAM_H
#define PRESIL_PROGRAM_H

#include <stdint.h>
#include "presil_op.h"

#define PROGRAM_DIMS 8

/* Of an input, an output, or an operand of the host's: dtype a presil_dtype; strides in elements; offset in bytes from
 * the arena's start. factor above 0: the tensor is codes of int8 that stand for real values (program_codes_of). */
typedef struct {
    char name[64];
    uint32_t dtype, ndim;
    uint64_t offset;
    int64_t shape[PROGRAM_DIMS], stride[PROGRAM_DIMS];
    float factor;
    int32_t zero_point;
    uint32_t rounds_first; /* of an input's codes: rounded before the zero point is added */
} program_tensor;

enum { PROGRAM_ATTRIBUTES = 8, PROGRAM_STEPS = 4, PROGRAM_OPERANDS = PRESIL_OP_INPUTS + 1 };

/* An operator that the host computes between two launches (presil_op.h); `op` points into the rest. */
typedef struct {
    presil_op op;
    program_tensor tensors[PROGRAM_OPERANDS]; /* inputs, then the output */
    presil_operand operands[PROGRAM_OPERANDS];
    presil_attribute attributes[PROGRAM_ATTRIBUTES];
    char names[PROGRAM_ATTRIBUTES][32], texts[PROGRAM_ATTRIBUTES][64];
    int64_t integers[PROGRAM_ATTRIBUTES][PROGRAM_DIMS];
    double reals[PROGRAM_ATTRIBUTES][PROGRAM_DIMS];
    presil_step steps[PROGRAM_STEPS];
} program_operator;

typedef struct {
    uint64_t commands_offset, commands_bytes; /* of command lists; none where there is an operator */
    program_operator *host;
} program_step;

typedef struct {
    char chip[32], config[64];
    uint32_t config_hash; /* 0: the chip has none */
    uint32_t inputs, outputs;
    uint64_t arena_bytes;
    program_tensor *tensors; /* inputs, then outputs */
    program_step *steps;     /* one after the other; at least one */
    uint32_t steps_count;
    /* the file, and where its parts lie in it */
    uint8_t *file;
    uint64_t file_bytes, commands_offset, commands_bytes, constants_offset;
    uint32_t constants;
} program;

/* 0, or -1 with text. Everything is checked but the commands, which program_place() has proved by the chip. */
int program_read(const char *path, program *out, char *text, size_t text_bytes);
void program_free(program *p);
uint64_t program_elements(const program_tensor *t);
uint32_t program_element_bytes(uint32_t dtype);

/* Between real values and the codes of a tensor that has them, in C order. Of an input: code = clamp(rint(value *
 * factor + zero_point), -128, 127), where the tensor rounds first clamp(rint(value * factor) + zero_point, -128, 127);
 * not a number: 0. Of an output: value = (code - zero_point) * factor. */
int program_has_codes(const program_tensor *t);
void program_codes_of(const program_tensor *t, const float *values, int8_t *codes);
void program_values_of(const program_tensor *t, const int8_t *codes, float *values);

typedef struct {
    const program *program;
    presil_device *device;
    presil_daddr arena;
    presil_list **lists; /* of each step; NULL: the host's */
} placed_program;

/* Copies the constants into device memory and loads the commands. A presil_status with presil_error_text(). The program
 * has to outlive it. */
int program_place(const program *p, presil_device *device, placed_program *out);
void program_remove(placed_program *p);
/* All steps, and waits. A presil_status; the reason in text: of a launch presil_error_text(), of the host's operators
 * their own. */
int program_run(const placed_program *p, char *text, size_t text_bytes);
/* dense: the tensor's elements in C order. In stream order; set copies `dense` before it returns, get waits. */
int program_set(const placed_program *p, const program_tensor *t, const void *dense);
int program_get(const placed_program *p, const program_tensor *t, void *dense);

#endif
