/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a program (docs/aot.md, version 3): command lists, and operators that the host computes between them. */
#include "reading.h"

#include <stdlib.h>

enum {
    STEP_BYTES = 16,     /* what a step begins with */
    OPERATOR_BYTES = 16, /* of the host's: kind and counts */
    ATTRIBUTE_BYTES = 104,
    OP_STEP_BYTES = 32,
    MOST_STEPS = 4096,
    LARGEST = 1 << 20 /* integer of an attribute: products of it with positions stay in 64 bits */
};
static const uint64_t most_elements = 1ull << 31, most_work = 1ull << 36;

enum { INTEGERS = 0, REALS = 1, TEXT = 2 };

/* Those whose work follows from their operands and their window. */
static bool is_bounded(uint32_t kind) {
    return kind == PRESIL_OP_COPY || kind == PRESIL_OP_GATHER || kind == PRESIL_OP_NORM ||
           (kind >= PRESIL_OP_POOL_MAX && kind <= PRESIL_OP_SOFTMAX);
}

static int parse_operand(const uint8_t *from, const program *p, program_operator *o, uint32_t i, char *text,
                         size_t bytes) {
    program_tensor *t = &o->tensors[i];
    program_parse_tensor(from, t);
    if (!program_tensor_fits(t, p->arena_bytes) || program_elements(t) > most_elements)
        return wrong(text, bytes, "operand %u does not fit the program's memory", i);
    make_plain(t->name);
    presil_operand *operand = &o->operands[i];
    *operand = (presil_operand){.name = t->name, .dtype = t->dtype, .ndim = t->ndim};
    memcpy(operand->shape, t->shape, sizeof operand->shape);
    memcpy(operand->stride, t->stride, sizeof operand->stride);
    return 0;
}

static int parse_attribute(const uint8_t *from, program_operator *o, uint32_t i, char *text, size_t bytes) {
    const uint32_t type = u32(from + 32), count = u32(from + 36);
    if (!memchr(from, 0, sizeof o->names[i]) || type > TEXT || count > PROGRAM_DIMS ||
        (type == TEXT && !memchr(from + 40, 0, sizeof o->texts[i])))
        return wrong(text, bytes, "attribute %u has type %u and %u values", i, type, count);
    memcpy(o->names[i], from, sizeof o->names[i]);
    presil_attribute *a = &o->attributes[i];
    *a = (presil_attribute){.name = o->names[i], .count = type == TEXT ? 0 : count};
    if (type == INTEGERS) {
        memcpy(o->integers[i], from + 40, sizeof o->integers[i]);
        a->integers = o->integers[i];
    } else if (type == REALS) {
        memcpy(o->reals[i], from + 40, sizeof o->reals[i]);
        a->reals = o->reals[i];
    } else {
        memcpy(o->texts[i], from + 40, sizeof o->texts[i]);
        a->text = o->texts[i];
    }
    for (uint32_t k = 0; type == INTEGERS && k < count; k++) {
        if (o->integers[i][k] < -LARGEST || o->integers[i][k] > LARGEST)
            return wrong(text, bytes, "attribute %u is %lld", i, (long long)o->integers[i][k]);
    }
    return 0;
}

static int parse_step(const uint8_t *from, presil_step *s, char *text, size_t bytes) {
    *s = (presil_step){.kind = u32(from), .input = PRESIL_NO_OPERAND};
    memcpy(&s->scale, from + 4, 4);
    memcpy(&s->low, from + 8, 4);
    memcpy(&s->high, from + 12, 4);
    memcpy(&s->zero_point, from + 16, 4);
    memcpy(&s->int_low, from + 20, 4);
    memcpy(&s->int_high, from + 24, 4);
    if (s->kind == PRESIL_STEP_ADD || s->kind > PRESIL_STEP_QUANTIZE)
        return wrong(text, bytes, "a step of kind %u behind an operator of the host", s->kind);
    return 0;
}

