/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights: changed in stream order, refused where they are others, in a place of the caller's; with and without
 * a mapping. */
#include "core_fixture.h"
#include "presil_image.h"

enum { CHANNELS = 8, PIXELS = 4, OUTPUTS = CHANNELS * PIXELS };

typedef struct {
    presil_daddr input, output[2];
    float values[OUTPUTS];
} pixels;

static pixels pixels_alloc(presil_device *d) {
    pixels p;
    for (int i = 0; i < OUTPUTS; i++) p.values[i] = (float)(i % 11 - 5);
    EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof p.values, &p.input));
    for (int i = 0; i < 2; i++) EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof p.values, &p.output[i]));
    EXPECT_OK(presil_copy_to_device(d, NULL, p.input, p.values, sizeof p.values, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    return p;
}

static void pixels_free(presil_device *d, const pixels *p) {
    EXPECT_OK(presil_free(d, p->input));
    for (int i = 0; i < 2; i++) EXPECT_OK(presil_free(d, p->output[i]));
}

/* A kernel of one position: factor times the unit matrix. */
static presil_weights_desc scaling(float factor, float weight[CHANNELS * CHANNELS]) {
    for (int i = 0; i < CHANNELS * CHANNELS; i++) weight[i] = i % (CHANNELS + 1) == 0 ? factor : 0;
    return (presil_weights_desc){.size = sizeof(presil_weights_desc),
                                 .compute = PRESIL_COMPUTE_BF16,
                                 .weight = weight,
                                 .weight_dtype = PRESIL_FP32,
                                 .groups = 1,
                                 .shape = {CHANNELS, CHANNELS, 1, 1},
                                 .stride = {CHANNELS, 1, 1, 1},
                                 .dilation = {1, 1},
                                 .input_dilation = {1, 1}};
}

static void convolve(presil_device *d, const pixels *p, const presil_weights *weights, presil_daddr output) {
    presil_tensor t = {
        .dtype = PRESIL_FP32, .ndim = 4, .shape = {1, 1, PIXELS, CHANNELS}, .stride = {OUTPUTS, OUTPUTS, CHANNELS, 1}};
    presil_conv2d_desc c = {.size = sizeof c,
                            .input = t,
                            .output = t,
                            .weights = weights,
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .input_dilation = {1, 1}};
    c.input.data = p->input;
    c.output.data = output;
    EXPECT_OK(presil_conv2d(d, NULL, &c));
}

static void expect_scaled(presil_device *d, const pixels *p, presil_daddr output, float factor) {
    float got[OUTPUTS];
    EXPECT_OK(presil_copy_to_host(d, NULL, got, output, sizeof got, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    for (int i = 0; i < OUTPUTS; i++) assert_true(got[i] == factor * p->values[i]);
}

/* The first launch is still queued when the weights change. */
static void change_in_order(void **state) {
    (void)state;
    static const char *const builds[] = {"soft", "nomap"};
    for (int b = 0; b < 2; b++) {
        presil_device *d = open_device(b ? PRESIL_MODE_RTL : PRESIL_MODE_MODEL, builds[b]);
        const pixels p = pixels_alloc(d);
        float weight[CHANNELS * CHANNELS];
        presil_weights_desc desc = scaling(2, weight);
        presil_weights *weights;
        EXPECT_OK(presil_weights_create(d, &desc, &weights));
        convolve(d, &p, weights, p.output[0]);
        desc = scaling(-3, weight);
        EXPECT_OK(presil_weights_update(weights, &desc));
        convolve(d, &p, weights, p.output[1]);
        memset(weight, 0, sizeof weight); /* read during the call */
        expect_scaled(d, &p, p.output[0], 2);
        expect_scaled(d, &p, p.output[1], -3);
        desc = scaling(4, weight); /* and on an idle device, in place */
        EXPECT_OK(presil_weights_update(weights, &desc));
        convolve(d, &p, weights, p.output[0]);
        expect_scaled(d, &p, p.output[0], 4);
        presil_weights_destroy(weights);
        pixels_free(d, &p);
        presil_device_close(d);
        assert_string_equal(log_text(), "");
    }
}

static void others_are_refused(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    const pixels p = pixels_alloc(d);
    float weight[CHANNELS * CHANNELS];
    const presil_weights_desc good = scaling(2, weight);
    presil_weights *weights;
    EXPECT_OK(presil_weights_create(d, &good, &weights));
    presil_weights_desc wrong[6];
    for (int i = 0; i < 6; i++) wrong[i] = good;
    wrong[0].shape[0] = CHANNELS / 2;
    wrong[1].compute = PRESIL_COMPUTE_FP32;
    wrong[2].weight_dtype = PRESIL_BF16;
    wrong[3].groups = 2;
    wrong[4].dilation[1] = 2;
    wrong[5].input_dilation[0] = 2;
    for (int i = 0; i < 6; i++) {
        EXPECT_STATUS(presil_weights_update(weights, &wrong[i]), PRESIL_EINVAL);
        EXPECT_TEXT("differ from those that were packed");
    }
    presil_weights_desc none = good;
    none.weight = NULL;
    EXPECT_STATUS(presil_weights_update(weights, &none), PRESIL_EINVAL);
    EXPECT_STATUS(presil_weights_update(NULL, &good), PRESIL_EINVAL);
    EXPECT_STATUS(presil_weights_update(weights, NULL), PRESIL_EINVAL);
    convolve(d, &p, weights, p.output[0]);
    expect_scaled(d, &p, p.output[0], 2);
    presil_weights_destroy(weights);
    pixels_free(d, &p);
    presil_device_close(d);
}

/* What was packed with a bias has a place for one, and nothing else has. */
static void bias_and_scale_stay_or_stay_away(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    const pixels p = pixels_alloc(d);
    const float zeros[CHANNELS] = {0};
    float weight[CHANNELS * CHANNELS], ones[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) ones[i] = 1;
    for (int had = 0; had < 4; had++) {
        presil_weights_desc desc = scaling(2, weight);
        presil_weights *weights;
        if (had & 1) desc.bias = zeros;
        if (had & 2) desc.scale = ones;
        EXPECT_OK(presil_weights_create(d, &desc, &weights));
        for (int has = 0; has < 4; has++) {
            desc = scaling(3, weight);
            if (has & 1) desc.bias = zeros;
            if (has & 2) desc.scale = ones;
            if (has == had) continue;
            EXPECT_STATUS(presil_weights_update(weights, &desc), PRESIL_EINVAL);
            EXPECT_TEXT((has ^ had) & 1 ? "bias" : "scale");
        }
        convolve(d, &p, weights, p.output[0]);
        expect_scaled(d, &p, p.output[0], 2);
        presil_weights_destroy(weights);
    }
    pixels_free(d, &p);
    presil_device_close(d);
}

static void in_a_place_of_the_callers(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    const pixels p = pixels_alloc(d);
    float weight[CHANNELS * CHANNELS];
    const presil_weights_desc desc = scaling(5, weight);
    presil_weights *weights;
    presil_daddr place;
    EXPECT_OK(presil_weights_create(d, &desc, &weights));
    const uint64_t bytes = presil_weights_bytes(weights);
    presil_weights_destroy(weights);
    EXPECT_OK(presil_alloc(d, NULL, NULL, bytes, &place));
    EXPECT_STATUS(presil_weights_create_at(d, &desc, place, bytes - 1, &weights), PRESIL_ENOMEM);
    EXPECT_STATUS(presil_weights_create_at(d, &desc, (presil_daddr){place.value + 64}, bytes, &weights), PRESIL_EINVAL);
    EXPECT_TEXT("4 KiB-aligned");
    EXPECT_STATUS(presil_weights_create_at(d, &desc, (presil_daddr){1ull << 50}, bytes, &weights), PRESIL_EINVAL);
    EXPECT_OK(presil_weights_create_at(d, &desc, place, bytes, &weights));
    convolve(d, &p, weights, p.output[0]);
    expect_scaled(d, &p, p.output[0], 5);
    presil_weights_destroy(weights);
    EXPECT_OK(presil_free(d, place)); /* it stayed the caller's */
    pixels_free(d, &p);
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

/* 1 and 2 as fp16: the twin has it, and a chip whose CAP_FEATURES.fp16 is 0 refuses weights and tensors. */
static void fp16_where_the_chip_has_it(void **state) {
    (void)state;
    const uint16_t two[CHANNELS] = {0x4000}, one[CHANNELS] = {0x3c00, 0x3c00, 0x3c00, 0x3c00};
    for (int has = 0; has < 2; has++) {
        presil_device *d = open_device(has ? PRESIL_MODE_MODEL : PRESIL_MODE_RTL, "soft");
        if (!has) EXPECT_OK(presil_device_start(d));
        const presil_weights_desc desc = {.size = sizeof desc,
                                          .compute = PRESIL_COMPUTE_FP16,
                                          .weight = two,
                                          .weight_dtype = PRESIL_FP16,
                                          .groups = 1,
                                          .shape = {1, 1, 1, 1},
                                          .stride = {1, 1, 1, 1}};
        presil_conv2d_desc c = {.size = sizeof c, .stride = {1, 1}, .compute = PRESIL_COMPUTE_FP16};
        c.input = (presil_tensor){.dtype = PRESIL_FP16, .ndim = 4, .shape = {1, 1, 4, 1}, .stride = {4, 4, 1, 1}};
        c.output = c.input;
        presil_daddr input, output;
        EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof one, &input));
        EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof one, &output));
        EXPECT_OK(presil_copy_to_device(d, NULL, input, one, sizeof one, PRESIL_COPY_DIRECT));
        c.input.data = input, c.output.data = output;
        if (has) {
            presil_weights *weights;
            uint16_t got[4];
            EXPECT_OK(presil_weights_create(d, &desc, &weights));
            c.weights = weights;
            EXPECT_OK(presil_conv2d(d, NULL, &c));
            EXPECT_OK(presil_copy_to_host(d, NULL, got, output, sizeof got, PRESIL_COPY_DIRECT));
            EXPECT_OK(presil_device_synchronize(d));
            for (int i = 0; i < 4; i++) assert_int_equal(got[i], two[0]);
            presil_weights_destroy(weights);
        } else {
            presil_weights *none;
            EXPECT_STATUS(presil_weights_create(d, &desc, &none), PRESIL_EUNSUPPORTED);
            EXPECT_TEXT("the weights: fp16, of which this chip has no products");
            c.kernel = (presil_tensor){
                .data = input, .dtype = PRESIL_FP16, .ndim = 4, .shape = {1, 1, 1, 1}, .stride = {1, 1, 1, 1}};
            EXPECT_STATUS(presil_conv2d(d, NULL, &c), PRESIL_EUNSUPPORTED);
            EXPECT_TEXT("fp16, of which this chip has no products");
        }
        EXPECT_OK(presil_free(d, input));
        EXPECT_OK(presil_free(d, output));
        presil_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(change_in_order), cmocka_unit_test(others_are_refused),
                                       cmocka_unit_test(bias_and_scale_stay_or_stay_away),
                                       cmocka_unit_test(in_a_place_of_the_callers),
                                       cmocka_unit_test(fp16_where_the_chip_has_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
