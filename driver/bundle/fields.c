/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of every record: tag, kind, name, and where the value lies in the struct of presil_bundle.h. Encoding,
 * decoding and `presil-bundle convert` go by these tables alone; docs/bundle.md has the same rows. */
#include "format.h"

#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))
#define WIDTH(type, member) ((uint8_t)sizeof(((type *)0)->member))
#define ROW(type, tag_, kind_, name_)                                                                                  \
    {.tag = tag_, .kind = kind_, .width = WIDTH(type, name_), .offset = offsetof(type, name_), .name = #name_}
#define COUNTED(type, tag_, kind_, name_, member, counter, many_, array_, group_)                                      \
    {.tag = tag_,                                                                                                      \
     .kind = kind_,                                                                                                    \
     .many = many_,                                                                                                    \
     .array = array_,                                                                                                  \
     .width = 8,                                                                                                       \
     .count_width = WIDTH(type, counter),                                                                              \
     .offset = offsetof(type, member),                                                                                 \
     .count_offset = offsetof(type, counter),                                                                          \
     .group = group_,                                                                                                  \
     .name = name_}
#define TEXTS(type, tag, name, member, counter) COUNTED(type, tag, BUNDLE_TEXT, name, member, counter, 1, 0, NULL)
#define GROUPS(type, tag, name, member, counter, group)                                                                \
    COUNTED(type, tag, BUNDLE_GROUP, name, member, counter, 1, 0, group)
#define ARRAY(type, tag, kind, name, counter) COUNTED(type, tag, kind, #name, name, counter, 0, 1, NULL)

/* ---- groups */
static const bundle_field pair_rows[] = {
    ROW(presil_bundle_pair, 1, BUNDLE_TEXT, key),
    ROW(presil_bundle_pair, 2, BUNDLE_TEXT, value),
};
static const char *pair_wrong(const void *value) {
    return *((const presil_bundle_pair *)value)->key ? NULL : "a label without a key";
}
static const bundle_fields pair_fields = {"pair", sizeof(presil_bundle_pair), COUNT(pair_rows), pair_rows, pair_wrong};

static const bundle_field counter_rows[] = {
    ROW(presil_bundle_counter, 1, BUNDLE_TEXT, name),
    ROW(presil_bundle_counter, 2, BUNDLE_TEXT, unit),
};
static const bundle_fields counter_fields = {"counter", sizeof(presil_bundle_counter), COUNT(counter_rows),
                                             counter_rows, NULL};

static const bundle_field tensor_rows[] = {
    ROW(presil_bundle_tensor, 1, BUNDLE_TEXT, name),         ROW(presil_bundle_tensor, 2, BUNDLE_TEXT, dtype),
    ROW(presil_bundle_tensor, 3, BUNDLE_U64, data),          ROW(presil_bundle_tensor, 4, BUNDLE_U64, element_bytes),
    ARRAY(presil_bundle_tensor, 5, BUNDLE_I64, shape, ndim), ARRAY(presil_bundle_tensor, 6, BUNDLE_I64, stride, ndim),
    ROW(presil_bundle_tensor, 7, BUNDLE_U64, written),       ROW(presil_bundle_tensor, 8, BUNDLE_U64, element_bits),
};
static const char *tensor_wrong(const void *value) {
    const presil_bundle_tensor *t = value;
    return t->ndim && (!t->shape || !t->stride) ? "a tensor with a shape or with strides, not both" : NULL;
}
static const bundle_fields tensor_fields = {"tensor", sizeof(presil_bundle_tensor), COUNT(tensor_rows), tensor_rows,
                                            tensor_wrong};

static const bundle_field difference_rows[] = {
    ROW(presil_bundle_difference, 1, BUNDLE_U64, present),  ROW(presil_bundle_difference, 2, BUNDLE_U64, address),
    ROW(presil_bundle_difference, 3, BUNDLE_U64, expected), ROW(presil_bundle_difference, 4, BUNDLE_U64, found),
    ROW(presil_bundle_difference, 5, BUNDLE_U64, bytes),    ROW(presil_bundle_difference, 6, BUNDLE_U64, cycle),
    ROW(presil_bundle_difference, 7, BUNDLE_TEXT, text),
};
static const bundle_fields difference_fields = {"difference", sizeof(presil_bundle_difference), COUNT(difference_rows),
                                                difference_rows, NULL};

static const bundle_field operand_rows[] = {
    ROW(presil_bundle_operand, 1, BUNDLE_TEXT, name),         ROW(presil_bundle_operand, 2, BUNDLE_TEXT, dtype),
    ROW(presil_bundle_operand, 3, BUNDLE_U64, data),          ROW(presil_bundle_operand, 4, BUNDLE_U64, packed),
    ARRAY(presil_bundle_operand, 5, BUNDLE_I64, shape, ndim), ARRAY(presil_bundle_operand, 6, BUNDLE_I64, stride, ndim),
};
static const char *operand_wrong(const void *value) {
    const presil_bundle_operand *t = value;
    return t->ndim && (!t->shape || !t->stride) ? "an operand with a shape or with strides, not both" : NULL;
}
static const bundle_fields operand_fields = {"operand", sizeof(presil_bundle_operand), COUNT(operand_rows),
                                             operand_rows, operand_wrong};

static const bundle_field attribute_rows[] = {
    ROW(presil_bundle_attribute, 1, BUNDLE_TEXT, name),
    ARRAY(presil_bundle_attribute, 2, BUNDLE_I64, integers, integer_count),
    ARRAY(presil_bundle_attribute, 3, BUNDLE_U64, reals, real_count),
    ROW(presil_bundle_attribute, 4, BUNDLE_TEXT, text),
};
static const bundle_fields attribute_fields = {"attribute", sizeof(presil_bundle_attribute), COUNT(attribute_rows),
                                               attribute_rows, NULL};

static const bundle_field step_rows[] = {
    ROW(presil_bundle_step, 1, BUNDLE_TEXT, kind),      ROW(presil_bundle_step, 2, BUNDLE_I64, input),
    ROW(presil_bundle_step, 3, BUNDLE_U64, scale_bits), ROW(presil_bundle_step, 4, BUNDLE_U64, low_bits),
    ROW(presil_bundle_step, 5, BUNDLE_U64, high_bits),  ROW(presil_bundle_step, 6, BUNDLE_I64, zero_point),
    ROW(presil_bundle_step, 7, BUNDLE_I64, int_low),    ROW(presil_bundle_step, 8, BUNDLE_I64, int_high),
};
static const bundle_fields step_fields = {"step", sizeof(presil_bundle_step), COUNT(step_rows), step_rows, NULL};

static const bundle_field asked_rows[] = {
    ROW(presil_bundle_asked, 1, BUNDLE_U64, present),
    ROW(presil_bundle_asked, 2, BUNDLE_TEXT, kind),
    ROW(presil_bundle_asked, 3, BUNDLE_U64, compute),
    ROW(presil_bundle_asked, 4, BUNDLE_U64, tiling),
    GROUPS(presil_bundle_asked, 5, "inputs", inputs, input_count, &operand_fields),
    GROUPS(presil_bundle_asked, 6, "outputs", outputs, output_count, &operand_fields),
    GROUPS(presil_bundle_asked, 7, "attributes", attributes, attribute_count, &attribute_fields),
    GROUPS(presil_bundle_asked, 8, "steps", steps, step_count, &step_fields),
    ARRAY(presil_bundle_asked, 9, BUNDLE_BYTES, bias, bias_bytes),
    ARRAY(presil_bundle_asked, 10, BUNDLE_BYTES, scale, scale_bytes),
};
static const bundle_fields asked_fields = {"asked", sizeof(presil_bundle_asked), COUNT(asked_rows), asked_rows, NULL};

/* ---- records */
static const bundle_field chip_rows[] = {
    ROW(presil_bundle_chip, 1, BUNDLE_TEXT, chip),
    ROW(presil_bundle_chip, 2, BUNDLE_TEXT, config),
    ROW(presil_bundle_chip, 3, BUNDLE_TEXT, build),
    ROW(presil_bundle_chip, 4, BUNDLE_TEXT, transport),
    ROW(presil_bundle_chip, 5, BUNDLE_TEXT, simulator),
    ROW(presil_bundle_chip, 6, BUNDLE_TEXT, rtl_hash),
    ROW(presil_bundle_chip, 7, BUNDLE_TEXT, library_hash),
    ROW(presil_bundle_chip, 8, BUNDLE_TEXT, memory_model),
    ROW(presil_bundle_chip, 9, BUNDLE_TEXT, presil_version),
    ROW(presil_bundle_chip, 10, BUNDLE_TEXT, torch_version),
    ROW(presil_bundle_chip, 16, BUNDLE_U64, config_hash),
    ROW(presil_bundle_chip, 17, BUNDLE_U64, clock_mhz),
    ROW(presil_bundle_chip, 18, BUNDLE_U64, memory_base),
    ROW(presil_bundle_chip, 19, BUNDLE_U64, memory_bytes),
    ROW(presil_bundle_chip, 20, BUNDLE_U64, seed),
    ROW(presil_bundle_chip, 21, BUNDLE_U64, hang_cycles),
    ROW(presil_bundle_chip, 22, BUNDLE_U64, abi_chip),
    ROW(presil_bundle_chip, 23, BUNDLE_U64, abi_transport),
    ROW(presil_bundle_chip, 24, BUNDLE_U64, capabilities),
    TEXTS(presil_bundle_chip, 32, "engines", engines, engine_count),
    TEXTS(presil_bundle_chip, 33, "causes", causes, cause_count),
    GROUPS(presil_bundle_chip, 34, "counters", counters, counter_count, &counter_fields),
};
static const bundle_fields chip_fields = {"CHIP", sizeof(presil_bundle_chip), COUNT(chip_rows), chip_rows, NULL};

static const bundle_field launch_rows[] = {
    ROW(presil_bundle_launch, 1, BUNDLE_U64, chip),
    ROW(presil_bundle_launch, 2, BUNDLE_U64, launch),
    ROW(presil_bundle_launch, 3, BUNDLE_U64, mode),
    ROW(presil_bundle_launch, 4, BUNDLE_TEXT, label),
    ROW(presil_bundle_launch, 5, BUNDLE_ID, commands),
    ROW(presil_bundle_launch, 6, BUNDLE_U64, signature),
    ROW(presil_bundle_launch, 7, BUNDLE_U64, macs),
    ROW(presil_bundle_launch, 8, BUNDLE_U64, passes),
    ROW(presil_bundle_launch, 9, BUNDLE_U64, peak_macs_per_cycle),
    ROW(presil_bundle_launch, 10, BUNDLE_U64, descriptors),
    ROW(presil_bundle_launch, 11, BUNDLE_U64, segments),
    ROW(presil_bundle_launch, 12, BUNDLE_U64, estimate),
    ROW(presil_bundle_launch, 13, BUNDLE_U64, origin),
    ROW(presil_bundle_launch, 14, BUNDLE_U64, tag),
    ROW(presil_bundle_launch, 15, BUNDLE_U64, scratch),
    ROW(presil_bundle_launch, 16, BUNDLE_U64, scratch_bytes),
    ROW(presil_bundle_launch, 20, BUNDLE_MEMORY, reads),
    ROW(presil_bundle_launch, 21, BUNDLE_MEMORY, expected),
    GROUPS(presil_bundle_launch, 22, "labels", labels, label_count, &pair_fields),
    GROUPS(presil_bundle_launch, 23, "tensors", tensors, tensor_count, &tensor_fields),
    {.tag = 24,
     .kind = BUNDLE_GROUP,
     .offset = offsetof(presil_bundle_launch, asked),
     .group = &asked_fields,
     .name = "asked"},
};
static const bundle_fields launch_fields = {"LAUNCH", sizeof(presil_bundle_launch), COUNT(launch_rows), launch_rows,
                                            NULL};

static const bundle_field result_rows[] = {
    ROW(presil_bundle_result, 1, BUNDLE_U64, chip),
    ROW(presil_bundle_result, 2, BUNDLE_U64, launch),
    ROW(presil_bundle_result, 3, BUNDLE_TEXT, executor),
    ROW(presil_bundle_result, 4, BUNDLE_I64, status),
    ROW(presil_bundle_result, 5, BUNDLE_TEXT, error),
    ROW(presil_bundle_result, 6, BUNDLE_I64, verified),
    ROW(presil_bundle_result, 7, BUNDLE_U64, cycles),
    ROW(presil_bundle_result, 8, BUNDLE_U64, fill),
    ROW(presil_bundle_result, 9, BUNDLE_U64, drain),
    ROW(presil_bundle_result, 10, BUNDLE_U64, sim_ns),
    ROW(presil_bundle_result, 11, BUNDLE_U64, twin_ns),
    ROW(presil_bundle_result, 12, BUNDLE_U64, host_ns),
    ARRAY(presil_bundle_result, 13, BUNDLE_U64, stalls, stall_count),
    ARRAY(presil_bundle_result, 14, BUNDLE_U64, counters, counter_count),
    ROW(presil_bundle_result, 20, BUNDLE_MEMORY, writes),
    {.tag = 21,
     .kind = BUNDLE_GROUP,
     .offset = offsetof(presil_bundle_result, difference),
     .group = &difference_fields,
     .name = "difference"},
    ARRAY(presil_bundle_result, 22, BUNDLE_RANGES, stray, stray_count),
    ARRAY(presil_bundle_result, 23, BUNDLE_RANGES, missing, missing_count),
};
static const bundle_fields result_fields = {"RESULT", sizeof(presil_bundle_result), COUNT(result_rows), result_rows,
                                            NULL};

static const bundle_field attachment_rows[] = {
    ROW(presil_bundle_attachment, 1, BUNDLE_TEXT, name),
    ROW(presil_bundle_attachment, 2, BUNDLE_TEXT, media_type),
    ROW(presil_bundle_attachment, 3, BUNDLE_U64, has_launch),
    ROW(presil_bundle_attachment, 4, BUNDLE_U64, chip),
    ROW(presil_bundle_attachment, 5, BUNDLE_U64, launch),
    ARRAY(presil_bundle_attachment, 6, BUNDLE_BYTES, data, bytes),
};
const char *bundle_attachment_name_wrong(const char *name) {
    const size_t length = strlen(name);
    if (length < 1 || length > 255 || *name == '.') return "an attachment's name is empty, too long or hidden";
    for (const char *c = name; *c; c++) {
        if (*c == '/' || (unsigned char)*c < ' ' || *c == 127) return "an attachment's name is no name of a file";
    }
    return NULL;
}
static const char *attachment_wrong(const void *value) {
    return bundle_attachment_name_wrong(((const presil_bundle_attachment *)value)->name);
}
static const bundle_fields attachment_fields = {"ATTACHMENT", sizeof(presil_bundle_attachment), COUNT(attachment_rows),
                                                attachment_rows, attachment_wrong};

static const bundle_field labels_rows[] = {
    GROUPS(bundle_labels, 1, "labels", labels, label_count, &pair_fields),
};
static const bundle_fields labels_fields = {"LABELS", sizeof(bundle_labels), COUNT(labels_rows), labels_rows, NULL};

static const bundle_field end_rows[] = {
    ROW(bundle_end, 1, BUNDLE_U64, records),
    ROW(bundle_end, 2, BUNDLE_U64, launches),
    ARRAY(bundle_end, 3, BUNDLE_BYTES, headers, headers_bytes),
};
static const bundle_fields end_fields = {"END", sizeof(bundle_end), COUNT(end_rows), end_rows, NULL};

const bundle_fields *bundle_fields_of(unsigned type) {
    static const bundle_fields *const tables[] = {
        [PRESIL_BUNDLE_CHIP] = &chip_fields,     [PRESIL_BUNDLE_LAUNCH] = &launch_fields,
        [PRESIL_BUNDLE_RESULT] = &result_fields, [PRESIL_BUNDLE_ATTACHMENT] = &attachment_fields,
        [PRESIL_BUNDLE_LABELS] = &labels_fields, [PRESIL_BUNDLE_END] = &end_fields,
    };
    return type < COUNT(tables) ? tables[type] : NULL;
}

const char *bundle_type_name(unsigned type) {
    const bundle_fields *fields = bundle_fields_of(type);
    return fields ? fields->name : type == PRESIL_BUNDLE_BLOCK ? "BLOCK" : NULL;
}

const bundle_field *bundle_field_of(const bundle_fields *fields, unsigned tag) {
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->at[i].tag == tag) return &fields->at[i];
    }
    return NULL;
}
