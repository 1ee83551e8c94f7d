/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include <cluster/host.h>

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * Two processes over loopback.  The guest joins, sends a PARTIAL of a megabyte into a posted buffer
 * and is told BYE; the server checks the floats on its compute thread.
 */

enum { FLOATS = 1 << 18, BODY = FLOATS * 4, GUEST_DONE = 7, SERVER_DONE = 5 };

static float body[FLOATS] __attribute__((aligned(64)));
static uint8_t landing[MESSAGE_HEADER + BODY] __attribute__((aligned(64)));

struct job {
    unsigned wrong;
    pid_t thread;
};

struct server {
    struct rdt_conn conn;
    struct job job;
    bool ends_when_closed;
    unsigned records, turns;
    char event[ACTION_TEXT_MAX];
};

static void send_kind(struct actions *out, struct rdt_conn conn, enum message_kind kind)
{
    struct action *action = actions_add(out, ACT_SEND);

    action->conn = conn;
    action->head.kind = kind;
}

static void leave(struct actions *out, int code, const char *text)
{
    struct action *action = actions_add(out, ACT_EXIT);

    action->code = code;
    snprintf(action->text, sizeof action->text, "%s", text);
}

static void server_message(struct server *server, const struct input *input, struct actions *out)
{
    struct action *action;

    if (input->head.kind == MSG_JOIN) {
        server->conn = input->conn;
        action = actions_add(out, ACT_POST);
        action->conn = input->conn;
        action->head = (struct message){.kind = MSG_PARTIAL, .step = 1, .count = 1};
        action->buf = landing;
        action->cap = sizeof landing;
        action->user = landing;
        send_kind(out, input->conn, MSG_WELCOME);
        snprintf(actions_add(out, ACT_EVENT)->text, ACTION_TEXT_MAX, "joined node=guest");
    } else if (input->head.kind == MSG_PARTIAL) {
        ck_assert_ptr_eq(input->user, landing);
        ck_assert_uint_eq(input->body_len, BODY);
        actions_add(out, ACT_COMPUTE)->job = &server->job;
    }
}

static void server_step(void *state, const struct input *input, uint64_t now_ns,
                        struct actions *out)
{
    struct server *server = state;

    (void)now_ns;
    if (input->kind == IN_MESSAGE)
        server_message(server, input, out);
    if (input->kind == IN_CLOSED && server->ends_when_closed)
        leave(out, SERVER_DONE, "closed");
    if (input->kind == IN_COMPUTED) {
        ck_assert_ptr_eq(input->job, &server->job);
        actions_add(out, ACT_RECORD)->record = &server->job;
        send_kind(out, server->conn, MSG_BYE);
        leave(out, SERVER_DONE, "all is well");
    }
}

static uint64_t never(const void *state)
{
    (void)state;
    return UINT64_MAX;
}

static void server_run(void *state, void *arg)
{
    struct job *job = arg;

    (void)state;
    job->thread = gettid();
    for (uint32_t i = 0; i < FLOATS; i++) {
        float got;

        memcpy(&got, landing + MESSAGE_HEADER + 4 * (size_t)i, sizeof got);
        job->wrong += got < (float)i || got > (float)i;
    }
}

static void server_event(void *state, const char *text, uint64_t now_ns)
{
    (void)now_ns;
    snprintf(((struct server *)state)->event, ACTION_TEXT_MAX, "%s", text);
}

static void server_record(void *state, const void *record, uint64_t now_ns)
{
    struct server *server = state;

    (void)now_ns;
    server->records += record == &server->job;
}

static void server_turn(void *state, uint64_t now_ns)
{
    (void)now_ns;
    ((struct server *)state)->turns++;
}

/* ---------- the guest, in a process of its own ---------- */

struct guest {
    struct rdt_addr peer;
    bool begun;
    bool stubborn; /* does not stop when asked to */
    bool idle;     /* joins and sends nothing more */
    int ready;     /* a byte is written here when it has joined */
};

static void guest_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out)
{
    struct guest *guest = state;
    struct action *action;

    (void)now_ns;
    if (input->kind == IN_TIME && !guest->begun) {
        guest->begun = true;
        actions_add(out, ACT_CONNECT)->peer = guest->peer;
    }
    if (input->kind == IN_CONNECTED)
        send_kind(out, input->conn, MSG_JOIN);
    if (input->kind == IN_MESSAGE && input->head.kind == MSG_WELCOME) {
        if (write(guest->ready, "j", 1) != 1)
            leave(out, 1, "the pipe is broken");
        if (guest->idle)
            return;
        action = actions_add(out, ACT_SEND);
        action->conn = input->conn;
        action->head = (struct message){.kind = MSG_PARTIAL, .step = 1, .count = 1};
        action->body = body;
        action->body_len = sizeof body;
        action->user = body;
    }
    if (input->kind == IN_MESSAGE && input->head.kind == MSG_BYE)
        leave(out, GUEST_DONE, "told bye");
    if (input->kind == IN_STOP && !guest->stubborn)
        leave(out, HOST_EXIT_STOPPED, "asked to stop");
}

