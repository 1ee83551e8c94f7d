/* SPDX-License-Identifier: MIT */
#include "rdt/core/sent.h"

#include "rdt/core/prng.h"
#include "suite.h"

enum { CAPACITY = 128 };

static struct sent_record *records;

/* Memory full of rubbish: nothing may depend on what it held. */
static void open_ring(struct sent *sent, uint64_t first_seq)
{
    const size_t size = (sent_bytes(CAPACITY) + 63) / 64 * 64;

    records = aligned_alloc(64, size);
    ck_assert_ptr_nonnull(records);
    memset(records, 0xcc, size);
    sent_init(sent, records, CAPACITY, first_seq);
}

START_TEST(sent__numbers_are_never_used_twice)
{
    struct sent sent;

    open_ring(&sent, 10);
    ck_assert_uint_eq(sent_add(&sent, 100, 1)->seq, 10);
    ck_assert_uint_eq(sent_add_untracked(&sent, 2), 11);
    ck_assert_uint_eq(sent_add(&sent, 50, 3)->seq, 12);
    ck_assert_uint_eq(sent.in_flight_bytes, 150);
    ck_assert_uint_eq(sent.in_flight_count, 2);
    ck_assert(sent_is_used(&sent, 12));
    ck_assert(!sent_is_used(&sent, 13));
    free(records);
}
END_TEST

START_TEST(sent__only_tracked_packets_are_found)
{
    struct sent sent;

    open_ring(&sent, 0);
    ck_assert_ptr_null(sent_find(&sent, 0));
    sent_add(&sent, 1, 0);
    sent_add_untracked(&sent, 0);
    ck_assert_ptr_nonnull(sent_find(&sent, 0));
    ck_assert_ptr_null(sent_find(&sent, 1));
    ck_assert_ptr_null(sent_find(&sent, 2));
    ck_assert_ptr_null(sent_find(&sent, CAPACITY));
    free(records);
}
END_TEST

START_TEST(sent__acknowledged_leaves_flight_once)
{
    struct sent sent;
    struct sent_record *record;

    open_ring(&sent, 0);
    for (int i = 0; i < 5; i++)
        sent_add(&sent, 10, 0);
    record = sent_next_in_flight(&sent, 1, 3);
    ck_assert_uint_eq(record->seq, 1);
    sent_on_acked(&sent, record);
    ck_assert_int_eq(record->state, SENT_ACKED);
    record = sent_next_in_flight(&sent, 1, 3);
    ck_assert_uint_eq(record->seq, 2);
    sent_on_acked(&sent, record);
    ck_assert_uint_eq(sent_oldest(&sent)->seq, 0);
    sent_on_acked(&sent, sent_oldest(&sent));
    ck_assert_uint_eq(sent_oldest(&sent)->seq, 3);
    ck_assert_uint_eq(sent.acked_end, 3);
    ck_assert_uint_eq(sent.in_flight_bytes, 20);
    ck_assert_ptr_null(sent_next_in_flight(&sent, 0, 2));
    ck_assert_ptr_null(sent_next_in_flight(&sent, 5, UINT64_MAX));
    free(records);
}
END_TEST

START_TEST(sent__lost_is_found_again_when_it_proves_spurious)
{
    struct sent sent;

    open_ring(&sent, 0);
    for (int i = 0; i < 4; i++)
        sent_add(&sent, 10, 0);
    sent_on_lost(&sent, sent_find(&sent, 1));
    ck_assert_uint_eq(sent.in_flight_bytes, 30);
    ck_assert_ptr_null(sent_next_lost(&sent, 2, 3));
    ck_assert_uint_eq(sent_next_lost(&sent, 0, 3)->seq, 1);
    sent_on_acked(&sent, sent_find(&sent, 1));
    ck_assert_uint_eq(sent.in_flight_bytes, 30);
    ck_assert_ptr_null(sent_next_lost(&sent, 0, 3));
    free(records);
}
END_TEST

START_TEST(sent__floor_waits_for_flight_and_for_fresh_losses)
{
    struct sent sent;

    open_ring(&sent, 0);
    for (uint64_t at = 0; at < 6; at++)
        sent_add(&sent, 10, at);
    ck_assert_uint_eq(sent_floor(&sent, 100), 0);
    sent_on_acked(&sent, sent_find(&sent, 0));
    sent_on_lost(&sent, sent_find(&sent, 1));
    sent_on_acked(&sent, sent_find(&sent, 2));
    ck_assert_uint_eq(sent_floor(&sent, 1), 1);
    ck_assert_uint_eq(sent_floor(&sent, 2), 3);
    ck_assert_uint_eq(sent_floor(&sent, 0), 3);
    ck_assert_ptr_null(sent_next_lost(&sent, 0, 5));
    free(records);
}
END_TEST

