/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded lists at a chip with layouts of its own: what is packed, converted before each launch, and kept in place. */
#include "layouts_fixture.h"
#include "presil_debug.h"
#include "presil_image.h"

static void recorded_lists_work_on_tensors_as_they_lie(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES), c = block(d, BYTES);
    fill(d, a, 4);
    EXPECT_OK(neg(d, "out=b", a, b));
    presil_list *list;
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(neg(d, "in=b,out=b", b, c));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_OK(neg(d, "in=x,out=x", c, b));
    EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 1, 2);
    holds(d, c, 4, 1);
    holds(d, b, 4, -1);
    presil_list_destroy(list);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b)), EXPECT_OK(presil_free(d, c));
    closed(d);
}

/* Their blocks outlive what they were packed from, and stay where the recorded commands have them. */
static void recorded_lists_convert_what_the_chip_takes_in_no_other_form(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES), c = block(d, BYTES);
    presil_list *list, *part;
    uint64_t size = 0;
    fill(d, a, 4);
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(neg(d, "in=b,out=b,only", a, b));
    EXPECT_OK(neg(d, "in=b,out=x,only", b, c));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_STATUS(presil_list_merge(list, "both"), PRESIL_EUNSUPPORTED);
    EXPECT_STATUS(presil_list_save(list, a, NULL, &size), PRESIL_EUNSUPPORTED);
    EXPECT_STATUS(presil_list_moved(list, NULL, 0, &part), PRESIL_EUNSUPPORTED);
    EXPECT_STATUS(presil_list_prefix(list, 1, NULL, &part), PRESIL_EINVAL);
    for (int i = 0; i < 3; i++) {
        fill(d, a, 5 + i);
        EXPECT_OK(presil_list_submit(list, NULL));
        EXPECT_OK(presil_device_synchronize(d));
        holds(d, c, 5 + i, 1), holds(d, b, 5 + i, -1);
        converted(d, 1, 2);
    }
    presil_memory_empty_cache(d); /* asks for every block that nobody needs */
    EXPECT_OK(presil_free(d, b));
    const presil_daddr plug = block(d, BYTES), other = block(d, BYTES); /* where b was; where its block is not */
    fill(d, other, 77), fill(d, a, 9);
    EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, c, 9, 1), holds(d, other, 77, 1);
    presil_list_destroy(list);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, c)), EXPECT_OK(presil_free(d, plug));
    EXPECT_OK(presil_free(d, other));
    closed(d);
}

/* Then its blocks go with the device, and its last reference with it. */
static void a_list_may_outlive_its_device(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    presil_list *list;
    fill(d, a, 4);
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(neg(d, "in=b,out=b,only", a, b));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b));
    presil_device_close(d);
    presil_list_destroy(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded_lists_work_on_tensors_as_they_lie),
                                       cmocka_unit_test(recorded_lists_convert_what_the_chip_takes_in_no_other_form),
                                       cmocka_unit_test(a_list_may_outlive_its_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
