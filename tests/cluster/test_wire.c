/* SPDX-License-Identifier: MIT */
#include <cluster/wire.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

/*
 * The wire against a transport that does what the test says.  These stand in for librdt's: the
 * linker takes them first.
 */

enum { CALLS_MAX = 4096 };

static struct fake {
    struct rdt_event events[64];
    size_t events_first, events_count;
    int send_err, post_err, connect_err;
    size_t sends_until_full; /* SIZE_MAX: never */
    size_t sent_count;
    struct rdt_message sent[CALLS_MAX];
    uint8_t heads[CALLS_MAX][RDT_HEAD_MAX];
    struct rdt_landing posted;
    unsigned posts, unposts, aborts, closes, releases;
    uint64_t closed_after; /* sends before the last close */
    struct rdt_conn aborted;
    const void *released;
} fake;

static uint64_t now = 1000;
static char nobody; /* the endpoint: never looked into */
static struct wire *wire;
static const struct rdt_conn conn = {.slot = 3, .generation = 7};
static const struct rdt_conn other = {.slot = 4, .generation = 1};

int rdt_send(struct rdt_endpoint *ep, struct rdt_conn c, const struct rdt_message *message,
             uint64_t now_ns)
{
    ck_assert_ptr_eq(ep, (void *)&nobody);
    ck_assert_uint_eq(now_ns, now);
    (void)c;
    if (fake.send_err)
        return fake.send_err;
    if (fake.sends_until_full == 0)
        return RDT_EAGAIN;
    fake.sends_until_full -= fake.sends_until_full != SIZE_MAX;
    ck_assert_uint_lt(fake.sent_count, CALLS_MAX);
    fake.sent[fake.sent_count] = *message;
    memcpy(fake.heads[fake.sent_count], message->head, message->head_len);
    fake.sent_count++;
    return 0;
}

int rdt_post(struct rdt_endpoint *ep, struct rdt_conn c, const struct rdt_landing *landing,
             uint64_t now_ns)
{
    (void)ep, (void)c, (void)now_ns;
    fake.posts++;
    fake.posted = *landing;
    return fake.post_err;
}

int rdt_unpost(struct rdt_endpoint *ep, struct rdt_conn c, uint16_t channel, uint64_t tag)
{
    (void)ep, (void)c;
    fake.unposts += channel == fake.posted.channel && tag == fake.posted.tag;
    return 0;
}

int rdt_close(struct rdt_endpoint *ep, struct rdt_conn c, uint64_t flush_ns, uint64_t now_ns)
{
    (void)ep, (void)c, (void)flush_ns, (void)now_ns;
    fake.closes++;
    fake.closed_after = fake.sent_count;
    return 0;
}

int rdt_abort(struct rdt_endpoint *ep, struct rdt_conn c, uint64_t now_ns)
{
    (void)ep, (void)now_ns;
    fake.aborts++;
    fake.aborted = c;
    return 0;
}

int rdt_connect(struct rdt_endpoint *ep, const struct rdt_addr *peer, uint64_t now_ns,
                struct rdt_conn *out)
{
    (void)ep, (void)peer, (void)now_ns;
    if (fake.connect_err == 0)
        *out = conn;
    return fake.connect_err;
}

void rdt_release(struct rdt_endpoint *ep, const void *bytes, uint64_t now_ns)
{
    (void)ep, (void)now_ns;
    fake.releases++;
    fake.released = bytes;
}

bool rdt_next_event(struct rdt_endpoint *ep, struct rdt_event *out)
{
    (void)ep;
    if (fake.events_count == 0)
        return false;
    *out = fake.events[fake.events_first++];
    fake.events_count--;
    return true;
}

static void happens(struct rdt_event event)
{
    if (fake.events_count == 0)
        fake.events_first = 0;
    fake.events[fake.events_first + fake.events_count++] = event;
}

static void set_up(void)
{
    memset(&fake, 0, sizeof fake);
    fake.sends_until_full = SIZE_MAX;
    ck_assert_int_eq(wire_open(&wire, (struct rdt_endpoint *)(void *)&nobody), 0);
}

static void tear_down(void)
{
    wire_free(wire);
}

static struct input next(enum input_kind kind)
{
    struct input input;

    ck_assert(wire_next(wire, &input, now));
    ck_assert_int_eq(input.kind, kind);
    return input;
}

