/* SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil.h"

enum { MOST_HEADER = 65536 };

/* What each dtype is called; the first name is written. */
static const struct {
    const char *descr;
    uint32_t dtype, bytes;
} formats[] = {{"|i1", PRESIL_INT8, 1}, {"<u2", PRESIL_BF16, 2}, {"<f4", PRESIL_FP32, 4}, {"<i4", PRESIL_INT32, 4},
               {"<f2", PRESIL_FP16, 2}, {"|V2", PRESIL_BF16, 2}, {"<V2", PRESIL_BF16, 2}};
enum { FORMATS = sizeof formats / sizeof *formats };

/* The value behind 'key': in the header's dictionary; NULL if it isn't there. */
static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':') at++;
    return at;
}

static int parse(const char *path, const char *header, npy_array *out, char *text, size_t bytes) {
    const char *descr = value_of(header, "'descr'"), *order = value_of(header, "'fortran_order'"),
               *shape = value_of(header, "'shape'");
    uint32_t k = 0;
    if (!descr || !order || !shape || *descr != '\'' || *shape != '(') {
        (void)snprintf(text, bytes, "%s: no header of NumPy with descr, fortran_order and shape", path);
        return -1;
    }
    while (k < FORMATS && strncmp(descr + 1, formats[k].descr, 3) != 0) k++;
    if (k == FORMATS || descr[4] != '\'') {
        (void)snprintf(text, bytes,
                       "%s: dtype %.8s; float32 ('<f4'), float16 ('<f2'), int8 ('|i1'), int32 ('<i4') or the bits of "
                       "bfloat16 ('<u2') expected",
                       path, descr);
        return -1;
    }
    if (strncmp(order, "False", 5) != 0) {
        (void)snprintf(text, bytes, "%s: Fortran order; save numpy.ascontiguousarray(a)", path);
        return -1;
    }
    out->dtype = formats[k].dtype;
    out->bytes = formats[k].bytes;
    for (shape++; *shape && *shape != ')';) {
        char *end;
        long long n = strtoll(shape, &end, 10);
        if (end == shape || n < 0 || out->ndim == NPY_DIMS ||
            (n > 0 && out->bytes > (uint64_t)INT64_MAX / (uint64_t)n)) {
            (void)snprintf(text, bytes, "%s: a shape of at most %d sizes expected, found %.60s", path, NPY_DIMS,
                           value_of(header, "'shape'"));
            return -1;
        }
        out->shape[out->ndim++] = n;
        out->bytes *= (uint64_t)n;
        for (shape = end; *shape == ',' || *shape == ' ';) shape++;
    }
    return 0;
}

static int read_open(FILE *f, const char *path, npy_array *out, char *text, size_t bytes) {
    uint8_t head[12];
    if (fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3) {
        (void)snprintf(text, bytes, "%s: not a .npy file", path);
        return -1;
    }
    uint32_t length = head[8] | (uint32_t)head[9] << 8;
    if (head[6] > 1) {
        if (fread(head + 10, 1, 2, f) != 2)
            length = 0;
        else
            length |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
    }
    char *header = length && length <= MOST_HEADER ? calloc(1, length + 1) : NULL;
    bool whole = header && fread(header, 1, length, f) == length;
    if (!whole)
        (void)snprintf(text, bytes, "%s: the header of %u bytes can't be read: the file is damaged", path, length);
    int status = whole ? parse(path, header, out, text, bytes) : -1;
    free(header);
    if (status) return status;
    /* Before memory is taken for what the header says. A pipe has no end to look at. */
    const long here = ftell(f), end = here >= 0 && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (end >= 0 && ((uint64_t)(end - here) != out->bytes || fseek(f, here, SEEK_SET))) {
        (void)snprintf(text, bytes,
                       "%s: %llu bytes of elements expected behind the header, %ld found: the file is truncated or "
                       "too long",
                       path, (unsigned long long)out->bytes, end - here);
        return -1;
    }
    out->data = malloc(out->bytes + 1);
    if (!out->data) {
        (void)snprintf(text, bytes, "%s: no host memory for %llu bytes", path, (unsigned long long)out->bytes);
        return -1;
    }
    if (fread(out->data, 1, out->bytes + 1, f) != out->bytes) {
        (void)snprintf(text, bytes,
                       "%s: %llu bytes of elements expected behind the header: the file is truncated or too long", path,
                       (unsigned long long)out->bytes);
        return -1;
    }
    return 0;
}

int npy_read(const char *path, npy_array *out, char *text, size_t bytes) {
    memset(out, 0, sizeof *out);
    FILE *f = fopen(path, "rb");
    if (!f) {
        (void)snprintf(text, bytes, "%s: %s", path, strerror(errno));
        return -1;
    }
    int status = read_open(f, path, out, text, bytes);
    (void)fclose(f);
    if (status) npy_free(out);
    return status;
}

int npy_write(const char *path, const npy_array *a, char *text, size_t bytes) {
    char header[512], shape[256] = "";
    uint32_t k = 0;
    while (formats[k].dtype != a->dtype) k++;
    for (uint32_t i = 0; i < a->ndim; i++)
        (void)snprintf(shape + strlen(shape), sizeof shape - strlen(shape),
                       i || a->ndim == 1 ? i ? ", %lld" : "%lld," : "%lld", (long long)a->shape[i]);
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                     formats[k].descr, shape);
    uint32_t length = ((uint32_t)n + 1 + 10 + 63) / 64 * 64 - 10; /* so that the elements begin at a multiple of 64 */
    memset(header + n, ' ', length - (uint32_t)n);
    header[length - 1] = '\n';
    const uint8_t head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)length, (uint8_t)(length >> 8)};
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(head, 1, sizeof head, f) == sizeof head && fwrite(header, 1, length, f) == length &&
              fwrite(a->data, 1, a->bytes, f) == a->bytes;
    if (f && fclose(f)) ok = false;
    if (!ok) (void)snprintf(text, bytes, "%s: %s", path, strerror(errno));
    return ok ? 0 : -1;
}

void npy_free(npy_array *a) {
    free(a->data);
    a->data = NULL;
}