/* The windows of all results, and once what is read. */
static bool is_affordable(const program_operator *o) {
    uint64_t work = program_elements(&o->tensors[o->op.input_count]);
    int64_t kernel[PROGRAM_DIMS];
    (void)presil_op_integers(&o->op, "kernel", 1, kernel, PROGRAM_DIMS);
    for (uint32_t i = 0; i < PROGRAM_DIMS; i++) {
        if (kernel[i] < 1) return false;
        work *= (uint64_t)kernel[i];
        if (work > most_work) return false;
    }
    return true;
}

static int parse_operator(const uint8_t *from, uint64_t size, const program *p, program_operator *o, char *text,
                          size_t bytes) {
    presil_op *op = &o->op;
    *op = (presil_op){.size = sizeof *op, .kind = u32(from), .input_count = u32(from + 4), .output_count = 1};
    op->attribute_count = u32(from + 8);
    op->step_count = u32(from + 12);
    if (!is_bounded(op->kind) || !op->input_count || op->input_count > PRESIL_OP_INPUTS ||
        op->attribute_count > PROGRAM_ATTRIBUTES || op->step_count > PROGRAM_STEPS ||
        size != OPERATOR_BYTES + (op->input_count + 1u) * TENSOR_BYTES + op->attribute_count * ATTRIBUTE_BYTES +
                    op->step_count * OP_STEP_BYTES)
        return wrong(text, bytes, "an operator of kind %u, %u inputs, %u attributes and %u steps", op->kind,
                     op->input_count, op->attribute_count, op->step_count);
    op->inputs = o->operands;
    op->outputs = &o->operands[op->input_count];
    op->attributes = o->attributes;
    op->steps = o->steps;
    from += OPERATOR_BYTES;
    int status = 0;
    for (uint32_t i = 0; i <= op->input_count && !status; i++, from += TENSOR_BYTES)
        status = parse_operand(from, p, o, i, text, bytes);
    for (uint32_t i = 0; i < op->attribute_count && !status; i++, from += ATTRIBUTE_BYTES)
        status = parse_attribute(from, o, i, text, bytes);
    for (uint32_t i = 0; i < op->step_count && !status; i++, from += OP_STEP_BYTES)
        status = parse_step(from, &o->steps[i], text, bytes);
    if (!status && !is_affordable(o)) status = wrong(text, bytes, "an operator with more work than 2^36 elements");
    return status;
}

int program_parse_steps(const uint8_t *from, uint64_t left, uint32_t count, program *p, uint64_t *taken, char *text,
                        size_t bytes) {
    const uint64_t whole = left;
    if (!count || count > MOST_STEPS || count > left / STEP_BYTES) return wrong(text, bytes, "%u steps", count);
    p->steps = calloc(count, sizeof *p->steps);
    if (!p->steps) return wrong(text, bytes, "no host memory");
    for (; p->steps_count < count; p->steps_count++) {
        program_step *s = &p->steps[p->steps_count];
        const uint32_t host = left < STEP_BYTES ? 2 : u32(from), size = left < STEP_BYTES ? 0 : u32(from + 4);
        if (host > 1 || size > left - STEP_BYTES || (host ? size < OPERATOR_BYTES : size != 0))
            return wrong(text, bytes, "step %u does not fit", p->steps_count);
        s->commands_bytes = u64(from + 8);
        if (host) {
            char why[120] = "";
            s->host = calloc(1, sizeof *s->host);
            if (!s->host) return wrong(text, bytes, "no host memory");
            const int status = s->commands_bytes ? wrong(why, sizeof why, "commands of an operator")
                                                 : parse_operator(from + STEP_BYTES, size, p, s->host, why, sizeof why);
            if (status) {
                free(s->host);
                s->host = NULL;
                return wrong(text, bytes, "step %u: %s", p->steps_count, why);
            }
        }
        from += STEP_BYTES + size;
        left -= STEP_BYTES + size;
    }
    *taken = whole - left;
    return 0;
}
