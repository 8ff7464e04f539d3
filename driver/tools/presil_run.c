/* SPDX-License-Identifier: Apache-2.0 */
/* presil-run: runs a program of torch.presil.aot_save on arrays in files. Neither Python nor torch: what goes to the
 * board. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "npy.h"
#include "presil.h"
#include "program.h"

static const char usage[] =
    "usage: presil-run [options] PROGRAM INPUT.npy... OUTPUT.npy...\n"
    "  --info              print what the program takes and gives, and end (the device isn't opened)\n"
    "  --mode MODE         rtl (default), model (the C twin: same bits, no clock) or verify (both, compared)\n"
    "  --build BUILD       of the simulator: fast (default), check, trace\n"
    "  --library FILE      simulator library (default: by the program's chip, from PRESIL_LIBRARY_PATH)\n"
    "  --transport TEXT    inproc (default), or socket:PATH[,copy][,timeout=SECONDS]: a server in another process\n"
    "  --memory-model TEXT as in docs/simulation.md\n"
    "  --json FILE         launches and cycles (- : standard output)\n"
    "bfloat16 is kept as its bits (uint16); of a quantized program inputs and outputs are float32 (inputs: or their "
    "codes, int8). Exit: 0, 1 RTL and model differ, 2 wrong arguments or files, 4 the device "
    "failed.\n";

enum { EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_DEVICE = 4, MOST_FILES = 256 };

typedef struct {
    const char *mode, *json, *program, *files[MOST_FILES];
    bool info;
    uint32_t count;
    presil_device_options device;
} arguments;

typedef struct {
    presil_report *at;
    size_t count, capacity;
    bool lost;
} report_list;

static const char *const dtypes[] = {[PRESIL_INT8] = "int8",
                                     [PRESIL_BF16] = "bfloat16",
                                     [PRESIL_FP32] = "float32",
                                     [PRESIL_INT32] = "int32",
                                     [PRESIL_FP16] = "float16"};

static void on_report(void *context, const presil_report *report) {
    report_list *list = context;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        presil_report *grown = realloc(list->at, capacity * sizeof *grown);
        if (!grown) {
            list->lost = true;
            return;
        }
        list->at = grown;
        list->capacity = capacity;
    }
    list->at[list->count++] = *report;
}

static int fail(int status, const char *text) {
    (void)fprintf(stderr, "presil-run: %s\n", text);
    return status;
}

static int parse(int argc, char **argv, arguments *a) {
    static const char *const named[] = {"--mode", "--build", "--library", "--memory-model", "--transport", "--json"};
    a->mode = "rtl";
    for (int i = 1; i < argc; i++) {
        const char **const slot[] = {
            &a->mode, &a->device.build, &a->device.library, &a->device.memory_model, &a->device.transport, &a->json};
        size_t k = 0;
        while (k < sizeof named / sizeof *named && strcmp(argv[i], named[k]) != 0) k++;
        if (k < sizeof named / sizeof *named) {
            if (++i == argc)
                return (void)fprintf(stderr, "presil-run: %s needs a value\n%s", named[k], usage), EXIT_USAGE;
            *slot[k] = argv[i];
        } else if (!strcmp(argv[i], "--info")) {
            a->info = true;
        } else if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
            (void)fputs(usage, stdout);
            exit(0);
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return (void)fprintf(stderr, "presil-run: unknown option %s\n%s", argv[i], usage), EXIT_USAGE;
        } else if (!a->program) {
            a->program = argv[i];
        } else if (a->count == MOST_FILES) {
            return fail(EXIT_USAGE, "too many files");
        } else {
            a->files[a->count++] = argv[i];
        }
    }
    static const char *const modes[] = {"rtl", "model", "verify"};
    a->device.mode = 0;
    while (a->device.mode < 3 && strcmp(a->mode, modes[a->device.mode]) != 0) a->device.mode++;
    if (a->device.mode == 3)
        return (void)fprintf(stderr, "presil-run: --mode %s: rtl, model or verify expected\n", a->mode), EXIT_USAGE;
    return a->program ? 0 : ((void)fputs(usage, stderr), EXIT_USAGE);
}

static void print_shape(FILE *to, const int64_t *shape, uint32_t ndim) {
    (void)fputc('[', to);
    for (uint32_t i = 0; i < ndim; i++) (void)fprintf(to, "%s%" PRId64, i ? ", " : "", shape[i]);
    (void)fputc(']', to);
}

/* 0: the chip has none. */
static const char *hash_text(uint32_t hash, char text[16]) {
    (void)snprintf(text, 16, "%08x", hash);
    return hash ? text : "-";
}

