/* SPDX-License-Identifier: Apache-2.0 */
/* twin_pool.c - a few threads that share the rows of one descriptor. */
#include <pthread.h>
#include <stdlib.h>

#include "twin_internal.h"

typedef struct {
    twin_pool *pool;
    unsigned part;
    pthread_t thread;
} worker;

struct twin_pool {
    pthread_mutex_t lock;
    pthread_cond_t start, finished;
    uint64_t round;
    unsigned parts, running, started;
    int stop;
    void (*work)(void *context, unsigned part, unsigned parts);
    void *context;
    worker workers[]; /* parts - 1: the caller is part 0 */
};

static void *serve(void *argument) {
    worker *w = argument;
    twin_pool *pool = w->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->stop) pthread_cond_wait(&pool->start, &pool->lock);
        if (pool->stop) break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        pool->work(pool->context, w->part, pool->parts);
        pthread_mutex_lock(&pool->lock);
        if (--pool->running == 0) pthread_cond_signal(&pool->finished);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

twin_pool *twin_pool_create(unsigned threads) {
    twin_pool *pool = calloc(1, sizeof *pool + (threads - 1) * sizeof(worker));
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->finished, NULL);
    pool->parts = threads;
    for (unsigned i = 0; i + 1 < threads; i++, pool->started++) {
        pool->workers[i].pool = pool;
        pool->workers[i].part = i + 1;
        if (pthread_create(&pool->workers[i].thread, NULL, serve, &pool->workers[i])) {
            twin_pool_destroy(pool);
            return NULL;
        }
    }
    return pool;
}

void twin_pool_destroy(twin_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->start);
    pthread_cond_destroy(&pool->finished);
    free(pool);
}

void twin_pool_run(twin_pool *pool, void (*work)(void *context, unsigned part, unsigned parts), void *context) {
    pthread_mutex_lock(&pool->lock);
    pool->work = work;
    pool->context = context;
    pool->running = pool->parts - 1;
    pool->round++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    work(context, 0, pool->parts);
    pthread_mutex_lock(&pool->lock);
    while (pool->running) pthread_cond_wait(&pool->finished, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
