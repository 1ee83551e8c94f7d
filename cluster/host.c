/* SPDX-License-Identifier: MIT */

/* For sigaction, getaddrinfo and getrandom. */
#define _GNU_SOURCE

#include <cluster/host.h>
#include <cluster/impair.h>
#include <cluster/wire.h>

#include <rdt/uring.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    JOBS_MAX = 64,          /* jobs handed out and not yet back */
    INPUTS_PER_TURN = 1024, /* so that datagrams keep flowing while a step function is busy */
    DATAGRAMS_MAX = 65507,  /* bytes of the largest train */
    TURN_INTERVAL_MS = 250, /* of on_turn */
    FLUSH_MS = 2000,        /* for what is under way when the step function is done */
    NS_PER_MS = 1000000,
    DATAGRAM_DEFAULT = 1452, /* and the least, as in docs/protocol.md, section 10 */
    DATAGRAM_MIN = 548,
    IP_UDP_BYTES = 28,
};

/* Jobs on their way to the compute thread and back.  Under the mutex but for `wake`. */
struct mailbox {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    void *todo[JOBS_MAX];
    void *done[JOBS_MAX];
    size_t todo_first, todo_count;
    size_t done_first, done_count;
    bool quit;
};

struct host {
    struct host_config config;
    struct host_client client;
    struct rdt_uring *uring;
    struct rdt_endpoint *ep;
    struct wire *wire;
    struct impair *impair; /* NULL: datagrams pass */
    struct mailbox mailbox;
    pthread_t thread;
    bool has_thread;
    bool exiting;
    int stops_seen;
    int code;
    uint64_t next_turn_ns;
    char text[ACTION_TEXT_MAX];
    struct actions actions;
    uint8_t train[DATAGRAMS_MAX]; /* what the endpoint wrote, before it is impaired */
};

/* ---------- signals ---------- */

static atomic_int stops;                       /* signals that asked us to stop */
static _Atomic(struct rdt_uring *) stops_wake; /* whose sleep they end */

static void on_signal(int number)
{
    struct rdt_uring *uring = atomic_load(&stops_wake);

    (void)number;
    if (atomic_fetch_add(&stops, 1) > 0)
        _exit(HOST_EXIT_STOPPED);
    if (uring)
        rdt_uring_wake(uring);
}

static void watch_signals(struct rdt_uring *uring)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    atomic_store(&stops, 0);
    atomic_store(&stops_wake, uring);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL); /* the terminal has gone */
}

/* The handlers stay: until the process ends a late signal must not cut off its last words. */
static void forget_signals(void)
{
    atomic_store(&stops_wake, NULL);
}

/* ---------- compute thread ---------- */

static void *compute(void *arg)
{
    struct host *host = arg;
    struct mailbox *box = &host->mailbox;

    pthread_mutex_lock(&box->mutex);
    for (;;) {
        void *job;

        while (box->todo_count == 0 && !box->quit)
            pthread_cond_wait(&box->filled, &box->mutex);
        if (box->quit)
            break;
        job = box->todo[box->todo_first];
        box->todo_first = (box->todo_first + 1) % JOBS_MAX;
        box->todo_count--;
        pthread_mutex_unlock(&box->mutex);
        host->client.run(host->client.state, job);
        pthread_mutex_lock(&box->mutex);
        box->done[(box->done_first + box->done_count) % JOBS_MAX] = job;
        box->done_count++;
        rdt_uring_wake(host->uring);
    }
    pthread_mutex_unlock(&box->mutex);
    return NULL;
}

static void hand_out(struct mailbox *box, void *job)
{
    pthread_mutex_lock(&box->mutex);
    assert(box->todo_count + box->done_count < JOBS_MAX - 1);
    box->todo[(box->todo_first + box->todo_count) % JOBS_MAX] = job;
    box->todo_count++;
    pthread_cond_signal(&box->filled);
    pthread_mutex_unlock(&box->mutex);
}