START_TEST(sent__full_ring_has_no_room_until_the_oldest_is_settled)
{
    struct sent sent;

    open_ring(&sent, 0);
    for (int i = 0; i < CAPACITY; i++) {
        ck_assert(sent_has_room(&sent));
        sent_add(&sent, 1, 0);
    }
    ck_assert(!sent_has_room(&sent));
    sent_on_acked(&sent, sent_find(&sent, 1));
    ck_assert(!sent_has_room(&sent));
    sent_on_lost(&sent, sent_oldest(&sent));
    ck_assert(sent_has_room(&sent));
    for (int i = 0; i < 2; i++)
        sent_add(&sent, 1, 0);
    ck_assert(!sent_has_room(&sent));
    ck_assert_ptr_null(sent_find(&sent, 0));
    ck_assert_ptr_nonnull(sent_find(&sent, CAPACITY));
    free(records);
}
END_TEST

/* ---------- against an oracle: plain arrays, searched the slow way ---------- */

enum { UNIVERSE = 20000 };

static uint8_t states[UNIVERSE];

static uint64_t slow_oldest(uint64_t end)
{
    for (uint64_t seq = end > CAPACITY ? end - CAPACITY : 0; seq < end; seq++) {
        if (states[seq] == SENT_IN_FLIGHT)
            return seq;
    }
    return end;
}

static uint64_t slow_next(uint64_t first, uint64_t last, uint64_t end, uint8_t state)
{
    const uint64_t low = end > CAPACITY ? end - CAPACITY : 0;

    for (uint64_t seq = first > low ? first : low; seq <= last && seq < end; seq++) {
        if (states[seq] == state)
            return seq;
    }
    return UINT64_MAX;
}

static uint64_t seq_of(const struct sent_record *record)
{
    return record ? record->seq : UINT64_MAX;
}

static void settle_one(struct sent *sent, uint64_t *random)
{
    const uint64_t pick = sent->oldest + prng_splitmix64(random) % CAPACITY;
    struct sent_record *record = sent_find(sent, pick);

    if (!record)
        return;
    if (record->state == SENT_IN_FLIGHT && prng_splitmix64(random) % 4 == 0) {
        sent_on_lost(sent, record);
        states[pick] = SENT_LOST;
    } else if (record->state == SENT_IN_FLIGHT || record->state == SENT_LOST) {
        sent_on_acked(sent, record);
        states[pick] = SENT_ACKED;
    }
}

START_TEST(sent__agrees_with_an_oracle)
{
    for (uint64_t n = 0; n < 20; n++) {
        struct sent sent;
        uint64_t random = suite_seed(n);

        open_ring(&sent, 0);
        memset(states, SENT_UNTRACKED, sizeof states);
        for (int step = 0; sent.next_seq < UNIVERSE - 1; step++) {
            const uint64_t first = sent.oldest + prng_splitmix64(&random) % 40 - 20;
            const uint64_t low = first > UINT64_MAX / 2 ? 0 : first;
            const uint64_t last = low + prng_splitmix64(&random) % 200;

            if (!sent_has_room(&sent)) {
                states[sent.oldest] = SENT_LOST;
                sent_on_lost(&sent, sent_oldest(&sent));
            } else if (prng_splitmix64(&random) % 4 == 0) {
                sent_add_untracked(&sent, 0);
            } else {
                states[sent.next_seq] = SENT_IN_FLIGHT;
                sent_add(&sent, 7, 0);
            }
            settle_one(&sent, &random);
            if (sent.oldest != slow_oldest(sent.next_seq) ||
                seq_of(sent_next_in_flight(&sent, low, last)) !=
                    slow_next(low, last, sent.next_seq, SENT_IN_FLIGHT) ||
                seq_of(sent_next_lost(&sent, low, last)) !=
                    slow_next(low, last, sent.next_seq, SENT_LOST) ||
                sent.in_flight_bytes != 7u * sent.in_flight_count)
                ck_abort_msg("seed %llu, step %d", suite_seed(n), step);
        }
        ck_assert_uint_gt(sent.acked_end, UNIVERSE / 2);
        free(records);
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        sent__numbers_are_never_used_twice,
        sent__only_tracked_packets_are_found,
        sent__acknowledged_leaves_flight_once,
        sent__lost_is_found_again_when_it_proves_spurious,
        sent__floor_waits_for_flight_and_for_fresh_losses,
        sent__full_ring_has_no_room_until_the_oldest_is_settled,
        sent__agrees_with_an_oracle,
    };

    return SUITE_MAIN(argc, argv, "sent", tests);
}
