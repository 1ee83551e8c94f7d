/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_MESSAGE_H
#define CLUSTER_MESSAGE_H

/*
 * What members say to each other: one message is a 64-byte header, then a body.  The header is the
 * `head` of an rdt message and the first 64 bytes where it lands, so floats in the body stay
 * aligned. Layout and bodies: docs/protocol.md, "Cluster".  Little-endian throughout.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_HEADER = 64, MESSAGE_VERSION = 1 };

enum message_kind {
    MSG_JOIN = 1,       /* node: who I am (body: instance, name, threads) */
    MSG_WELCOME = 2,    /* coordinator: the run (body: model, data, seed, kernel ...) */
    MSG_REFUSE = 3,     /* coordinator: why not (body: text) */
    MSG_READY = 4,      /* node: fingerprint, which data it holds */
    MSG_SAMPLES = 5,    /* coordinator: raw samples */
    MSG_WEIGHTS = 6,    /* coordinator: the vector for `step` (an UPDATE) */
    MSG_STEP = 7,       /* coordinator: compute leaves first ... first + count - 1 of `step` */
    MSG_PARTIAL = 8,    /* node: gradient sum of one subtree (an UPDATE) */
    MSG_EVAL = 9,       /* coordinator: evaluate test leaves with the weights of `step` */
    MSG_EVALUATED = 10, /* node: per-leaf losses and counts */
    MSG_OPERAND = 11,   /* coordinator: a piece of B, or the rows of B that go with a BLOCK */
    MSG_BLOCK = 12,     /* coordinator: rows of A (step: its number at this node) */
    MSG_RESULT = 13,    /* node: the same rows of C */
    MSG_STATS = 14,     /* named here and defined by a later issue */
    MSG_LEAVE = 15,     /* node: I am going (a signal) */
    MSG_BYE = 16,       /* coordinator: the run is over (aux: its exit code) */
    MSG_KIND_END
};

/* What a run is for: `aux` of WELCOME, which says what its body is. */
enum message_purpose { PURPOSE_TRAINING = 0, PURPOSE_PRODUCT = 1 };

/* Channels of a connection: control is ordered and goes first, bulk is neither. */
enum { CHANNEL_CONTROL = 0, CHANNEL_BULK = 1 };

struct message {
    enum message_kind kind;
    uint64_t run_id;
    uint64_t view;  /* number of the membership */
    uint64_t step;  /* counts from 0; the weights of step 0 are the initial ones */
    uint32_t first; /* leaf */
    uint32_t count; /* leaves */
    uint64_t aux;   /* by kind */
    uint64_t hash;  /* XXH3-64 of the body; 0: not given */
    uint32_t body_len;
};

/* Writes the 64 header bytes. */
void message_encode(const struct message *message, uint8_t out[MESSAGE_HEADER]);

/* Reads and checks a header of a message of `len` bytes in all: version, kind, reserved bytes zero,
 * body_len == len - 64.  false: garbage. */
bool message_decode(struct message *out, const uint8_t *bytes, size_t len);

const char *message_name(enum message_kind kind);
bool message_is_update(enum message_kind kind);

/* Bulk: SAMPLES, WEIGHTS, PARTIAL, OPERAND, BLOCK, RESULT.  All else is control. */
uint16_t message_channel(enum message_kind kind);

/* The rdt tag under which this message lands: (kind, first, count, step).  0 for control messages.
 */
uint64_t message_tag(const struct message *message);

#endif
