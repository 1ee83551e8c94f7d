/* SPDX-License-Identifier: MIT */
#include "rdt/core/inbox.h"
#include "suite.h"

enum {
    INCOMING = 4,
    POSTS = 3,
    MESSAGE_BYTES = 1024, /* of the pool, per message */
    POOL = 16384,
    EVENTS = 64,
};

static struct pool pool;
static struct credit_bank bank;
static struct events events;
static struct event_note ring[EVENTS];
static struct inbox inbox;
static uint8_t payload[4096];
static uint8_t landing_bytes[4096];
static void *memory;
static void *pool_memory;

static void set_up(void)
{
    struct inbox_config config = {.connection = 5,
                                  .incoming_max = INCOMING,
                                  .posts_max = POSTS,
                                  .message_max = MESSAGE_BYTES,
                                  .credit_base = 8192,
                                  .pool = &pool,
                                  .bank = &bank,
                                  .events = &events};

    bank.left = 0;
    pool_memory = aligned_alloc(64, (pool_bytes(POOL) + 63) / 64 * 64);
    memory = aligned_alloc(64, (inbox_bytes(&config) + 63) / 64 * 64);
    memset(memory, 0xCC, inbox_bytes(&config));
    pool_init(&pool, pool_memory, POOL);
    events_init(&events, ring, EVENTS);
    inbox_init(&inbox, memory, &config);
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 5 + i / 256);
    memset(landing_bytes, 0, sizeof landing_bytes);
}

static void tear_down(void)
{
    free(memory);
    free(pool_memory);
}

static enum inbox_verdict take(uint32_t id, uint32_t len, uint32_t offset, uint16_t part)
{
    const struct chunk chunk = {.message_id = id,
                                .message_len = len,
                                .offset = offset,
                                .len = part,
                                .tag = id,
                                .payload = payload + offset};

    return inbox_chunk(&inbox, 1, &chunk);
}

static enum inbox_verdict take_ordered(uint32_t id)
{
    const struct chunk chunk = {
        .message_id = id, .message_len = 10, .len = 10, .ordered = true, .payload = payload};

    return inbox_chunk(&inbox, 1, &chunk);
}

static bool next_event(struct rdt_event *out)
{
    struct event_note note;

    if (!events_pop(&events, &note))
        return false;
    ck_assert_uint_eq(note.connection, 5);
    *out = (struct rdt_event){.kind = note.kind};
    inbox_fill_event(&inbox, note.subject, out);
    return true;
}

static struct rdt_landing landing(uint64_t tag, size_t cap)
{
    return (struct rdt_landing){
        .buf = landing_bytes, .cap = cap, .tag = tag, .channel = 1, .user = &pool};
}

static void release(const struct rdt_event *event)
{
    ck_assert(event->pooled);
    inbox_release(&inbox, pool_owner(&pool, event->bytes)->message);
}

START_TEST(inbox__whole_message_is_delivered_once)
{
    struct rdt_event event;

    set_up();
    ck_assert_int_eq(take(0, 700, 300, 400), INBOX_TAKEN);
    ck_assert(!next_event(&event));
    ck_assert_int_eq(take(0, 700, 300, 400), INBOX_TAKEN);
    ck_assert_int_eq(take(0, 700, 0, 350), INBOX_TAKEN);
    ck_assert(next_event(&event));
    ck_assert_int_eq(event.kind, RDT_EV_MESSAGE);
    ck_assert_uint_eq(event.len, 700);
    ck_assert_mem_eq(event.bytes, payload, 700);
    ck_assert_int_eq(take(0, 700, 0, 350), INBOX_TAKEN); /* long done */
    ck_assert(!next_event(&event));
    ck_assert_uint_eq(inbox.bytes_new, 700);
    ck_assert_uint_eq(pool.free_bytes, POOL - 1024);
    release(&event);
    ck_assert_uint_eq(pool.free_bytes, POOL);
    tear_down();
}
END_TEST

START_TEST(inbox__contradictions_are_malformed)
{
    struct chunk chunk = {.message_len = 100, .len = 10, .payload = payload};

    set_up();
    ck_assert_int_eq(inbox_chunk(&inbox, 1, &chunk), INBOX_TAKEN);
    chunk.message_len = 101;
    ck_assert_int_eq(inbox_chunk(&inbox, 1, &chunk), INBOX_MALFORMED);
    chunk.message_len = 100;
    chunk.tag = 1;
    ck_assert_int_eq(inbox_chunk(&inbox, 1, &chunk), INBOX_MALFORMED);
    chunk.tag = 0;
    chunk.kind = RDT_UPDATE;
    ck_assert_int_eq(inbox_chunk(&inbox, 1, &chunk), INBOX_MALFORMED);
    chunk.kind = RDT_DATA;
    chunk.message_id = MESSAGE_WINDOW;
    ck_assert_int_eq(inbox_chunk(&inbox, 1, &chunk), INBOX_MALFORMED);
    tear_down();
}
END_TEST

