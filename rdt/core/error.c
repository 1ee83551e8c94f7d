/* SPDX-License-Identifier: MIT */

/* Names of errors and of reasons a connection ended. */

#include <rdt/rdt.h>

const char *rdt_strerror(int err)
{
    switch (err) {
    case RDT_OK:
        return "success";
    case RDT_EAGAIN:
        return "full, try again when writable";
    case RDT_EINVAL:
        return "invalid argument";
    case RDT_ENOMEM:
        return "out of memory";
    case RDT_ECONN:
        return "no such connection";
    case RDT_EMSGSIZE:
        return "message too large";
    case RDT_ESYS:
        return "system call failed";
    case RDT_ELIMIT:
        return "configured limit reached";
    case RDT_EEXIST:
        return "already posted";
    case RDT_ABORTED:
        return "connection ended before the message was acknowledged";
    default:
        return "unknown error";
    }
}

const char *rdt_closed_name(enum rdt_closed reason)
{
    switch (reason) {
    case RDT_CLOSED_LOCAL:
        return "local";
    case RDT_CLOSED_PEER:
        return "peer";
    case RDT_CLOSED_DEAD:
        return "dead";
    case RDT_CLOSED_TIMEOUT:
        return "timeout";
    case RDT_CLOSED_PROTOCOL:
        return "protocol";
    case RDT_CLOSED_REFUSED:
        return "refused";
    }
    return "unknown";
}
