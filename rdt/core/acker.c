/* SPDX-License-Identifier: MIT */
/*
 * When to send an ACK block; see acker.h.
 */
#include "acker.h"

void acker_init(struct acker *acker)
{
    *acker = (struct acker){.deadline_ns = UINT64_MAX};
}

void acker_on_packet(struct acker *acker, bool urgent, uint64_t now_ns, uint64_t delay_ns)
{
    acker->pending++;
    if (urgent || acker->pending >= ACKER_PACKETS)
        acker->due = true;
    if (acker->deadline_ns == UINT64_MAX)
        acker->deadline_ns = now_ns + delay_ns;
}

void acker_on_sent(struct acker *acker)
{
    acker->pending = 0;
    acker->due = false;
    acker->deadline_ns = UINT64_MAX;
}

bool acker_is_due(const struct acker *acker, uint64_t now_ns)
{
    return acker->due || now_ns >= acker->deadline_ns;
}

void news_init(struct news *news, struct allowance known)
{
    *news = (struct news){.known = known, .sent = known, .deadline_ns = UINT64_MAX};
}

void news_update(struct news *news, struct allowance allowance, struct news_step step,
                 uint64_t deadline_ns)
{
    const uint64_t credit = allowance.credit - news->sent.credit;
    const uint32_t messages = allowance.messages - news->sent.messages;

    if (credit == 0 && messages == 0)
        return;
    if (credit >= step.credit || messages >= step.messages)
        news->due = true;
    else if (news->deadline_ns == UINT64_MAX)
        news->deadline_ns = deadline_ns;
}

void news_hurry(struct news *news)
{
    news->due = true;
}

bool news_is_due(const struct news *news, uint64_t now_ns)
{
    return news->due || now_ns >= news->deadline_ns;
}

uint64_t news_on_sent(struct news *news, struct allowance allowance)
{
    news->sent = allowance;
    news->due = false;
    news->deadline_ns = UINT64_MAX;
    return ++news->version;
}

void news_on_acked(struct news *news, uint64_t version)
{
    if (version > news->known_version)
        news->known_version = version;
    if (version == news->version)
        news->known = news->sent;
}

void news_on_lost(struct news *news, uint64_t version)
{
    if (version > news->known_version)
        news->due = true; /* grants may have been in that one only */
}