START_TEST(inbox__ordered_wait_for_the_earlier)
{
    struct rdt_event event;

    set_up();
    ck_assert_int_eq(take_ordered(2), INBOX_TAKEN);
    ck_assert_int_eq(take_ordered(1), INBOX_TAKEN);
    ck_assert(!next_event(&event));
    ck_assert_int_eq(take(0, 10, 0, 10), INBOX_TAKEN); /* unordered: another lane */
    ck_assert(next_event(&event));
    release(&event);
    ck_assert_int_eq(take_ordered(0), INBOX_TAKEN);
    for (int i = 0; i < 3; i++) {
        ck_assert(next_event(&event));
        release(&event);
    }
    ck_assert(!next_event(&event));
    ck_assert_uint_eq(inbox.lanes[message_lane(1, true)].base, 3);
    tear_down();
}
END_TEST

START_TEST(inbox__posted_buffer_takes_any_size)
{
    struct rdt_landing post = landing(0, sizeof landing_bytes);
    struct rdt_event event;

    set_up();
    ck_assert_int_eq(inbox_post(&inbox, &post), 0);
    ck_assert_int_eq(inbox_post(&inbox, &post), RDT_EEXIST);
    ck_assert_int_eq(take(0, 4000, 100, 200), INBOX_TAKEN);
    ck_assert_uint_eq(inbox.credit.returned, inbox.credit.begun); /* holds no pool memory */
    ck_assert_uint_eq(pool.free_bytes, POOL);
    ck_assert(inbox.grant_fresh);
    ck_assert_int_eq(inbox_unpost(&inbox, 1, 0), RDT_EINVAL); /* bytes are landing */
    ck_assert_int_eq(take(0, 4000, 2000, 2000), INBOX_TAKEN);
    ck_assert_int_eq(take(0, 4000, 0, 2000), INBOX_TAKEN);
    ck_assert(next_event(&event));
    ck_assert(!event.pooled);
    ck_assert_ptr_eq(event.bytes, landing_bytes);
    ck_assert_ptr_eq(event.user, &pool);
    ck_assert_mem_eq(landing_bytes, payload, 4000);
    tear_down();
}
END_TEST

START_TEST(inbox__large_unposted_is_offered)
{
    struct rdt_landing small = landing(0, 3999);
    struct rdt_landing post = landing(0, 4000);
    struct rdt_event event;

    set_up();
    ck_assert_int_eq(take(0, 4000, 500, 524), INBOX_TAKEN);
    ck_assert(next_event(&event));
    ck_assert_int_eq(event.kind, RDT_EV_OFFER);
    ck_assert_uint_eq(event.len, 4000);
    ck_assert_int_eq(take(0, 4000, 1024, 1), INBOX_MALFORMED); /* not granted */
    ck_assert_int_eq(inbox_post(&inbox, &small), RDT_EMSGSIZE);
    ck_assert_int_eq(inbox_post(&inbox, &post), 0);
    ck_assert_uint_eq(pool.free_bytes, POOL);
    ck_assert_mem_eq(landing_bytes + 500, payload + 500, 524);
    ck_assert_int_eq(take(0, 4000, 1024, 2976), INBOX_TAKEN);
    ck_assert_int_eq(take(0, 4000, 0, 500), INBOX_TAKEN);
    ck_assert(next_event(&event));
    ck_assert_mem_eq(event.bytes, payload, 4000);
    tear_down();
}
END_TEST

START_TEST(inbox__post_too_small_stays)
{
    struct rdt_landing post = landing(0, 99);
    struct rdt_event event;

    set_up();
    ck_assert_int_eq(inbox_post(&inbox, &post), 0);
    ck_assert_int_eq(take(0, 100, 0, 100), INBOX_TAKEN);
    ck_assert(next_event(&event));
    ck_assert(event.pooled);
    ck_assert_int_eq(inbox_unpost(&inbox, 1, 0), 0);
    ck_assert_int_eq(inbox_unpost(&inbox, 1, 0), RDT_EINVAL);
    tear_down();
}
END_TEST