/* Of the arrays in files. */
static const char *told_dtype(const program_tensor *t) {
    return dtypes[program_has_codes(t) ? (uint32_t)PRESIL_FP32 : t->dtype];
}

static void print_step(const program *p, uint32_t i) {
    const program_operator *host = p->steps[i].host;
    if (!host) {
        (void)printf("step %u  launch, %" PRIu64 " bytes of commands\n", i, p->steps[i].commands_bytes);
        return;
    }
    const program_tensor *in = &host->tensors[0], *out = &host->tensors[host->op.input_count];
    (void)printf("step %u  host, %s of %s ", i, presil_op_name(host->op.kind), dtypes[in->dtype]);
    print_shape(stdout, in->shape, in->ndim);
    (void)printf(" -> %s ", dtypes[out->dtype]);
    print_shape(stdout, out->shape, out->ndim);
    (void)putchar('\n');
}

static int print_info(const program *p) {
    char hash[16];
    (void)printf("chip %s, configuration %s (hash %s), memory %" PRIu64 " bytes\n", p->chip, p->config,
                 hash_text(p->config_hash, hash), p->arena_bytes);
    for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
        (void)printf("%s %u  %s  %s ", i < p->inputs ? "input " : "output", i < p->inputs ? i : i - p->inputs,
                     p->tensors[i].name, told_dtype(&p->tensors[i]));
        print_shape(stdout, p->tensors[i].shape, p->tensors[i].ndim);
        if (program_has_codes(&p->tensors[i]))
            (void)printf("  as int8: factor %.9g, zero point %d%s", (double)p->tensors[i].factor,
                         (int)p->tensors[i].zero_point, p->tensors[i].rounds_first ? " after rounding" : "");
        (void)putchar('\n');
    }
    for (uint32_t i = 0; p->steps_count > 1 && i < p->steps_count; i++) print_step(p, i);
    return 0;
}

static bool fits(const program_tensor *t, const npy_array *a) {
    const bool values = program_has_codes(t) && a->dtype == PRESIL_FP32;
    return (a->dtype == t->dtype || values) && a->ndim == t->ndim &&
           (t->ndim == 0 || memcmp(a->shape, t->shape, t->ndim * sizeof *t->shape) == 0);
}

/* The array's real values become codes. */
static int to_codes(const program_tensor *t, npy_array *a) {
    int8_t *codes = malloc(program_elements(t) + 1);
    if (!codes) return -1;
    program_codes_of(t, a->data, codes);
    free(a->data);
    a->data = codes;
    a->dtype = t->dtype;
    a->bytes = program_elements(t);
    return 0;
}

static int to_values(const program_tensor *t, npy_array *a) {
    float *values = malloc(program_elements(t) * sizeof *values + 1);
    if (!values) return -1;
    program_values_of(t, a->data, values);
    free(a->data);
    a->data = values;
    a->dtype = PRESIL_FP32;
    a->bytes = program_elements(t) * sizeof *values;
    return 0;
}