/* A job that came back, or NULL. */
static void *take_back(struct mailbox *box)
{
    void *job = NULL;

    pthread_mutex_lock(&box->mutex);
    if (box->done_count > 0) {
        job = box->done[box->done_first];
        box->done_first = (box->done_first + 1) % JOBS_MAX;
        box->done_count--;
    }
    pthread_mutex_unlock(&box->mutex);
    return job;
}

/* Signals go to the loop's thread: a compute thread that is interrupted would only be slower. */
static int start_thread(struct host *host)
{
    sigset_t all, before;
    int err;

    pthread_mutex_init(&host->mailbox.mutex, NULL);
    pthread_cond_init(&host->mailbox.filled, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&host->thread, NULL, compute, host);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    host->has_thread = err == 0;
    errno = err;
    return err ? RDT_ESYS : 0;
}

static void stop_thread(struct host *host)
{
    if (!host->has_thread)
        return;
    pthread_mutex_lock(&host->mailbox.mutex);
    host->mailbox.quit = true;
    pthread_cond_signal(&host->mailbox.filled);
    pthread_mutex_unlock(&host->mailbox.mutex);
    pthread_join(host->thread, NULL);
    pthread_mutex_destroy(&host->mailbox.mutex);
    pthread_cond_destroy(&host->mailbox.filled);
    host->has_thread = false;
}

/* ---------- open and free ---------- */

/* The path MTU is not probed for yet.  A real route fragments what is too large for it, the
 * simulated one drops it: so the datagrams are made to fit. */
static uint32_t datagram_max(const struct host_config *config)
{
    uint32_t max = config->datagram_max ? config->datagram_max : DATAGRAM_DEFAULT;
    uint32_t mtu = config->impaired ? config->impair.mtu : 0;

    if (mtu < IP_UDP_BYTES + DATAGRAM_MIN)
        return max;
    return mtu - IP_UDP_BYTES < max ? mtu - IP_UDP_BYTES : max;
}

static int open_endpoint(struct host *host)
{
    struct rdt_config config = {
        .size = sizeof config,
        .listen = host->config.listen,
        .connections_max = host->config.connections_max,
        .datagram_max = datagram_max(&host->config),
        .dead_ns = host->config.dead_ns,
    };

    if (getrandom(config.entropy, sizeof config.entropy, 0) != (ssize_t)sizeof config.entropy)
        return RDT_ESYS;
    return rdt_open(&host->ep, &config);
}

static int open_parts(struct host *host)
{
    struct rdt_uring_config uring = {.size = sizeof uring, .bind = host->config.bind};
    int err = rdt_uring_open(&host->uring, &uring);

    if (err == 0)
        err = open_endpoint(host);
    if (err == 0)
        err = wire_open(&host->wire, host->ep);
    if (err == 0 && host->config.impaired)
        err = impair_open(&host->impair, &host->config.impair);
    if (err == 0)
        err = start_thread(host);
    return err;
}

int host_open(struct host **out, const struct host_config *config, const struct host_client *client)
{
    struct host *host = calloc(1, sizeof *host);
    int err;

    if (!host)
        return RDT_ENOMEM;
    assert(client->step && client->deadline && client->run);
    assert(config->connections_max <= WIRE_SLOTS);
    host->config = *config;
    host->client = *client;
    err = open_parts(host);
    if (err) {
        int saved = errno;

        host_free(host);
        errno = saved;
        return err;
    }
    watch_signals(host->uring);
    *out = host;
    return 0;
}

void host_free(struct host *host)
{
    if (!host)
        return;
    stop_thread(host);
    forget_signals();
    impair_free(host->impair);
    wire_free(host->wire);
    rdt_free(host->ep);
    rdt_uring_free(host->uring);
    free(host);
}

struct rdt_addr host_local(const struct host *host)
{
    return rdt_uring_local(host->uring);
}

uint64_t host_now(const struct host *host)
{
    return rdt_uring_now(host->uring);
}