START_TEST(inbox__limits_are_answers)
{
    struct rdt_event event;

    set_up();
    for (uint64_t tag = 100; tag < 100 + POSTS; tag++) {
        struct rdt_landing post = landing(tag, 10);

        ck_assert_int_eq(inbox_post(&inbox, &post), 0);
    }
    ck_assert_int_eq(inbox_post(&inbox, &(struct rdt_landing){.tag = 1}), RDT_ELIMIT);
    for (uint32_t id = 0; id < INCOMING; id++)
        ck_assert_int_eq(take(id, 1000, 0, 10), INBOX_TAKEN);
    ck_assert_int_eq(take(INCOMING, 1000, 0, 10), INBOX_FULL);
    ck_assert_uint_eq(inbox.messages_limit, INCOMING);
    ck_assert_int_eq(take(1, 1000, 0, 1000), INBOX_TAKEN);
    ck_assert(next_event(&event));
    release(&event);
    ck_assert_uint_eq(inbox.messages_limit, INCOMING + 1);
    ck_assert_int_eq(take(INCOMING, 1000, 0, 10), INBOX_TAKEN);
    tear_down();
}
END_TEST

/* A peer that begins more than it was allowed is turned away, not served from others' memory. */
START_TEST(inbox__credit_is_enforced)
{
    set_up();
    inbox.credit.limit = 2048;
    ck_assert_int_eq(take(0, 1000, 0, 10), INBOX_TAKEN);
    ck_assert_int_eq(take(1, 1000, 0, 10), INBOX_TAKEN);
    ck_assert_int_eq(take(2, 1, 0, 1), INBOX_FULL);
    tear_down();
}
END_TEST

START_TEST(inbox__grants_are_told_until_known)
{
    struct rdt_landing post = landing(0, 4000);
    struct ack ack;

    set_up();
    ck_assert_int_eq(inbox_post(&inbox, &post), 0);
    ck_assert_int_eq(take(0, 4000, 0, 10), INBOX_TAKEN);
    inbox_list_grants(&inbox, &ack, ACK_GRANTS_MAX, 1);
    ck_assert_uint_eq(ack.grant_count, 1);
    ck_assert_uint_eq(ack.grants[0].upto, 4000);
    ck_assert(!inbox.grant_fresh);
    inbox_list_grants(&inbox, &ack, ACK_GRANTS_MAX, 2);
    ck_assert_uint_eq(ack.grant_count, 1);
    inbox_grants_known(&inbox, 1); /* an older one: the newest may still be lost */
    ck_assert_uint_eq(inbox.grant_count, 1);
    inbox_grants_known(&inbox, 2);
    ck_assert_uint_eq(inbox.grant_count, 0);
    inbox_list_grants(&inbox, &ack, ACK_GRANTS_MAX, 3);
    ck_assert_uint_eq(ack.grant_count, 0);
    tear_down();
}
END_TEST

START_TEST(inbox__closing_gives_the_pool_back)
{
    struct rdt_event event;

    set_up();
    ck_assert_int_eq(take(0, 100, 0, 100), INBOX_TAKEN);
    ck_assert_int_eq(take(1, 100, 0, 10), INBOX_TAKEN);
    ck_assert_int_eq(take_ordered(1), INBOX_TAKEN);
    inbox_close(&inbox);
    ck_assert_uint_eq(pool.free_bytes, POOL - 256); /* the one in the queue of events */
    ck_assert(next_event(&event));
    ck_assert_uint_eq(event.len, 100);
    inbox_fini(&inbox);
    ck_assert_uint_eq(pool_owner(&pool, event.bytes)->connection, POOL_NO_OWNER);
    tear_down();
}
END_TEST

/* Message numbers go on past 2^32. */
START_TEST(inbox__numbers_wrap)
{
    struct inlane *lane;
    struct rdt_event event;

    set_up();
    lane = &inbox.lanes[message_lane(1, false)];
    lane->base = UINT32_MAX - 1;
    lane->high = UINT32_MAX - 1;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t id = UINT32_MAX - 1 + (i ^ 1); /* out of order */

        ck_assert_int_eq(take(id, 10, 0, 10), INBOX_TAKEN);
        ck_assert(next_event(&event));
        release(&event);
        ck_assert_int_eq(take(id, 10, 0, 10), INBOX_TAKEN);
        ck_assert(!next_event(&event));
    }
    ck_assert_uint_eq(lane->base, 2);
    tear_down();
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        inbox__whole_message_is_delivered_once,
        inbox__contradictions_are_malformed,
        inbox__ordered_wait_for_the_earlier,
        inbox__posted_buffer_takes_any_size,
        inbox__large_unposted_is_offered,
        inbox__post_too_small_stays,
        inbox__limits_are_answers,
        inbox__credit_is_enforced,
        inbox__grants_are_told_until_known,
        inbox__closing_gives_the_pool_back,
        inbox__numbers_wrap,
    };

    return SUITE_MAIN(argc, argv, "inbox", tests);
}
