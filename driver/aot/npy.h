/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - arrays in NumPy's file format, version 1 to 3: little-endian, int8, int32, float32, float16's size for
 * bfloat16 (its bits, as uint16 or as two opaque bytes). */
#ifndef PRESIL_NPY_H
#define PRESIL_NPY_H

#include <stddef.h>
#include <stdint.h>

#define NPY_DIMS 8

typedef struct {
    uint32_t dtype, ndim; /* presil_dtype */
    int64_t shape[NPY_DIMS];
    void *data; /* C order; freed by npy_free */
    uint64_t bytes;
} npy_array;

/* 0, or -1 with text: which file, what was expected, what was found. */
int npy_read(const char *path, npy_array *out, char *text, size_t text_bytes);
int npy_write(const char *path, const npy_array *array, char *text, size_t text_bytes);
void npy_free(npy_array *array);

#endif