struct rdt_endpoint *host_endpoint(struct host *host)
{
    return host->ep;
}

uint64_t host_garbage(const struct host *host)
{
    return wire_stats(host->wire).garbage;
}

/* ---------- steps ---------- */

static void perform(struct host *host, const struct action *action, uint64_t now)
{
    const struct host_client *client = &host->client;

    switch (action->kind) {
    case ACT_COMPUTE:
        hand_out(&host->mailbox, action->job);
        break;
    case ACT_EVENT:
        if (client->on_event)
            client->on_event(client->state, action->text, now);
        break;
    case ACT_RECORD:
        if (client->on_record)
            client->on_record(client->state, action->record, now);
        break;
    case ACT_EXIT:
        host->exiting = true;
        host->code = action->code;
        memcpy(host->text, action->text, sizeof host->text);
        break;
    case ACT_CONNECT:
    case ACT_CLOSE:
    case ACT_ABORT:
    case ACT_SEND:
    case ACT_POST:
    case ACT_UNPOST:
        wire_perform(host->wire, action, now);
        break;
    }
}

static void step(struct host *host, const struct input *input, uint64_t now)
{
    if (host->exiting)
        return;
    host->actions.count = 0;
    host->client.step(host->client.state, input, now, &host->actions);
    for (size_t i = 0; i < host->actions.count; i++)
        perform(host, &host->actions.items[i], now);
}

/* Everything that has happened, in turn.  true: there may be more. */
static bool step_all(struct host *host, uint64_t now)
{
    struct input input;
    void *job;

    if (atomic_load(&stops) != host->stops_seen) {
        host->stops_seen = atomic_load(&stops);
        step(host, &(struct input){.kind = IN_STOP}, now);
    }
    while ((job = take_back(&host->mailbox)))
        step(host, &(struct input){.kind = IN_COMPUTED, .job = job}, now);
    if (now >= host->client.deadline(host->client.state))
        step(host, &(struct input){.kind = IN_TIME}, now);
    for (int i = 0; i < INPUTS_PER_TURN; i++) {
        if (!wire_next(host->wire, &input, now))
            return false;
        step(host, &input, now);
    }
    return true;
}

/* ---------- datagrams ---------- */

static void take_arrivals(struct host *host)
{
    uint64_t now = rdt_uring_now(host->uring);
    struct rdt_arrival arrival;

    while (rdt_uring_next_arrival(host->uring, &arrival)) {
        if (host->impair)
            impair_in(host->impair, &arrival, now);
        else
            rdt_input(host->ep, &arrival, now);
    }
    while (host->impair && impair_next_in(host->impair, now, &arrival))
        rdt_input(host->ep, &arrival, now);
}

