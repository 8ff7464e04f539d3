# SPDX-License-Identifier: Apache-2.0
"""What presil new-chip's chip has nothing of, added to its C: edits as (text that stands there once, what stands there
instead). Right, they conform; FAULT[name] is what is wrong with them."""

ENTRY = "const presil_chip_ops* presil_chip_entry(void);"
PROBE = ".probe = mine_probe,"

# Weights are packed: to nothing, for a chip that also takes the convolutions and does nothing.
LAYOUTS = [
    (
        ENTRY,
        """static int layout(const presil_chip* chip, const presil_weights_desc* desc, presil_layout** out,
                             uint64_t* bytes, presil_error_buffer* error) {
             *out = malloc(1), *bytes = 4096;
             return PRESIL_OK;
           }
           static int pack(const presil_chip* chip, const presil_layout* layout, const presil_weights_desc* desc,
                           void* to, presil_error_buffer* error) {
             memset(to, 0, 4096);
             return PRESIL_OK;
           }
           static void layout_free(presil_layout* layout) { free(layout); }
           """
        + ENTRY,
    ),
    (PROBE, PROBE + " .layout = layout, .pack = pack, .layout_free = layout_free,"),
]
# Tensors of int8 without gaps.
ACTIVATIONS = [
    (
        ENTRY,
        """static uint64_t count(const presil_operand* t) {
             uint64_t n = 1;
             for (uint32_t i = 0; i < t->ndim; i++) n *= (uint64_t)t->shape[i];
             return n;
           }
           static uint64_t place(const presil_operand* t, uint64_t n) {
             uint64_t at = 0;
             for (uint32_t i = t->ndim; i-- > 0; n /= (uint64_t)t->shape[i])
               at += n % (uint64_t)t->shape[i] * (uint64_t)t->stride[i];
             return at;
           }
           static int activation(const presil_chip* chip, const presil_op* op, const presil_operand* t,
                                 const presil_layout** out, uint64_t* bytes) {
             static char dense;
             if (t->dtype != PRESIL_INT8) return PRESIL_EUNSUPPORTED;
             *out = (const presil_layout*)&dense, *bytes = count(t);
             return PRESIL_OK;
           }
           static int pack(const presil_chip* chip, const presil_operand* t, const void* strided, void* packed) {
             for (uint64_t n = 0; n < count(t); n++) ((char*)packed)[n] = ((const char*)strided)[place(t, n)];
             return PRESIL_OK;
           }
           static int unpack(const presil_chip* chip, const presil_operand* t, const void* packed, void* strided) {
             for (uint64_t n = 0; n < count(t); n++) ((char*)strided)[place(t, n)] = ((const char*)packed)[n];
             return PRESIL_OK;
           }
           """
        + ENTRY,
    ),
    (PROBE, PROBE + " .activation = activation, .pack_activation = pack, .unpack_activation = unpack,"),
]
# Before each product B is copied to scratch memory.
SCRATCH = [
    (
        "static int mine_plan_info(",
        """static int product_of(const presil_plan* plan) { return plan->commands[0].control == MINE_MULTIPLY; }
           static int mine_plan_info(""",
    ),
    (
        ".segments = plan->count,",
        """.segments = product_of(plan) ? 2 * plan->count : plan->count,
           .scratch_bytes =
               product_of(plan) ? (plan->commands->n - 1) * plan->commands->b_stride + plan->commands->k : 0,
           .scratch_alignment = MINE_WORD,""",
    ),
    (
        "const command* c = &plan->commands[segment];",
        """command own = plan->commands[product_of(plan) ? segment / 2 : segment];
           const uint64_t scratch = memory->scratch.value;
           const command copy = {.a = own.b, .c = scratch, .m = own.n, .k = own.k, .a_stride = own.b_stride,
                                 .c_stride = own.b_stride, .control = MINE_COPY};
           if (product_of(plan)) own.b = scratch;
           if (product_of(plan) && segment % 2 == 0) own = copy;
           const command* c = &own;""",
    ),
]
# The chip's C counts the bytes of what it starts, and says them before.
USAGE = [
    ("char unused;", "uint64_t read, written;"),
    (
        "static int mine_submit(",
        """static uint64_t read_by(const command* c) { return (uint64_t)(c->m + c->n) * c->k; }
           static uint64_t written_by(const command* c) {
             return (uint64_t)c->m * (c->control == MINE_COPY ? c->k : 4 * c->n);
           }
           static int mine_submit(""",
    ),
    (
        "const command* c = &plan->commands[segment];",
        """const command* c = &plan->commands[segment];
           chip->read = read_by(c), chip->written = written_by(c);""",
    ),
    (
        "out->descriptors += 1;",
        "out->descriptors += 1; out->read_bytes += chip->read; out->write_bytes += chip->written;",
    ),
    (
        ENTRY,
        """static int usage(const presil_chip* chip, const presil_plan* plan, presil_usage_tell tell, void* context) {
             presil_traffic row = {.name = "all", .role = PRESIL_TRAFFIC_OTHER};
             for (uint32_t i = 0; i < plan->count; i++) {
               row.read_bytes += read_by(&plan->commands[i]);
               row.write_bytes += written_by(&plan->commands[i]);
             }
             tell(context, &(presil_usage){.size = sizeof(presil_usage), .traffic_count = 1, .traffic = &row});
             return PRESIL_OK;
           }
           """
        + ENTRY,
    ),
    (PROBE, PROBE + " .usage = usage,"),
]
# For each row of A: the memory's answer, the row, then all of B, or the writes of a copy.
WORK = [
    (
        ENTRY,
        """static uint64_t cycles_of(const command* c) {
             const uint64_t beats = (c->k + 15) / 16;
             if (c->control == MINE_COPY) return 200 + c->m * (100 + 3 * beats);
             return 100 + c->m * (200 + beats + c->n * (beats < 2 ? 2 : beats));
           }
           static int work(const presil_chip* chip, const presil_plan* plan, const char* simulator, presil_work* out) {
             presil_work own = {.kind = plan->macs != 0, .count = 1, .amounts = {plan->count}};
             for (uint32_t i = 0; i < plan->count; i++) own.cycles += cycles_of(&plan->commands[i]);
             presil_give(out, &own, sizeof own);
             return PRESIL_OK;
           }
           """
        + ENTRY,
    ),
    (PROBE, PROBE + " .work = work,"),
]
ADDED = {"layouts": LAYOUTS, "activations": ACTIVATIONS, "scratch": SCRATCH, "usage": USAGE, "work": WORK}
# check -> (what is right, what is wrong); of "layouts" nothing is right
FAULT = {
    "activations": ("= ((const char*)strided)[place(t, n)]", "= ((const char*)strided)[place(t, n)] & ~1"),
    "usage": ("row.read_bytes += read_by(&plan->commands[i]);", "row.read_bytes = read_by(&plan->commands[i]);"),
    "work": ("own.cycles += cycles_of(&plan->commands[i]);", "own.cycles = 1000;"),
    "scratch": ("scratch = memory->scratch.value;", "scratch = memory->scratch.value + MINE_WORD;"),
}