static void no_more(void)
{
    struct input input;

    ck_assert(!wire_next(wire, &input, now));
}

static void send_to(struct rdt_conn to, enum message_kind kind, uint64_t step, void *user)
{
    struct action action = {.kind = ACT_SEND,
                            .conn = to,
                            .head = {.kind = kind, .step = step},
                            .body = "body",
                            .body_len = 4,
                            .user = user};

    ck_assert(wire_perform(wire, &action, now));
}

static void closes(struct rdt_conn which)
{
    happens((struct rdt_event){.kind = RDT_EV_CLOSED, .conn = which, .reason = RDT_CLOSED_DEAD});
}

/* A message that arrived, its event as the transport would make it. */
static uint8_t arrived[MESSAGE_HEADER + 8];

static struct rdt_event arrives(const struct message *head, bool pooled)
{
    memset(arrived, 0, sizeof arrived);
    message_encode(head, arrived);
    return (struct rdt_event){.kind = RDT_EV_MESSAGE,
                              .conn = conn,
                              .pooled = pooled,
                              .channel = message_channel(head->kind),
                              .type = message_is_update(head->kind) ? RDT_UPDATE : RDT_DATA,
                              .tag = message_tag(head),
                              .bytes = arrived,
                              .len = MESSAGE_HEADER + head->body_len,
                              .user = pooled ? NULL : &fake};
}

START_TEST(wire__send_carries_header_channel_and_tag)
{
    struct message head;

    send_to(conn, MSG_PARTIAL, 9, &fake);
    send_to(conn, MSG_STEP, 9, NULL);
    ck_assert_uint_eq(fake.sent_count, 2);
    ck_assert_uint_eq(fake.sent[0].channel, CHANNEL_BULK);
    ck_assert(!fake.sent[0].ordered);
    ck_assert_int_eq(fake.sent[0].kind, RDT_UPDATE);
    ck_assert_ptr_eq(fake.sent[0].user, &fake);
    ck_assert_uint_eq(fake.sent[0].head_len, MESSAGE_HEADER);
    ck_assert_uint_eq(fake.sent[0].body_len, 4);
    memcpy(arrived, fake.heads[0], MESSAGE_HEADER);
    ck_assert(message_decode(&head, arrived, MESSAGE_HEADER + 4));
    ck_assert_uint_eq(head.step, 9);
    ck_assert_uint_eq(fake.sent[0].tag, message_tag(&head));
    ck_assert_uint_eq(fake.sent[1].channel, CHANNEL_CONTROL);
    ck_assert(fake.sent[1].ordered);
    ck_assert_int_eq(fake.sent[1].kind, RDT_DATA);
    ck_assert_uint_eq(fake.sent[1].tag, 0);
}
END_TEST

START_TEST(wire__a_message_becomes_an_input_and_is_released_after_its_step)
{
    struct message head = {.kind = MSG_READY, .step = 4, .body_len = 8};
    struct input input;

    happens(arrives(&head, true));
    input = next(IN_MESSAGE);
    ck_assert_uint_eq(fake.releases, 0);
    ck_assert_int_eq(input.head.kind, MSG_READY);
    ck_assert_uint_eq(input.head.step, 4);
    ck_assert_ptr_eq(input.body, arrived + MESSAGE_HEADER);
    ck_assert_uint_eq(input.body_len, 8);
    ck_assert_ptr_null(input.user);
    no_more();
    ck_assert_uint_eq(fake.releases, 1);
    ck_assert_ptr_eq(fake.released, arrived);
    no_more();
    ck_assert_uint_eq(fake.releases, 1);
}
END_TEST

START_TEST(wire__a_posted_message_comes_with_its_landing_and_is_not_released)
{
    struct message head = {.kind = MSG_PARTIAL, .step = 4, .first = 2, .count = 2, .body_len = 8};

    happens(arrives(&head, false));
    ck_assert_ptr_eq(next(IN_MESSAGE).user, &fake);
    no_more();
    ck_assert_uint_eq(fake.releases, 0);
}
END_TEST