/* false: every train buffer of the driver is under way. */
static bool send_trains(struct host *host, uint64_t now)
{
    struct rdt_train train;

    while (host->impair && rdt_next_train(host->ep, now, host->train, sizeof host->train, &train))
        impair_out(host->impair, &train, host->train, now);
    for (;;) {
        size_t cap;
        void *buf = rdt_uring_train_buffer(host->uring, &cap);

        if (!buf)
            return false;
        if (host->impair ? !impair_next_train(host->impair, now, buf, cap, &train)
                         : !rdt_next_train(host->ep, now, buf, cap, &train))
            return true;
        rdt_uring_send_train(host->uring, &train);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* All is said: who left first would leave the peer waiting when its CLOSE, said once, is lost. */
static bool is_silent(const struct host *host)
{
    return wire_connections(host->wire) == 0 && rdt_deadline(host->ep) == UINT64_MAX;
}

/* One turn; `until` bounds its sleep.  The one that is told to exit does not sleep, nor does
 * the one after which nothing is left to be said. */
static int turn(struct host *host, uint64_t until)
{
    uint64_t now = rdt_uring_now(host->uring);
    bool was_exiting = host->exiting, more;

    if (now >= rdt_deadline(host->ep))
        rdt_on_timeout(host->ep, now);
    more = step_all(host, now);
    if (host->exiting && !was_exiting)
        until = 0;
    if (host->client.on_turn && now >= host->next_turn_ns && !host->exiting) {
        host->client.on_turn(host->client.state, now);
        host->next_turn_ns = now + (uint64_t)TURN_INTERVAL_MS * NS_PER_MS;
    }
    if (host->client.on_turn)
        until = earlier(until, host->next_turn_ns);
    if (!host->exiting)
        until = earlier(until, host->client.deadline(host->client.state));
    now = rdt_uring_now(host->uring);
    if (send_trains(host, now)) {
        until = earlier(until, rdt_deadline(host->ep));
        if (host->impair)
            until = earlier(until, impair_deadline(host->impair));
    } else {
        /* The kernel gives buffers back within the wait; it need not be asked more often. */
        until = earlier(until, now + NS_PER_MS);
    }
    if (more || (host->exiting && is_silent(host)))
        until = 0;
    if (rdt_uring_wait(host->uring, until) < 0)
        return RDT_ESYS;
    take_arrivals(host);
    return 0;
}

int host_run(struct host *host, char *text)
{
    uint64_t end;
    int err = 0;

    while (!host->exiting && err == 0)
        err = turn(host, UINT64_MAX);
    if (err == 0) {
        end = rdt_uring_now(host->uring) + (uint64_t)FLUSH_MS * NS_PER_MS;
        wire_close_all(host->wire, (uint64_t)FLUSH_MS * NS_PER_MS, rdt_uring_now(host->uring));
        while (err == 0 && !is_silent(host) && rdt_uring_now(host->uring) < end)
            err = turn(host, end);
    } else {
        host->code = HOST_EXIT_FAILED;
        snprintf(host->text, sizeof host->text, "the I/O ring failed: %s", strerror(errno));
    }
    memcpy(text, host->text, sizeof host->text);
    return host->code;
}

void host_keep_stdio(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* ---------- names ---------- */

static void to_rdt_addr(struct rdt_addr *out, const struct sockaddr *from, uint16_t port)
{
    *out = (struct rdt_addr){.port = port};
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)from;

        out->ip[10] = out->ip[11] = 0xff;
        memcpy(out->ip + 12, &v4->sin_addr, 4);
    } else {
        const struct sockaddr_in6 *v6 = (const void *)from;

        memcpy(out->ip, &v6->sin6_addr, 16);
        out->scope_id = v6->sin6_scope_id;
    }
}

/* "name:port" or "[name]:port" into its parts. */
static bool split(const char *text, char *name, size_t cap, uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    unsigned long number;
    char *end;

    if (!colon || len >= cap || colon[1] < '0' || colon[1] > '9')
        return false;
    errno = 0;
    number = strtoul(colon + 1, &end, 10);
    if (errno || *end != '\0' || number > UINT16_MAX)
        return false;
    *port = (uint16_t)number;
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return false; /* an IPv6 address without brackets: where does the port begin? */
    }
    memcpy(name, text, len);
    name[len] = '\0';
    return true;
}

int host_resolve(struct rdt_addr *out, const char *text, char *why, size_t why_cap)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found;
    char name[256];
    uint16_t port;
    int err;

    if (rdt_addr_parse(out, text) == 0)
        return 0;
    if (!split(text, name, sizeof name, &port)) {
        snprintf(why, why_cap, "%s: not an address (allowed: HOST:PORT or [IPV6]:PORT)", text);
        return RDT_EINVAL;
    }
    if (name[0] == '\0') {
        *out = (struct rdt_addr){.port = port};
        return 0;
    }
    err = getaddrinfo(name, NULL, &hints, &found);
    if (err) {
        snprintf(why, why_cap, "%s: cannot resolve %s: %s", text, name,
                 err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
        return RDT_ESYS;
    }
    to_rdt_addr(out, found->ai_addr, port);
    freeaddrinfo(found);
    return 0;
}
