/* SPDX-License-Identifier: Apache-2.0 */
/* presil-info: what a device is. usage: presil-info [CONFIG [BUILD]] [--rtl] [--transport TRANSPORT]
 * --rtl: load the simulator library, or connect to the server of the transport, and let the chip identify itself */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "presil.h"

static int fail(const char *what) {
    (void)fprintf(stderr, "presil-info: %s: %s\n", what, presil_error_text());
    return 1;
}

static bool has(const presil_device_info *info, uint32_t all) { return (info->known & all) == all; }

/* What means nothing to a chip is not shown. */
static void print_array(const presil_device_info *info) {
    const bool array = has(info, PRESIL_INFO_LANES | PRESIL_INFO_CELLS), clock = has(info, PRESIL_INFO_CLOCK_MHZ);
    if (array)
        (void)printf(
            "array          %u bytes of reduction x %u output channels: %u int8 multiply-accumulates a cycle\n",
            info->lanes, info->cells, info->lanes * info->cells);
    if (has(info, PRESIL_INFO_BANKS | PRESIL_INFO_BANK_WORDS | PRESIL_INFO_WORD_BYTES))
        (void)printf("scratchpad     %u banks x %u words x %u bytes = %llu KiB\n", info->banks, info->bank_words,
                     info->word_bytes, (unsigned long long)info->banks * info->bank_words * info->word_bytes / 1024);
    if (has(info, PRESIL_INFO_ACC_ROWS | PRESIL_INFO_CELLS))
        (void)printf("accumulators   2 x %u rows x %u\n", info->acc_rows, info->cells);
    if (clock) (void)printf("clock          %u MHz", info->clock_mhz);
    if (clock && array) (void)printf(": %.2f int8 TOPS", 2e-6 * info->lanes * info->cells * info->clock_mhz);
    if (clock) (void)puts("");
}

/* Sizes in the chip's own words. */
static void print_properties(presil_device *device) {
    presil_names names = {.size = sizeof names};
    if (presil_device_get_names(device, &names)) return;
    for (uint32_t i = 0; i < names.property_count; i++) {
        const presil_property *p = &names.properties[i];
        (void)printf("%-14s %llu%s%s%s%s\n", p->name, (unsigned long long)p->value, p->unit ? " " : "",
                     p->unit ? p->unit : "", p->meaning ? ", " : "", p->meaning ? p->meaning : "");
    }
}

int main(int argc, char **argv) {
    presil_device_options options = {.size = sizeof options, .mode = PRESIL_MODE_MODEL};
    int position = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--rtl"))
            options.mode = PRESIL_MODE_RTL;
        else if (!strcmp(argv[i], "--transport") && i + 1 < argc)
            options.transport = argv[++i];
        else if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
            return puts("usage: presil-info [CONFIG [BUILD]] [--rtl] [--transport inproc|socket:PATH|board:FILE]") < 0;
        else if (position++ == 0)
            options.config = argv[i];
        else
            options.build = argv[i];
    }
    presil_device *device;
    if (presil_device_open(&options, &device)) return fail("can't open the device");
    presil_device_info info = {.size = sizeof info};
    if ((options.mode == PRESIL_MODE_RTL && presil_device_start(device)) || presil_device_get_info(device, &info)) {
        int status = fail("can't identify the device");
        presil_device_close(device);
        return status;
    }
    (void)printf("driver         %s\n", PRESIL_VERSION);
    (void)printf("chip           %s, configuration %s", info.chip, info.config);
    if (has(&info, PRESIL_INFO_CONFIG_HASH)) (void)printf(" (hash %08x)", info.config_hash);
    (void)puts("");
    (void)printf("transport      %s\n", info.transport);
    if (options.mode == PRESIL_MODE_RTL)
        (void)printf("simulator      %s, build %s\n", info.simulator, info.build);
    else
        (void)printf("simulator      not loaded (--rtl loads it)\n");
    print_array(&info);
    print_properties(device);
    (void)printf("memory         %.1f GiB from 0x%llx\n", (double)info.memory_bytes / (double)(1 << 30),
                 (unsigned long long)info.memory_base.value);
    presil_device_close(device);
    return 0;
}