/* B18.  Each is dropped, counted and given back; nothing else happens. */
START_TEST(wire__B18_pooled_garbage_is_counted_and_dropped)
{
    struct message head = {.kind = MSG_READY, .body_len = 8};
    struct rdt_event bad[8];
    size_t count = sizeof bad / sizeof *bad;

    for (size_t i = 0; i < count; i++)
        bad[i] = arrives(&head, true);
    bad[0].len = 0;
    bad[1].len = 63;
    bad[2].len = MESSAGE_HEADER;
    bad[3].len = MESSAGE_HEADER + 7;
    bad[4].channel = CHANNEL_BULK;
    bad[5].channel = 9;
    bad[6].tag = 1;
    bad[7].type = RDT_UPDATE;
    for (size_t i = 0; i < count; i++) {
        happens(bad[i]);
        no_more();
        ck_assert_uint_eq(wire_stats(wire).garbage, i + 1);
        ck_assert_uint_eq(fake.releases, i + 1);
    }
    ck_assert_uint_eq(fake.aborts, 0);
    happens(arrives(&head, true));
    next(IN_MESSAGE);
}
END_TEST

START_TEST(wire__B18_garbage_in_a_posted_buffer_costs_the_connection)
{
    struct message head = {.kind = MSG_PARTIAL, .count = 1, .body_len = 8};
    struct rdt_event event = arrives(&head, false);

    arrived[0] = 99;
    happens(event);
    no_more();
    ck_assert_uint_eq(wire_stats(wire).garbage, 1);
    ck_assert_uint_eq(fake.aborts, 1);
    ck_assert_uint_eq(fake.aborted.generation, conn.generation);
    ck_assert_uint_eq(fake.releases, 0);
}
END_TEST

START_TEST(wire__a_full_transport_delays_sends_in_their_order)
{
    fake.sends_until_full = 1;
    for (uint64_t step = 0; step < 5; step++)
        send_to(conn, MSG_STEP, step, NULL);
    ck_assert_uint_eq(fake.sent_count, 1);
    ck_assert_uint_eq(wire_stats(wire).backlog, 4);
    /* There is room again, but what waits goes first. */
    fake.sends_until_full = 2;
    send_to(conn, MSG_STEP, 5, NULL);
    ck_assert_uint_eq(fake.sent_count, 1);
    happens((struct rdt_event){.kind = RDT_EV_WRITABLE, .conn = conn});
    no_more();
    ck_assert_uint_eq(fake.sent_count, 3);
    ck_assert_uint_eq(wire_stats(wire).backlog, 3);
    fake.sends_until_full = SIZE_MAX;
    happens((struct rdt_event){.kind = RDT_EV_WRITABLE, .conn = conn});
    no_more();
    ck_assert_uint_eq(wire_stats(wire).backlog, 0);
    for (uint64_t step = 0; step < 6; step++)
        ck_assert_uint_eq(fake.heads[step][24], step);
}
END_TEST

START_TEST(wire__one_full_connection_does_not_delay_another)
{
    fake.sends_until_full = 0;
    send_to(conn, MSG_STEP, 0, NULL);
    fake.sends_until_full = SIZE_MAX;
    send_to(other, MSG_STEP, 1, NULL);
    ck_assert_uint_eq(fake.sent_count, 1);
    ck_assert_uint_eq(fake.heads[0][24], 1);
    happens((struct rdt_event){.kind = RDT_EV_WRITABLE, .conn = other});
    no_more();
    ck_assert_uint_eq(wire_stats(wire).backlog, 1);
}
END_TEST

START_TEST(wire__a_close_does_not_overtake_waiting_sends)
{
    struct action close = {.kind = ACT_CLOSE, .conn = conn, .flush_ns = 5};

    fake.sends_until_full = 0;
    send_to(conn, MSG_BYE, 0, NULL);
    ck_assert(wire_perform(wire, &close, now));
    ck_assert_uint_eq(fake.closes, 0);
    fake.sends_until_full = SIZE_MAX;
    happens((struct rdt_event){.kind = RDT_EV_WRITABLE, .conn = conn});
    no_more();
    ck_assert_uint_eq(fake.sent_count, 1);
    ck_assert_uint_eq(fake.closes, 1);
    ck_assert_uint_eq(fake.closed_after, 1);
    ck_assert(wire_perform(wire, &close, now));
    ck_assert_uint_eq(fake.closes, 2);
}
END_TEST