/* All inputs are read and checked before the device is touched. */
static int read_inputs(const program *p, const arguments *a, npy_array *inputs) {
    char text[512];
    for (uint32_t i = 0; i < p->inputs; i++) {
        if (npy_read(a->files[i], &inputs[i], text, sizeof text)) return fail(EXIT_USAGE, text);
        if (fits(&p->tensors[i], &inputs[i])) {
            if (inputs[i].dtype != p->tensors[i].dtype && to_codes(&p->tensors[i], &inputs[i]))
                return fail(EXIT_DEVICE, "no host memory for the codes of an input");
            continue;
        }
        (void)fprintf(stderr, "presil-run: %s: input %u (%s) is %s ", a->files[i], i, p->tensors[i].name,
                      told_dtype(&p->tensors[i]));
        print_shape(stderr, p->tensors[i].shape, p->tensors[i].ndim);
        (void)fprintf(stderr, ", the file has %s ", dtypes[inputs[i].dtype]);
        print_shape(stderr, inputs[i].shape, inputs[i].ndim);
        (void)fputc('\n', stderr);
        return EXIT_USAGE;
    }
    return 0;
}

static int write_output(const placed_program *placed, const program_tensor *t, const char *path) {
    char text[512];
    npy_array a = {.dtype = t->dtype, .ndim = t->ndim, .bytes = program_elements(t) * program_element_bytes(t->dtype)};
    memcpy(a.shape, t->shape, sizeof a.shape);
    a.data = malloc(a.bytes + 1);
    if (!a.data) return fail(EXIT_DEVICE, "no host memory for an output");
    int status = program_get(placed, t, a.data) ? fail(EXIT_DEVICE, presil_error_text()) : 0;
    if (!status && program_has_codes(t) && to_values(t, &a))
        status = fail(EXIT_DEVICE, "no host memory for the values of an output");
    if (!status && npy_write(path, &a, text, sizeof text)) status = fail(EXIT_USAGE, text);
    free(a.data);
    return status;
}

/* Cycles are null in mode model, which has no clock. */
static void print_cycles(FILE *to, const report_list *reports, size_t i) {
    uint64_t cycles = 0;
    for (size_t k = 0; k < reports->count; k++) cycles += i == reports->count || i == k ? reports->at[k].cycles : 0;
    if (reports->count && reports->at[0].mode == PRESIL_MODE_MODEL)
        (void)fputs("null", to);
    else
        (void)fprintf(to, "%" PRIu64, cycles);
}

static int write_json(const arguments *a, const program *p, presil_device *device, const report_list *reports) {
    presil_names names = {.size = sizeof names};
    if (presil_device_get_names(device, &names)) return fail(EXIT_DEVICE, presil_error_text());
    FILE *f = strcmp(a->json, "-") == 0 ? stdout : fopen(a->json, "w");
    if (!f) return (void)fprintf(stderr, "presil-run: %s: can't be written\n", a->json), EXIT_USAGE;
    (void)fprintf(f, "{\"chip\": \"%s\", \"config\": \"%s\", \"config_hash\": ", p->chip, p->config);
    if (p->config_hash)
        (void)fprintf(f, "%u", p->config_hash);
    else
        (void)fputs("null", f);
    (void)fprintf(f, ", \"mode\": \"%s\", \"cycles\": ", a->mode);
    print_cycles(f, reports, reports->count);
    uint32_t host = 0;
    for (uint32_t i = 0; i < p->steps_count; i++) host += p->steps[i].host != NULL;
    (void)fprintf(f, ", \"host_operators\": %u, \"launches\": [", host);
    for (size_t i = 0; i < reports->count; i++) {
        const presil_report *r = &reports->at[i];
        (void)fprintf(f, "%s{\"label\": \"%s\", \"cycles\": ", i ? ", " : "", r->label);
        print_cycles(f, reports, i);
        (void)fprintf(f,
                      ", \"macs\": %" PRIu64 ", \"%s\": %" PRIu64 ", \"read_bytes\": %" PRIu64
                      ", \"write_bytes\": %" PRIu64 ", \"verified\": %s}",
                      r->macs, names.commands ? names.commands : "commands", r->descriptors, r->read_bytes,
                      r->write_bytes,
                      r->verified < 0 ? "null"
                      : r->verified   ? "true"
                                      : "false");
    }
    (void)fputs("]}\n", f);
    const bool written = fflush(f) == 0 && !ferror(f);
    if (f != stdout) (void)fclose(f);
    return written ? 0 : ((void)fprintf(stderr, "presil-run: %s: writing failed\n", a->json), EXIT_USAGE);
}

