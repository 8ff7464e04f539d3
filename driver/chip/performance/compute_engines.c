/* SPDX-License-Identifier: Apache-2.0 */
/* presil_matrix with presil_agen and presil_weights; presil_epilogue. */
#include "performance.h"

/* From a row's grant until it is in the accumulators; from a row's last step to its first word's write. */
enum { ROW_TO_DONE = 9, STEP_TO_WORD = 8, DIVISION = 16 };

/* ---- MATRIX */
void matrix_look(performance *p) {
    matrix_engine *m = &p->matrix;
    m->take = m->row_valid && m->full;
    const int32_t row = m->take && !m->row_pad ? m->row_bank : NO_BANK;
    const bool wants = m->weights && (m->cell || m->begun != 2);
    const int32_t bank = wants ? bank_of(p, m->word) : NO_BANK;
    m->weight = wants && bank != row;
    p->read[0] = row;
    p->read[1] = m->weight ? bank : NO_BANK;
    p->queue[MATRIX].done = m->done & 1;
}

/* Where a position lies; -1: outside. */
static int64_t inside(int64_t at, int64_t dilation, int64_t limit) {
    if (at < 0 || (dilation > 1 && at % dilation)) return -1;
    const int64_t n = dilation > 1 ? at / dilation : at;
    return n < limit ? n : -1;
}

static void offer_row(const performance *p, matrix_engine *m) {
    const presil_desc *d = m->run;
    const int64_t x = inside(presil_matrix_ox(d) + (int64_t)m->x * presil_matrix_sx(d) +
                                 (int64_t)m->kx * presil_matrix_dx(d),
                             presil_matrix_idx(d), presil_matrix_lim_x(d)),
                  y = inside(presil_matrix_oy(d) + (int64_t)m->y * presil_matrix_sy(d) +
                                 (int64_t)m->ky * presil_matrix_dy(d),
                             presil_matrix_idy(d), presil_matrix_lim_y(d));
    m->row_valid = true;
    m->row_pad = x < 0 || y < 0;
    m->row_bank = bank_of(p, (presil_matrix_act_base(d) + x * presil_matrix_x_stride(d) +
                              y * presil_matrix_y_stride(d) + (int64_t)m->cb * presil_matrix_cb_stride(d)) &
                                 0xffff);
    m->row_end = m->row_last = false;
    if (++m->x < presil_matrix_nx(d)) return;
    m->x = 0;
    if (++m->y < presil_matrix_ny(d)) return;
    m->y = 0;
    m->row_end = true;
    if (++m->kx < presil_matrix_kx(d)) return;
    m->kx = 0;
    if (++m->ky < presil_matrix_ky(d)) return;
    m->ky = 0;
    if (++m->cb < presil_matrix_ncb(d)) return;
    m->cb = 0;
    m->row_last = true;
    m->run = NULL;
}

static void step_weights(const performance *p, matrix_engine *m, bool block_done, bool begins) {
    const bool block_end =
        m->weight && (presil_matrix_depthwise(m->weights) ? m->words == 1 : m->cell + 1 == p->config->cells);
    m->begun = m->begun + (m->weight && !m->cell) - block_done;
    m->full = m->full + block_end - block_done;
    if (m->weight) {
        m->word = (uint32_t)chip_weight_word(m->weights, ++m->weight_number) & 0xffff;
        m->cell = block_end ? 0 : m->cell + 1;
        if (!--m->words) m->weights = NULL;
    }
    if (!begins) return;
    const presil_desc *d = p->queue[MATRIX].start;
    m->weights = d;
    m->word = presil_matrix_wgt_base(d);
    m->weight_number = 0;
    m->words = (uint32_t)chip_weight_words(p->config, d);
}

void matrix_step(performance *p) {
    matrix_engine *m = &p->matrix;
    engine_queue *q = &p->queue[MATRIX];
    q->begins = starts(q, !m->set && (!m->weights || (m->weight && m->words == 1)));
    const bool block_done = m->take && m->row_end, load = m->set && !m->divide,
               advances = m->run && (!m->row_valid || m->take);
    m->done >>= 1;
    if (m->take && m->row_last) m->done |= 1u << (ROW_TO_DONE - 1);
    if (m->set && m->divide) m->divide--;
    if (m->take) m->row_valid = false;
    p->done.rows += m->take;
    if (m->take) m->flows_until = p->now + ROW_TO_DONE;
    if (advances) offer_row(p, m);
    if (load && !m->run) {
        m->run = m->set;
        m->set = NULL;
    }
    step_weights(p, m, block_done, q->begins);
    if (q->begins) {
        m->walked_at ^= 1;
        m->walked[m->walked_at] = chip_walked(q->start);
        m->set = &m->walked[m->walked_at];
        m->divide = presil_matrix_idx(q->start) == 1 && presil_matrix_idy(q->start) == 1 ? 0 : DIVISION;
        m->held++;
    }
    if (q->done) m->held--;
}

