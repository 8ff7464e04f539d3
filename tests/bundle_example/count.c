/* SPDX-License-Identifier: Apache-2.0 */
/* Says how many launches a bundle has. */
#include <presil_bundle.h>
#include <stdio.h>

int main(int argc, char **argv) {
    presil_bundle_reader *reader = NULL;
    presil_bundle_summary s = {.size = sizeof s};
    if (argc != 2 || presil_bundle_open(argv[1], NULL, &reader) || presil_bundle_get_summary(reader, &s)) {
        (void)fprintf(stderr, "%s\n", presil_bundle_error_text());
        return 2;
    }
    (void)printf("%llu launches\n", (unsigned long long)s.launches);
    presil_bundle_reader_close(reader);
    return 0;
}