static int run(const program *p, const arguments *a, presil_device *device, const npy_array *inputs) {
    placed_program placed;
    report_list reports = {0};
    char text[1024] = "";
    int status = program_place(p, device, &placed);
    if (status) return fail(EXIT_DEVICE, presil_error_text());
    for (uint32_t i = 0; i < p->inputs && !status; i++) status = program_set(&placed, &p->tensors[i], inputs[i].data);
    presil_set_report(device, on_report, &reports);
    if (status) (void)snprintf(text, sizeof text, "%s", presil_error_text());
    if (!status) status = program_run(&placed, text, sizeof text);
    presil_set_report(device, NULL, NULL);
    int result = status ? fail(status == PRESIL_EMISMATCH ? EXIT_DIFFERS : EXIT_DEVICE, text) : 0;
    for (uint32_t i = 0; i < p->outputs && !result; i++)
        result = write_output(&placed, &p->tensors[p->inputs + i], a->files[p->inputs + i]);
    if (!result && a->json && reports.lost)
        result =
            fail(EXIT_DEVICE, "no host memory for the reports: --json would lack launches (the outputs are written)");
    if (!result && a->json) result = write_json(a, p, device, &reports);
    free(reports.at);
    program_remove(&placed);
    return result;
}

/* Another chip is refused with both names before anything is placed. */
static int open_device(const program *p, arguments *a, presil_device **out) {
    presil_device_info info = {.size = sizeof info};
    a->device.size = sizeof a->device;
    a->device.config = p->config;
    if (!a->device.memory_bytes && p->arena_bytes > (uint64_t)8 << 30) a->device.memory_bytes = 2 * p->arena_bytes;
    if (presil_device_open(&a->device, out)) return fail(EXIT_DEVICE, presil_error_text());
    int status = presil_device_get_info(*out, &info) ? fail(EXIT_DEVICE, presil_error_text()) : 0;
    if (!status && (strcmp(info.chip, p->chip) != 0 || info.config_hash != p->config_hash)) {
        char theirs[16], own[16];
        (void)fprintf(stderr,
                      "presil-run: %s is for the chip %s, configuration %s, hash %s; this one is %s, %s, hash %s: "
                      "save the program again for this chip\n",
                      a->program, p->chip, p->config, hash_text(p->config_hash, theirs), info.chip, info.config,
                      hash_text(info.config_hash, own));
        status = EXIT_USAGE;
    }
    if (!status && a->device.mode != PRESIL_MODE_MODEL && presil_device_start(*out))
        status = fail(EXIT_DEVICE, presil_error_text());
    if (status) presil_device_close(*out);
    return status;
}

int main(int argc, char **argv) {
    static arguments a;
    char text[512];
    program p;
    int status = parse(argc, argv, &a);
    if (status) return status;
    if (program_read(a.program, &p, text, sizeof text)) return fail(EXIT_USAGE, text);
    if (a.info) {
        status = print_info(&p);
        program_free(&p);
        return status;
    }
    if (a.count != p.inputs + p.outputs) {
        (void)fprintf(stderr, "presil-run: %s has %u inputs and %u outputs, %u files were given\n", a.program, p.inputs,
                      p.outputs, a.count);
        program_free(&p);
        return EXIT_USAGE;
    }
    npy_array *inputs = calloc(p.inputs + 1u, sizeof *inputs);
    presil_device *device = NULL;
    status = inputs ? read_inputs(&p, &a, inputs) : fail(EXIT_DEVICE, "no host memory");
    if (!status) status = open_device(&p, &a, &device);
    if (!status) {
        status = run(&p, &a, device, inputs);
        presil_device_close(device);
    }
    for (uint32_t i = 0; inputs && i < p.inputs; i++) npy_free(&inputs[i]);
    free(inputs);
    program_free(&p);
    return status;
}