/* Bodies must come back once each, and before IN_CLOSED. */
START_TEST(wire__bodies_come_back_before_the_connection_is_closed)
{
    char users[4];

    fake.sends_until_full = 1;
    for (size_t i = 0; i < 3; i++)
        send_to(conn, MSG_PARTIAL, i, &users[i]);
    happens((struct rdt_event){
        .kind = RDT_EV_RELEASED, .conn = conn, .user = &users[0], .status = RDT_ABORTED});
    closes(conn);
    ck_assert_ptr_eq(next(IN_RELEASED).user, &users[0]);
    ck_assert_ptr_eq(next(IN_RELEASED).user, &users[1]);
    /* The step function has not heard of it yet and sends again. */
    fake.send_err = RDT_ECONN;
    send_to(conn, MSG_PARTIAL, 3, &users[3]);
    ck_assert_ptr_eq(next(IN_RELEASED).user, &users[2]);
    ck_assert_int_eq(next(IN_RELEASED).status, RDT_ABORTED);
    ck_assert_int_eq(next(IN_CLOSED).reason, RDT_CLOSED_DEAD);
    no_more();
    ck_assert_uint_eq(wire_stats(wire).backlog, 0);
}
END_TEST

START_TEST(wire__a_send_to_a_gone_connection_comes_back_aborted)
{
    struct input input;

    fake.send_err = RDT_ECONN;
    send_to(conn, MSG_PARTIAL, 0, &fake);
    send_to(conn, MSG_PARTIAL, 1, NULL); /* nobody asked for it back */
    input = next(IN_RELEASED);
    ck_assert_ptr_eq(input.user, &fake);
    ck_assert_int_eq(input.status, RDT_ABORTED);
    ck_assert_uint_eq(input.conn.slot, conn.slot);
    no_more();
    ck_assert_uint_eq(fake.aborts, 0);
}
END_TEST

START_TEST(wire__releases_pass_with_their_status)
{
    happens((struct rdt_event){.kind = RDT_EV_RELEASED, .conn = conn});
    happens((struct rdt_event){.kind = RDT_EV_RELEASED, .conn = conn, .user = &fake});
    ck_assert_int_eq(next(IN_RELEASED).status, RDT_OK);
    no_more();
}
END_TEST

START_TEST(wire__a_backlog_without_end_costs_the_connection)
{
    fake.sends_until_full = 0;
    for (uint64_t i = 0; i < WIRE_BACKLOG_MAX; i++)
        send_to(conn, MSG_STEP, i, &fake);
    ck_assert_uint_eq(fake.aborts, 0);
    send_to(conn, MSG_STEP, 0, &nobody);
    ck_assert_uint_eq(fake.aborts, 1);
    ck_assert_uint_eq(wire_stats(wire).overflows, 1);
    ck_assert_ptr_eq(next(IN_RELEASED).user, &nobody);
    closes(conn);
    for (uint64_t i = 0; i < WIRE_BACKLOG_MAX; i++)
        ck_assert_ptr_eq(next(IN_RELEASED).user, &fake);
    next(IN_CLOSED);
    no_more();
}
END_TEST

START_TEST(wire__offers_nobody_wants_cost_the_connection_in_the_end)
{
    struct message head = {.kind = MSG_PARTIAL, .count = 1, .body_len = 8};

    for (int i = 0; i < WIRE_OFFERS_MAX; i++) {
        happens((struct rdt_event){.kind = RDT_EV_OFFER, .conn = conn, .tag = 1, .len = 1 << 20});
        no_more();
    }
    ck_assert_uint_eq(wire_stats(wire).offers, WIRE_OFFERS_MAX);
    ck_assert_uint_eq(fake.aborts, 0);
    /* One is taken after all. */
    happens(arrives(&head, false));
    next(IN_MESSAGE);
    happens((struct rdt_event){.kind = RDT_EV_OFFER, .conn = conn, .tag = 1, .len = 1 << 20});
    no_more();
    ck_assert_uint_eq(fake.aborts, 0);
    happens((struct rdt_event){.kind = RDT_EV_OFFER, .conn = conn, .tag = 1, .len = 1 << 20});
    no_more();
    ck_assert_uint_eq(fake.aborts, 1);
}
END_TEST

