/* SPDX-License-Identifier: Apache-2.0 */
/* What reports call this chip's engines, causes and counters (docs/isa.md section 6). */
#include "registers.h"

static const presil_name engines[] = {
    {.name = "load", .meaning = "copies from memory to the scratchpad"},
    {.name = "matrix", .meaning = "multiplies and accumulates", .flags = PRESIL_NAME_ARRAY},
    {.name = "epilogue", .meaning = "takes results out of the accumulators"},
    {.name = "store", .meaning = "copies from the scratchpad to memory"},
    {.name = "vector", .meaning = "runs microprograms over streams; not built yet"},
};

static const presil_name causes[] = {
    [PRESIL_CAUSE_BUSY] = {.name = "busy",
                           .meaning = "moves data or computes",
                           .bound = "compute",
                           .flags = PRESIL_NAME_WORKS},
    [PRESIL_CAUSE_COMMAND] = {.name = "command", .meaning = "has no descriptor"},
    [PRESIL_CAUSE_WAIT_LOAD] = {.name = "wait_load", .meaning = "waits for a token of LOAD", .bound = "load"},
    [PRESIL_CAUSE_WAIT_MATRIX] = {.name = "wait_matrix", .meaning = "waits for a token of MATRIX"},
    [PRESIL_CAUSE_WAIT_EPILOGUE] = {.name = "wait_epilogue",
                                    .meaning = "waits for a token of EPILOGUE",
                                    .bound = "epilogue"},
    [PRESIL_CAUSE_WAIT_STORE] = {.name = "wait_store", .meaning = "waits for a token of STORE", .bound = "store"},
    [PRESIL_CAUSE_WAIT_VECTOR] = {.name = "wait_vector", .meaning = "waits for a token of VECTOR"},
    [PRESIL_CAUSE_WEIGHTS] = {.name = "weights", .meaning = "has a row but no weight set", .bound = "weights"},
    [PRESIL_CAUSE_SCRATCHPAD] = {.name = "scratchpad", .meaning = "lost arbitration for a bank"},
    [PRESIL_CAUSE_BUS_REQUEST] = {.name = "bus_request",
                                  .meaning = "has an address that is not accepted",
                                  .bound = "load"},
    [PRESIL_CAUSE_BUS_DATA] = {.name = "bus_data",
                               .meaning = "waits for read data, or has write data that is not accepted",
                               .bound = "load"},
    [PRESIL_CAUSE_BUS_RESPONSE] = {.name = "bus_response", .meaning = "waits for write responses"},
    [PRESIL_CAUSE_DRAIN] = {.name = "drain", .meaning = "empties its pipeline with nothing else to do"},
    [PRESIL_CAUSE_ERROR] = {.name = "error", .meaning = "stands after an error"},
};

static const presil_name counters[] = {
    {.name = "fetch_beats", .unit = "beats", .meaning = "of the bus, for descriptors"},
};

int chip_names(const presil_chip *chip, presil_names *out) {
    (void)chip;
    const presil_names own = {.engine_count = sizeof engines / sizeof *engines,
                              .cause_count = sizeof causes / sizeof *causes,
                              .counter_count = sizeof counters / sizeof *counters,
                              .engines = engines,
                              .causes = causes,
                              .counters = counters,
                              .commands = "descriptors"};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}
