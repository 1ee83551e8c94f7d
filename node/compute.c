/* SPDX-License-Identifier: MIT */
#include <node/compute.h>

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct hand {
    struct crew *crew;
    pthread_t thread;
    uint32_t idx;
};

struct crew {
    pthread_mutex_t lock;   /* rounds, busy, quit, work */
    pthread_mutex_t shared; /* crew_lock */
    pthread_cond_t start, done;
    uint64_t rounds; /* calls of crew_run so far */
    uint32_t busy;   /* hands other than 0 still at work */
    bool quit;
    void (*first)(void);
    void (*work)(void *arg, uint32_t hand);
    void *arg;
    uint32_t count;   /* hands, hand 0 included */
    uint32_t started; /* threads made */
    struct hand hands[CREW_MAX];
};

static void *hand_main(void *arg)
{
    struct hand *hand = arg;
    struct crew *crew = hand->crew;
    uint64_t seen = 0;

    if (crew->first)
        crew->first();
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (crew->rounds == seen && !crew->quit)
            pthread_cond_wait(&crew->start, &crew->lock);
        if (crew->quit)
            break;
        seen = crew->rounds;
        pthread_mutex_unlock(&crew->lock);
        crew->work(crew->arg, hand->idx);
        pthread_mutex_lock(&crew->lock);
        crew->busy--;
        if (crew->busy == 0)
            pthread_cond_signal(&crew->done);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

int crew_open(struct crew **out, uint32_t hands, void (*start)(void))
{
    struct crew *crew = calloc(1, sizeof *crew);

    assert(hands >= 1);
    assert(hands <= CREW_MAX);
    if (!crew)
        return -1;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_mutex_init(&crew->shared, NULL);
    pthread_cond_init(&crew->start, NULL);
    pthread_cond_init(&crew->done, NULL);
    crew->first = start;
    crew->count = hands;
    for (uint32_t i = 1; i < hands; i++) {
        crew->hands[i] = (struct hand){.crew = crew, .idx = i};
        if (pthread_create(&crew->hands[i].thread, NULL, hand_main, &crew->hands[i]) != 0) {
            crew_free(crew);
            return -1;
        }
        crew->started = i;
    }
    *out = crew;
    return 0;
}

void crew_free(struct crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->lock);
    assert(crew->busy == 0);
    crew->quit = true;
    pthread_cond_broadcast(&crew->start);
    pthread_mutex_unlock(&crew->lock);
    for (uint32_t i = 1; i <= crew->started; i++)
        pthread_join(crew->hands[i].thread, NULL);
    pthread_cond_destroy(&crew->start);
    pthread_cond_destroy(&crew->done);
    pthread_mutex_destroy(&crew->lock);
    pthread_mutex_destroy(&crew->shared);
    free(crew);
}

uint32_t crew_hands(const struct crew *crew)
{
    return crew->count;
}

void crew_run(struct crew *crew, void (*work)(void *arg, uint32_t hand), void *arg)
{
    pthread_mutex_lock(&crew->lock);
    assert(crew->busy == 0);
    crew->work = work;
    crew->arg = arg;
    crew->busy = crew->count - 1;
    crew->rounds++;
    pthread_cond_broadcast(&crew->start);
    pthread_mutex_unlock(&crew->lock);

    work(arg, 0);

    pthread_mutex_lock(&crew->lock);
    while (crew->busy > 0)
        pthread_cond_wait(&crew->done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

void crew_lock(struct crew *crew)
{
    pthread_mutex_lock(&crew->shared);
}

void crew_unlock(struct crew *crew)
{
    pthread_mutex_unlock(&crew->shared);
}
