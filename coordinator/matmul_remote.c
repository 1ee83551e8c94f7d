/* SPDX-License-Identifier: MIT */
#include <coordinator/matmul.h>

#include <cluster/host.h>
#include <cluster/text.h>
#include <coordinator/product.h>
#include <coordinator/remote.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { LOGS_MAX = 1024, DEFAULT_WAIT_S = 60 };

/* A product over nodes, while it runs. */
struct over {
    struct matmul *matmul;
    struct standalone *nodes;
    uint32_t nodes_count; /* started here */
    struct product *product;
    struct host *host;
    char logs[LOGS_MAX]; /* directory of the local nodes' logs; "": none */
};

/* ---------- the host's view ---------- */

static void step(void *state, const struct input *input, uint64_t now_ns, struct actions *out)
{
    const struct over *over = state;

    product_step(over->product, input, now_ns, out);
}

static uint64_t deadline(const void *state)
{
    const struct over *over = state;

    return product_deadline(over->product);
}

static void run(void *state, void *job)
{
    const struct over *over = state;

    product_run(over->product, job);
}

static void on_event(void *state, const char *text, uint64_t now_ns)
{
    struct over *over = state;

    (void)now_ns;
    if (strncmp(text, "joining", strlen("joining")) != 0)
        progress_say(&over->matmul->progress, text);
}

static void on_turn(void *state, uint64_t now_ns)
{
    struct over *over = state;
    struct progress *progress = &over->matmul->progress;
    struct product_status status = product_status(over->product);
    char name[STANDALONE_NAME_MAX], why[128], text[ACTION_TEXT_MAX];

    (void)now_ns;
    if (progress->tty && status.done < status.blocks && !product_is_gathering(over->product)) {
        fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " blocks, %u nodes\033[K", status.done,
                status.blocks, status.ready);
        progress->open_line = true;
    }
    while (standalone_lost(over->nodes, name, why, sizeof why)) {
        text_format(text, sizeof text, "process node=%s ended=\"%s\"", name, why);
        progress_say(progress, text);
        product_drop(over->product, name);
        if (!product_is_gathering(over->product))
            continue;
        text_format(text, sizeof text, "node %s ended before it could help: %s", name, why);
        product_fail(over->product, EXIT_NOT_STARTED, text);
    }
}

/* ---------- logs of local nodes ---------- */

static int make_logs(struct over *over)
{
    const char *base = getenv("TMPDIR");

    text_format(over->logs, sizeof over->logs, "%s/gradwire-matmul-XXXXXX",
                base && base[0] ? base : "/tmp");
    if (mkdtemp(over->logs))
        return 0;
    over->logs[0] = '\0';
    return -1;
}

/* They are of interest only when something went wrong. */
static void end_logs(struct over *over, int code)
{
    char path[LOGS_MAX + 32];

    if (!over->logs[0])
        return;
    if (code != EXIT_DONE && code != EXIT_STOPPED) {
        text_format(path, sizeof path, "the nodes' logs are in %s", over->logs);
        progress_say(&over->matmul->progress, path);
        return;
    }
    for (uint32_t i = 0; i < over->nodes_count; i++) {
        text_format(path, sizeof path, "%s/n%u.log", over->logs, i + 1);
        unlink(path);
    }
    rmdir(over->logs);
}

/* ---------- from start to end ---------- */

static int open_product(struct over *over)
{
    const struct matmul *matmul = over->matmul;
    const struct args *args = matmul->args;
    struct product_config config = {
        .shape = matmul->shape,
        .a = matmul->a.data,
        .b = matmul->b.data,
        .c = matmul->c.data,
        .nodes = over->nodes->count > 0 ? over->nodes->count
                 : args->has_nodes      ? args->nodes
                                        : 1,
        .wait_ns = (args->has_wait ? args->wait_s : DEFAULT_WAIT_S) * UINT64_C(1000000000),
        .check = args->check,
    };

    do {
        if (getrandom(&config.run_id, sizeof config.run_id, 0) != sizeof config.run_id)
            return -1;
    } while (config.run_id == 0);
    if (nn_product_fingerprint(&config.fingerprint) < 0)
        return -1;
    return product_open(&over->product, &config);
}

static int open_host(struct over *over, const struct remote_config *config,
                     char why[MATMUL_WHY_MAX])
{
    const struct host_config host_config = {
        .bind = config->bind,
        .listen = true,
        .impaired = config->impaired,
        .impair = config->impair,
        .connections_max = COORD_NODES_MAX + 16,
    };
    const struct host_client client = {.state = over,
                                       .step = step,
                                       .deadline = deadline,
                                       .run = run,
                                       .on_event = on_event,
                                       .on_turn = on_turn};
    int err = host_open(&over->host, &host_config, &client);

    if (err < 0)
        text_format(why, MATMUL_WHY_MAX, "cannot listen at %s: %s", config->bind_text,
                    err == RDT_ESYS ? strerror(errno) : rdt_strerror(err));
    return err;
}

static int start(struct over *over, char why[MATMUL_WHY_MAX])
{
    struct remote_config config;
    char addr[RDT_ADDR_TEXT_MAX], text[RDT_ADDR_TEXT_MAX + 16];
    struct rdt_addr local;
    int code = remote_config(&config, over->matmul->args, why, MATMUL_WHY_MAX);

    if (code != 0)
        return code;
    if (open_product(over) < 0) {
        text_format(why, MATMUL_WHY_MAX, "not enough memory for the product's blocks");
        return EXIT_OTHER;
    }
    if (open_host(over, &config, why) < 0)
        return EXIT_NOT_STARTED;
    local = host_local(over->host);
    if (over->nodes_count > 0 &&
        (make_logs(over) < 0 || standalone_start(over->nodes, local.port, over->logs) < 0)) {
        text_format(why, MATMUL_WHY_MAX, "cannot start the local nodes: %s", strerror(errno));
        return EXIT_NOT_STARTED;
    }
    rdt_addr_format(&local, addr);
    text_format(text, sizeof text, "listening at %s", addr);
    if (over->nodes_count == 0)
        progress_say(&over->matmul->progress, text);
    return 0;
}

static void fill(const struct over *over, struct matmul_result *result)
{
    struct product_status status = product_status(over->product);
    struct rdt_stats stats = {.size = sizeof stats};

    rdt_endpoint_stats(host_endpoint(over->host), &stats);
    *result = (struct matmul_result){
        .seconds = (double)(status.end_ns - status.begun_ns) * 1e-9,
        .bytes = stats.bytes_sent + stats.bytes_received,
        .nodes = status.helped,
        .blocks = status.blocks,
        .again = status.again,
        .wrong = status.wrong,
    };
}

int matmul_remote(struct matmul *matmul, struct standalone *nodes, struct matmul_result *result,
                  char why[MATMUL_WHY_MAX])
{
    struct over over = {.matmul = matmul, .nodes = nodes, .nodes_count = nodes->count};
    char text[ACTION_TEXT_MAX];
    int code = start(&over, why);

    if (code == 0) {
        code = host_run(over.host, text);
        if (matmul->progress.open_line)
            fputs("\r\033[K", stderr);
        matmul->progress.open_line = false;
        if (code == EXIT_DONE)
            fill(&over, result);
        else
            text_format(why, MATMUL_WHY_MAX, "%s", text);
    }
    host_free(over.host);
    product_free(over.product);
    end_logs(&over, code);
    return code;
}
