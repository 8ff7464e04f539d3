/* SPDX-License-Identifier: Apache-2.0 */
/* A program in a device's memory: its constants, commands, inputs and results, and a run of its steps. */
#include "presil_image.h"
#include "presil_reference.h"
#include "reading.h"

#include <stdlib.h>

static int fill(const program *p, placed_program *out) {
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < p->constants && !status; i++) {
        const uint8_t *c = p->file + p->constants_offset + (uint64_t)i * CONSTANT_BYTES;
        status = presil_copy_to_device(out->device, NULL, (presil_daddr){out->arena.value + u64(c)},
                                       p->file + u64(c + 16), u64(c + 8), PRESIL_COPY_DIRECT);
    }
    if (!status) status = presil_device_synchronize(out->device);
    for (uint32_t i = 0; i < p->steps_count && !status; i++) {
        const program_step *s = &p->steps[i];
        if (!s->host)
            status = presil_list_load(out->device, p->file + s->commands_offset, s->commands_bytes, out->arena,
                                      p->arena_bytes, &out->lists[i]);
    }
    return status;
}

int program_place(const program *p, presil_device *device, placed_program *out) {
    *out = (placed_program){.program = p, .device = device, .lists = calloc(p->steps_count, sizeof *out->lists)};
    if (!out->lists) return PRESIL_EHOSTMEM;
    int status = presil_alloc(device, NULL, NULL, p->arena_bytes, &out->arena);
    if (!status) status = fill(p, out);
    if (status) program_remove(out);
    return status;
}

void program_remove(placed_program *p) {
    for (uint32_t i = 0; p->lists && i < p->program->steps_count; i++) presil_list_destroy(p->lists[i]);
    free(p->lists);
    if (p->arena.value) (void)!presil_free(p->device, p->arena);
    *p = (placed_program){0};
}

/* Bytes of memory that the tensor's elements span, gaps too. */
static uint64_t span(const program_tensor *t) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < t->ndim; i++) last += (uint64_t)(t->shape[i] - 1) * (uint64_t)t->stride[i];
    return (last + 1) * program_element_bytes(t->dtype);
}

static void transfer(const program_tensor *t, uint8_t *strided, uint8_t *dense, bool in) {
    const uint32_t e = program_element_bytes(t->dtype);
    int64_t index[PROGRAM_DIMS] = {0};
    for (uint64_t n = program_elements(t); n > 0; n--, dense += e) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < t->ndim; i++) at += (uint64_t)index[i] * (uint64_t)t->stride[i];
        memcpy(in ? strided + at * e : dense, in ? dense : strided + at * e, e);
        for (uint32_t i = t->ndim; i-- > 0 && ++index[i] == t->shape[i];) index[i] = 0;
    }
}

int program_set(const placed_program *p, const program_tensor *t, const void *dense) {
    uint8_t *buffer = calloc(1, span(t)), *from = malloc(program_elements(t) * program_element_bytes(t->dtype) + 1);
    int status = PRESIL_EHOSTMEM;
    if (buffer && from) {
        memcpy(from, dense, program_elements(t) * program_element_bytes(t->dtype));
        transfer(t, buffer, from, true);
        status = presil_copy_to_device(p->device, NULL, (presil_daddr){p->arena.value + t->offset}, buffer, span(t),
                                       PRESIL_COPY_DIRECT);
        if (!status) status = presil_device_synchronize(p->device);
    }
    free(buffer);
    free(from);
    return status;
}

int program_get(const placed_program *p, const program_tensor *t, void *dense) {
    uint8_t *buffer = malloc(span(t));
    if (!buffer) return PRESIL_EHOSTMEM;
    int status = presil_copy_to_host(p->device, NULL, buffer, (presil_daddr){p->arena.value + t->offset}, span(t),
                                     PRESIL_COPY_DIRECT);
    if (!status) status = presil_device_synchronize(p->device);
    if (!status) transfer(t, buffer, dense, false);
    free(buffer);
    return status;
}

/* ---- operators of the host */
static int fetch(const placed_program *p, const program_tensor *t, uint8_t **out) {
    *out = malloc(span(t));
    if (!*out) return PRESIL_EHOSTMEM;
    return presil_copy_to_host(p->device, NULL, *out, (presil_daddr){p->arena.value + t->offset}, span(t),
                               PRESIL_COPY_DIRECT);
}

/* What lies between the output's elements stays. */
static int compute(const placed_program *p, const program_operator *o, char *text, size_t bytes) {
    presil_reference_call call = {.size = sizeof call, .op = &o->op};
    presil_reference *result = NULL;
    uint8_t *memory[PROGRAM_OPERANDS] = {NULL};
    const uint32_t inputs = o->op.input_count;
    int status = PRESIL_OK;
    for (uint32_t i = 0; i <= inputs && !status; i++) status = fetch(p, &o->tensors[i], &memory[i]);
    if (!status) status = presil_device_synchronize(p->device);
    if (status) (void)snprintf(text, bytes, "%s", status == PRESIL_EHOSTMEM ? "no host memory" : presil_error_text());
    for (uint32_t i = 0; i < inputs; i++) call.inputs[i] = memory[i];
    if (!status) status = presil_reference_compute(&call, &result, text, bytes);
    if (!status) {
        const program_tensor *t = &o->tensors[inputs];
        presil_reference_store(result, memory[inputs]);
        status = presil_copy_to_device(p->device, NULL, (presil_daddr){p->arena.value + t->offset}, memory[inputs],
                                       span(t), PRESIL_COPY_DIRECT);
        if (!status) status = presil_device_synchronize(p->device);
        if (status) (void)snprintf(text, bytes, "%s", presil_error_text());
    }
    presil_reference_free(result);
    for (uint32_t i = 0; i <= inputs; i++) free(memory[i]);
    return status;
}

int program_run(const placed_program *p, char *text, size_t bytes) {
    for (uint32_t i = 0; i < p->program->steps_count; i++) {
        const program_operator *host = p->program->steps[i].host;
        int status;
        if (host) {
            char why[256] = "";
            status = compute(p, host, why, sizeof why);
            if (status)
                (void)snprintf(text, bytes, "step %u, %s on the host: %s", i, presil_op_name(host->op.kind), why);
        } else {
            status = presil_list_submit(p->lists[i], NULL);
            if (!status) status = presil_device_synchronize(p->device);
            if (status) (void)snprintf(text, bytes, "%s", presil_error_text());
        }
        if (status) return status;
    }
    return PRESIL_OK;
}
