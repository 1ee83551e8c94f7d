/* SPDX-License-Identifier: MIT */
/* gradwire-node: joins a coordinator and computes what it is given. */
#include <cluster/host.h>
#include <cluster/text.h>
#include <node/worker.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { EXIT_BAD_USAGE = 2, WHY_MAX = 512, THREADS_MAX = 256 };

static const char help_text[] =
    "gradwire-node: joins a coordinator and computes what it is given\n"
    "\n"
    "  gradwire-node --join HOST:PORT [options]\n"
    "\n"
    "  --join HOST:PORT  where gradwire-coordinator listens; waits for it, in any order\n"
    "  --bind ADDR       local address (default: any)\n"
    "  --name NAME       label for logs: letters, digits, . _ - (default: host name and process)\n"
    "  --threads N       threads; each computes whole leaves (default: all cores)\n"
    "  --data DIR        look for the run's data files here first; without data the coordinator\n"
    "                    sends the samples that are needed\n"
    "  --impair SPEC     pass every datagram through a simulated link, e.g. loss=5%,delay=2ms\n"
    "  --wait SECONDS    give up after so long without a coordinator (default: never)\n"
    "\n"
    "exit codes: 0 the run is over, 1 anything else, 2 usage, 3 no coordinator or refused by it,\n"
    "  4 stopped by the user\n";

struct node_args {
    const char *join, *bind, *name, *data, *impair;
    uint32_t threads; /* 0: all cores */
    bool waits;
    uint32_t wait_s;
    bool help;
};

static int bad(char why[WHY_MAX], const char *what, const char *text)
{
    text_format(why, WHY_MAX, "%s%s (see gradwire-node --help)", what, text);
    return -1;
}

static int to_count(const char *text, uint32_t max, uint32_t *out)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value > max)
        return -1;
    *out = (uint32_t)value;
    return 0;
}

static int read_args(struct node_args *args, int argc, char **argv, char why[WHY_MAX])
{
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        const char **text = strcmp(name, "--join") == 0     ? &args->join
                            : strcmp(name, "--bind") == 0   ? &args->bind
                            : strcmp(name, "--name") == 0   ? &args->name
                            : strcmp(name, "--data") == 0   ? &args->data
                            : strcmp(name, "--impair") == 0 ? &args->impair
                                                            : NULL;

        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
            args->help = true;
            return 0;
        }
        if (!text && strcmp(name, "--threads") != 0 && strcmp(name, "--wait") != 0)
            return bad(why, name, ": unknown option");
        if (!value)
            return bad(why, name, ": needs a value");
        if (text)
            *text = value;
        else if (strcmp(name, "--threads") == 0) {
            if (to_count(value, THREADS_MAX, &args->threads) < 0 || args->threads == 0)
                return bad(why, "--threads: not a number from 1 to 256: ", value);
        } else {
            if (to_count(value, 1u << 30, &args->wait_s) < 0)
                return bad(why, "--wait: not a number of seconds: ", value);
            args->waits = true;
        }
    }
    if (!args->join)
        return bad(why, "--join HOST:PORT is missing", "");
    if (args->name && !body_name_ok(args->name))
        return bad(why, "--name: 1 to 63 of A-Z a-z 0-9 . _ -: ", args->name);
    return 0;
}

static uint32_t all_cores(void)
{
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof cpus, &cpus) < 0)
        return 1;
    return (uint32_t)CPU_COUNT(&cpus);
}

static void choose_name(char out[BODY_NAME_MAX], const char *given)
{
    char host[40] = "node";

    if (given) {
        text_format(out, BODY_NAME_MAX, "%s", given);
        return;
    }
    gethostname(host, sizeof host - 1);
    text_format(out, BODY_NAME_MAX, "%s-%d", host, (int)getpid());
    if (!body_name_ok(out))
        text_format(out, BODY_NAME_MAX, "node-%d", (int)getpid());
}

static void on_event(void *state, const char *text, uint64_t now_ns)
{
    (void)state;
    (void)now_ns;
    fprintf(stderr, "%s\n", text);
}

static int resolve_bind(struct rdt_addr *out, const char *bind, char why[WHY_MAX])
{
    char text[256];

    memset(out, 0, sizeof *out); /* any address, any port */
    if (!bind)
        return 0;
    text_format(text, sizeof text, strchr(bind, ':') && bind[0] != '[' ? "[%s]:0" : "%s:0", bind);
    return host_resolve(out, text, why, WHY_MAX);
}

/* From the arguments to what worker and host want.  0 or an exit code. */
static int configure(const struct node_args *args, struct worker_config *worker,
                     struct host_config *host, char why[WHY_MAX])
{
    char reason[256];

    host->connections_max = 4;
    host->impaired = args->impair != NULL;
    if (args->impair && rdt_link_parse(&host->impair, args->impair, reason, sizeof reason) < 0) {
        bad(why, "--impair: ", reason);
        return EXIT_BAD_USAGE;
    }
    if (host_resolve(&worker->peer, args->join, why, WHY_MAX) < 0 ||
        resolve_bind(&host->bind, args->bind, why) < 0)
        return WORKER_NOT_STARTED;
    choose_name(worker->name, args->name);
    worker->threads = args->threads ? args->threads : all_cores();
    if (worker->threads > THREADS_MAX)
        worker->threads = THREADS_MAX;
    worker->data_dir = args->data;
    worker->wait_ns = args->waits ? (uint64_t)args->wait_s * 1000000000u : UINT64_MAX;
    if (getrandom(&worker->instance, sizeof worker->instance, 0) != sizeof worker->instance) {
        text_format(why, WHY_MAX, "no randomness: %s", strerror(errno));
        return WORKER_FAILED;
    }
    return 0;
}

static int run(const struct worker_config *worker_config, const struct host_config *host_config,
               char why[WHY_MAX])
{
    struct host_client client = {
        .step = worker_step, .deadline = worker_deadline, .run = worker_run, .on_event = on_event};
    struct worker *worker;
    struct host *host;
    int code = WORKER_FAILED, err;

    if (worker_open(&worker, worker_config) < 0) {
        text_format(why, WHY_MAX, "not enough memory");
        return code;
    }
    client.state = worker;
    err = host_open(&host, host_config, &client);
    if (err < 0) {
        text_format(why, WHY_MAX, "cannot open a socket: %s",
                    err == RDT_ESYS ? strerror(errno) : rdt_strerror(err));
        code = WORKER_NOT_STARTED;
    } else {
        code = host_run(host, why);
        host_free(host);
    }
    worker_free(worker);
    return code;
}

int main(int argc, char **argv)
{
    struct node_args args = {.join = NULL};
    struct data_store store = {.oldest = 0};
    struct worker_config worker = {.store = &store};
    struct host_config host = {.listen = false};
    char why[WHY_MAX] = "";
    int code;

    host_keep_stdio();
    if (read_args(&args, argc, argv, why) < 0) {
        fprintf(stderr, "gradwire-node: %s\n", why);
        return EXIT_BAD_USAGE;
    }
    if (args.help) {
        fputs(help_text, stdout);
        return 0;
    }
    code = configure(&args, &worker, &host, why);
    if (code == 0)
        code = run(&worker, &host, why);
    if (why[0])
        fprintf(stderr, "gradwire-node: %s\n", why);
    data_store_close(&store);
    return code;
}