START_TEST(wire__post_and_unpost_name_the_landing_by_the_header)
{
    struct action action = {.kind = ACT_POST,
                            .conn = conn,
                            .head = {.kind = MSG_PARTIAL, .step = 4, .first = 2, .count = 2},
                            .buf = arrived,
                            .cap = sizeof arrived,
                            .user = &fake};

    ck_assert(wire_perform(wire, &action, now));
    ck_assert_uint_eq(fake.posted.tag, message_tag(&action.head));
    ck_assert_uint_eq(fake.posted.channel, CHANNEL_BULK);
    ck_assert_ptr_eq(fake.posted.buf, arrived);
    ck_assert_uint_eq(fake.posted.cap, sizeof arrived);
    ck_assert_ptr_eq(fake.posted.user, &fake);
    action.kind = ACT_UNPOST;
    ck_assert(wire_perform(wire, &action, now));
    ck_assert_uint_eq(fake.unposts, 1);
    action.kind = ACT_POST;
    fake.post_err = RDT_ECONN;
    wire_perform(wire, &action, now);
    ck_assert_uint_eq(fake.aborts, 0);
    fake.post_err = RDT_EMSGSIZE;
    wire_perform(wire, &action, now);
    ck_assert_uint_eq(fake.aborts, 1);
}
END_TEST

START_TEST(wire__connections_are_counted_and_all_can_be_closed)
{
    struct action action = {.kind = ACT_CONNECT, .peer = {.port = 9}};

    ck_assert(wire_perform(wire, &action, now));
    ck_assert_uint_eq(wire_connections(wire), 1);
    happens((struct rdt_event){.kind = RDT_EV_CONNECTED, .conn = conn});
    ck_assert(!next(IN_CONNECTED).incoming);
    happens((struct rdt_event){.kind = RDT_EV_CONNECTED, .conn = other, .incoming = true});
    ck_assert(next(IN_CONNECTED).incoming);
    ck_assert_uint_eq(wire_connections(wire), 2);
    wire_close_all(wire, 5, now);
    ck_assert_uint_eq(fake.closes, 2);
    closes(conn);
    closes(other);
    next(IN_CLOSED);
    next(IN_CLOSED);
    ck_assert_uint_eq(wire_connections(wire), 0);
    action.kind = ACT_ABORT;
    ck_assert(wire_perform(wire, &action, now));
    ck_assert_uint_eq(fake.aborts, 1);
}
END_TEST

START_TEST(wire__a_connect_that_cannot_begin_is_closed)
{
    struct action action = {.kind = ACT_CONNECT, .peer = {.port = 9}};
    struct input input;

    fake.connect_err = RDT_ELIMIT;
    ck_assert(wire_perform(wire, &action, now));
    input = next(IN_CLOSED);
    ck_assert_uint_eq(input.peer.port, 9);
    ck_assert_uint_eq(input.conn.generation, 0);
    no_more();
}
END_TEST

START_TEST(wire__other_actions_are_not_its_business)
{
    static const enum action_kind kinds[] = {ACT_COMPUTE, ACT_EVENT, ACT_RECORD, ACT_EXIT};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        ck_assert(!wire_perform(wire, &(struct action){.kind = kinds[i]}, now));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tcase = tcase_create("wire");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, wire__send_carries_header_channel_and_tag);
    tcase_add_test(tcase, wire__a_message_becomes_an_input_and_is_released_after_its_step);
    tcase_add_test(tcase, wire__a_posted_message_comes_with_its_landing_and_is_not_released);
    tcase_add_test(tcase, wire__B18_pooled_garbage_is_counted_and_dropped);
    tcase_add_test(tcase, wire__B18_garbage_in_a_posted_buffer_costs_the_connection);
    tcase_add_test(tcase, wire__a_full_transport_delays_sends_in_their_order);
    tcase_add_test(tcase, wire__one_full_connection_does_not_delay_another);
    tcase_add_test(tcase, wire__a_close_does_not_overtake_waiting_sends);
    tcase_add_test(tcase, wire__bodies_come_back_before_the_connection_is_closed);
    tcase_add_test(tcase, wire__a_send_to_a_gone_connection_comes_back_aborted);
    tcase_add_test(tcase, wire__releases_pass_with_their_status);
    tcase_add_test(tcase, wire__a_backlog_without_end_costs_the_connection);
    tcase_add_test(tcase, wire__offers_nobody_wants_cost_the_connection_in_the_end);
    tcase_add_test(tcase, wire__post_and_unpost_name_the_landing_by_the_header);
    tcase_add_test(tcase, wire__connections_are_counted_and_all_can_be_closed);
    tcase_add_test(tcase, wire__a_connect_that_cannot_begin_is_closed);
    tcase_add_test(tcase, wire__other_actions_are_not_its_business);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