static uint64_t guest_deadline(const void *state)
{
    return ((const struct guest *)state)->begun ? UINT64_MAX : 0;
}

static void guest_run(void *state, void *job)
{
    (void)state, (void)job;
}

static struct host_config config_of(const char *impair)
{
    struct host_config config = {.bind = rdt_addr_v4(127, 0, 0, 1, 0), .impaired = impair != NULL};
    char why[128];

    if (impair)
        ck_assert_int_eq(rdt_link_parse(&config.impair, impair, why, sizeof why), 0);
    return config;
}

static int be_guest(struct guest *guest)
{
    struct host_client client = {
        .state = guest, .step = guest_step, .deadline = guest_deadline, .run = guest_run};
    struct host_config config = config_of(NULL);
    char text[ACTION_TEXT_MAX];
    struct host *host;
    int code;

    for (uint32_t i = 0; i < FLOATS; i++)
        body[i] = (float)i;
    if (host_open(&host, &config, &client) < 0)
        return 2;
    code = host_run(host, text);
    host_free(host);
    return code;
}

struct pair {
    struct server server;
    struct host *host;
    pid_t guest, teller;
};

static const struct host_client server_client = {.step = server_step,
                                                 .deadline = never,
                                                 .run = server_run,
                                                 .on_event = server_event,
                                                 .on_record = server_record,
                                                 .on_turn = server_turn};

/* A process that, when the guest has joined, sends it signals.  0: none is wanted. */
static pid_t start_teller(int ready, pid_t guest, int signals)
{
    pid_t teller = signals > 0 ? fork() : 0;
    char byte;

    ck_assert_int_ge(teller, 0);
    if (signals == 0 || teller > 0)
        return teller;
    if (read(ready, &byte, 1) != 1)
        _exit(1);
    for (int i = 0; i < signals; i++) {
        kill(guest, i ? SIGINT : SIGTERM);
        usleep(100000);
    }
    _exit(0);
}

/* Forks come before the ring: it must not be inherited. */
static void start(struct pair *pair, struct guest guest, struct host_config config, int signals)
{
    struct host_client client = server_client;
    int ready[2], ports[2];
    uint16_t port;

    memset(pair, 0, sizeof *pair);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(ports), 0);
    pair->guest = fork();
    ck_assert_int_ge(pair->guest, 0);
    if (pair->guest == 0) {
        if (read(ports[0], &port, sizeof port) != sizeof port)
            _exit(1);
        guest.peer = rdt_addr_v4(127, 0, 0, 1, port);
        guest.ready = ready[1];
        _exit(be_guest(&guest));
    }
    pair->teller = start_teller(ready[0], pair->guest, signals);
    config.listen = true;
    client.state = &pair->server;
    ck_assert_int_eq(host_open(&pair->host, &config, &client), 0);
    port = host_local(pair->host).port;
    ck_assert_uint_ne(port, 0);
    ck_assert_int_eq(write(ports[1], &port, sizeof port), sizeof port);
}

