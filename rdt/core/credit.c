/* SPDX-License-Identifier: MIT */
/*
 * Promises of pool memory to peers; see credit.h.
 */
#include "credit.h"

#include <assert.h>

static uint64_t fair_loan(const struct credit *credit, const struct credit_bank *bank)
{
    return (bank->left + credit->loan) / 2;
}

void credit_init(struct credit *credit, struct credit_bank *bank, uint64_t base)
{
    *credit = (struct credit){.base = base};
    credit->loan = fair_loan(credit, bank);
    bank->left -= credit->loan;
    credit->limit = credit_window(credit);
}

void credit_fini(struct credit *credit, struct credit_bank *bank)
{
    bank->left += credit->loan;
    credit->loan = 0;
}

void credit_return(struct credit *credit, struct credit_bank *bank, uint64_t cost)
{
    uint64_t fair = fair_loan(credit, bank);
    uint64_t limit;

    assert(cost <= credit->begun - credit->returned);
    credit->returned += cost;
    if (fair >= credit->loan) {
        bank->left -= fair - credit->loan;
        credit->loan = fair;
    } else {
        uint64_t less = credit->loan - fair < cost ? credit->loan - fair : cost;

        credit->loan -= less;
        bank->left += less;
    }
    limit = credit->returned + credit_window(credit);
    if (limit > credit->limit)
        credit->limit = limit;
}