/* ---- EPILOGUE */
static uint32_t words_of(const presil_config *c, uint32_t kind) {
    const uint32_t bytes = c->cells * chip_type_bytes(kind);
    return (uint32_t)ceil_div(bytes, c->word_bytes);
}

static uint32_t parameter_words(const presil_config *c) { return 2 * words_of(c, PRESIL_DTYPE_FP32); }

void epilogue_look(performance *p) {
    epilogue_engine *e = &p->epilogue;
    const uint32_t older = e->parameters[e->in] ? e->in : !e->in;
    const bool parameters = e->parameters[older], residual = e->step_no < e->residual_words,
               want = e->running && !e->gap;
    const presil_desc *d = e->slot[e->slot_running];
    int64_t word = -1;
    if (parameters)
        word = presil_epilogue_param_base(e->slot[older]) + e->parameter;
    else if (want && residual)
        word = (presil_epilogue_res_base(d) + e->residual) / p->config->word_bytes + e->step_no;
    const int32_t bank = word < 0 ? NO_BANK : bank_of(p, word);
    const bool granted = word >= 0 && bank != p->read[0] && bank != p->read[1] && bank != p->read[2];
    e->refused = word >= 0 && !granted;
    e->grant = parameters && granted;
    e->step = want && (!residual || (!parameters && granted));
    p->queue[EPILOGUE].done = e->out[p->now % DELAYS].last;
}

static void write_row(performance *p) {
    epilogue_engine *e = &p->epilogue;
    const presil_desc *d = e->slot[e->slot_running];
    const int64_t word = (presil_epilogue_out_base(d) + e->out_row) / p->config->word_bytes;
    for (uint32_t k = 0; k < e->words; k++) {
        const size_t at = (p->now + STEP_TO_WORD + k) % DELAYS;
        e->out[at].bank = bank_of(p, word + k);
        e->out[at].last = e->rows_left == 1 && k + 1 == e->words;
    }
    e->out_row += presil_epilogue_out_pitch(d);
    e->residual += presil_epilogue_res_pitch(d);
    e->step_no = 0;
    if (e->rows_left == 1) {
        e->gap = e->words - 1;
        e->running = false;
    }
    e->rows_left--;
}

static void load_sequencer(performance *p) {
    epilogue_engine *e = &p->epilogue;
    const presil_desc *d = e->slot[e->next];
    const uint32_t type = presil_epilogue_out_type(d);
    const bool residual = presil_epilogue_res_en(d) && type != PRESIL_DTYPE_RAW32;
    e->words = words_of(p->config, type);
    e->residual_words = residual ? words_of(p->config, presil_epilogue_res_type(d)) : 0;
    e->steps = e->residual_words > e->words ? e->residual_words : e->words;
    e->running = true;
    e->fresh[e->next] = false;
    e->slot_running = e->next;
    e->rows_left = presil_epilogue_rows(d);
    e->residual = e->out_row = 0;
    e->step_no = 0;
    e->next = !e->next;
}

void epilogue_step(performance *p) {
    epilogue_engine *e = &p->epilogue;
    engine_queue *q = &p->queue[EPILOGUE];
    const uint32_t older = e->parameters[e->in] ? e->in : !e->in;
    const bool row_end = e->step && e->step_no + 1 == e->steps, ends = row_end && e->rows_left == 1,
               loads = (!e->running || ends) && e->fresh[e->next] && !e->parameters[e->next];
    q->begins = starts(q, !e->held[e->in]);
    e->out[p->now % DELAYS].bank = NO_BANK;
    e->out[p->now % DELAYS].last = false;
    if (e->gap) e->gap--;
    if (row_end)
        write_row(p);
    else if (e->step)
        e->step_no++;
    if (loads) load_sequencer(p);
    if (e->grant && ++e->parameter == parameter_words(p->config)) {
        e->parameter = 0;
        e->parameters[older] = false;
    }
    if (q->done) {
        e->held[e->out_slot] = false;
        e->out_slot = !e->out_slot;
    }
    if (!q->begins) return;
    e->slot[e->in] = q->start;
    e->held[e->in] = e->fresh[e->in] = true;
    e->parameters[e->in] = presil_epilogue_bias_en(q->start) || presil_epilogue_scale_en(q->start);
    e->in = !e->in;
}