static int end_of(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_exchange(const char *impair)
{
    struct pair pair;
    char text[ACTION_TEXT_MAX];

    start(&pair, (struct guest){.begun = false}, config_of(impair), 0);
    ck_assert_int_eq(host_run(pair.host, text), SERVER_DONE);
    ck_assert_str_eq(text, "all is well");
    ck_assert_uint_eq(pair.server.job.wrong, 0);
    ck_assert_int_ne(pair.server.job.thread, 0);
    ck_assert_int_ne(pair.server.job.thread, gettid());
    ck_assert_uint_eq(pair.server.records, 1);
    ck_assert_uint_ge(pair.server.turns, 1);
    ck_assert_str_eq(pair.server.event, "joined node=guest");
    ck_assert_uint_eq(host_garbage(pair.host), 0);
    ck_assert_int_eq(end_of(pair.guest), GUEST_DONE);
    host_free(pair.host);
}

START_TEST(host__exchange_compute_and_bye)
{
    check_exchange(NULL);
}
END_TEST

/* Most leave within a few round trips; a busy machine may hold up one or the other. */
START_TEST(host__leaves_when_all_is_said)
{
    enum { TRIES = 5, SOON_MS = 1500 };
    int soon_enough = 0;

    for (int i = 0; i < TRIES; i++) {
        struct timespec begun, ended;

        clock_gettime(CLOCK_MONOTONIC, &begun);
        check_exchange(NULL);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        soon_enough +=
            (ended.tv_sec - begun.tv_sec) * 1000 + (ended.tv_nsec - begun.tv_nsec) / 1000000 <
            SOON_MS;
    }
    ck_assert_int_gt(soon_enough, TRIES / 2);
}
END_TEST

START_TEST(host__exchange_through_an_impaired_link)
{
    check_exchange("loss=5%,duplicate=2%,reorder=2%,corrupt=2%,delay=200us,seed=3");
}
END_TEST

static void check_stop(struct guest guest, int signals)
{
    struct host_config config = config_of(NULL);
    char text[ACTION_TEXT_MAX];
    struct pair pair;

    config.dead_ns = 1000000000;
    start(&pair, guest, config, signals);
    pair.server.ends_when_closed = true;
    ck_assert_int_eq(host_run(pair.host, text), SERVER_DONE);
    ck_assert_str_eq(text, "closed");
    ck_assert_int_eq(end_of(pair.guest), HOST_EXIT_STOPPED);
    ck_assert_int_eq(end_of(pair.teller), 0);
    host_free(pair.host);
}

START_TEST(host__B23_a_signal_becomes_an_input)
{
    check_stop((struct guest){.idle = true}, 1);
}
END_TEST

START_TEST(host__B23_a_second_signal_ends_it_at_once)
{
    check_stop((struct guest){.idle = true, .stubborn = true}, 2);
}
END_TEST

START_TEST(host__B06_a_port_in_use_is_an_error_with_errno)
{
    struct host_client client = server_client;
    struct host_config config = config_of(NULL);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof addr;
    struct host *host = NULL;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    config.bind.port = ntohs(addr.sin_port);
    ck_assert_int_eq(host_open(&host, &config, &client), RDT_ESYS);
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert_ptr_null(host);
    close(fd);
    ck_assert_int_eq(host_open(&host, &config, &client), 0);
    host_free(host);
}
END_TEST

START_TEST(host__resolve_takes_numbers_and_names)
{
    struct rdt_addr want = rdt_addr_v4(127, 0, 0, 1, 7171);
    struct rdt_addr any = {.port = 7171};
    struct rdt_addr got;
    char why[256] = "";
    char text[RDT_ADDR_TEXT_MAX];

    ck_assert_int_eq(host_resolve(&got, "127.0.0.1:7171", why, sizeof why), 0);
    ck_assert(rdt_addr_equal(&got, &want));
    ck_assert_int_eq(host_resolve(&got, ":7171", why, sizeof why), 0);
    ck_assert(rdt_addr_equal(&got, &any));
    ck_assert_int_eq(host_resolve(&got, "[::1]:7", why, sizeof why), 0);
    rdt_addr_format(&got, text);
    ck_assert_str_eq(text, "[::1]:7");
    ck_assert_msg(host_resolve(&got, "localhost:7171", why, sizeof why) == 0, "%s", why);
    ck_assert_uint_eq(got.port, 7171);
    ck_assert_str_eq(why, "");
}
END_TEST

START_TEST(host__B06_resolve_names_what_it_cannot_take)
{
    static const char *const bad[] = {"",     "host",         "host:", "host:x", "h:65536",
                                      "h:-1", "fe80::1:7171", "[::1]", "h:1 ",   "[::1]:7x"};
    struct rdt_addr got = {.port = 1};
    char why[256];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(host_resolve(&got, bad[i], why, sizeof why) < 0, "%s", bad[i]);
        ck_assert_msg(strncmp(why, bad[i], strlen(bad[i])) == 0, "%s", why);
        ck_assert_ptr_nonnull(strstr(why, "(allowed: HOST:PORT"));
    }
    ck_assert_int_lt(host_resolve(&got, "no-such-host.invalid:7", why, sizeof why), 0);
    ck_assert_ptr_nonnull(strstr(why, "cannot resolve no-such-host.invalid: "));
    ck_assert_uint_eq(got.port, 1);
}
END_TEST

static uint64_t soon(const void *state)
{
    return ((const struct server *)state)->turns ? UINT64_MAX : 0;
}

static void leave_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out)
{
    (void)now_ns;
    ((struct server *)state)->turns++;
    if (input->kind == IN_TIME)
        leave(out, SERVER_DONE, "nobody came");
}

/* Nothing else happens that could wake it: no connection, no peer, no progress line. */
START_TEST(host__B23_exit_without_a_connection_is_at_once)
{
    struct server server = {.turns = 0};
    struct host_client client = {
        .state = &server, .step = leave_step, .deadline = soon, .run = server_run};
    struct host_config config = {.connections_max = 4};
    char text[ACTION_TEXT_MAX];
    struct host *host;

    ck_assert_int_eq(host_open(&host, &config, &client), 0);
    ck_assert_int_eq(host_run(host, text), SERVER_DONE);
    ck_assert_str_eq(text, "nobody came");
    host_free(host);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host");
    TCase *tcase = tcase_create("host");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, host__exchange_compute_and_bye);
    tcase_add_test(tcase, host__leaves_when_all_is_said);
    tcase_add_test(tcase, host__exchange_through_an_impaired_link);
    tcase_add_test(tcase, host__B23_a_signal_becomes_an_input);
    tcase_add_test(tcase, host__B23_a_second_signal_ends_it_at_once);
    tcase_add_test(tcase, host__B23_exit_without_a_connection_is_at_once);
    tcase_add_test(tcase, host__B06_a_port_in_use_is_an_error_with_errno);
    tcase_add_test(tcase, host__resolve_takes_numbers_and_names);
    tcase_add_test(tcase, host__B06_resolve_names_what_it_cannot_take);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
