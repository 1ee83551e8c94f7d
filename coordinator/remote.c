/* SPDX-License-Identifier: MIT */
#include <coordinator/remote.h>

#include <cluster/host.h>
#include <cluster/text.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char default_listen[] = "[::]:7171";

struct remote {
    struct session *session;
    struct standalone *nodes;
    struct coord *coord;
    struct host *host;
    pid_t pids[STANDALONE_MAX]; /* for nodes.csv: the children may be gone by then */
};

int remote_config(struct remote_config *config, const struct args *args, char *why, size_t cap)
{
    const char *listen = args->listen ? args->listen : default_listen;

    memset(config, 0, sizeof *config);
    if (args->impair) {
        char reason[256];

        config->impaired = true;
        if (rdt_link_parse(&config->impair, args->impair, reason, sizeof reason) < 0) {
            text_format(why, cap, "--impair: %s", reason);
            return EXIT_USAGE;
        }
    }
    if (args->where == WHERE_STANDALONE) {
        config->bind = rdt_addr_v4(127, 0, 0, 1, 0);
        text_format(config->bind_text, sizeof config->bind_text, "127.0.0.1");
        return 0;
    }
    text_format(config->bind_text, sizeof config->bind_text, "%s", listen);
    return host_resolve(&config->bind, listen, why, cap) < 0 ? EXIT_NOT_STARTED : 0;
}

/* ---------- nodes.csv ---------- */

static char *nodes_table(const struct remote *remote)
{
    size_t cap = 256 * (coord_nodes(remote->coord) + 2);
    char *text = malloc(cap);
    size_t len;

    if (!text)
        return NULL;
    len = (size_t)snprintf(text, cap,
                           "name,instance,address,pid,threads,train_data,test_data,leaves,"
                           "samples_sent,lost\n");
    for (size_t i = 0; i < coord_nodes(remote->coord); i++) {
        struct coord_node node = coord_node(remote->coord, i);
        unsigned long idx = node.name[0] == 'n' ? strtoul(node.name + 1, NULL, 10) : 0;
        pid_t pid = idx >= 1 && idx <= STANDALONE_MAX ? remote->pids[idx - 1] : 0;
        char addr[RDT_ADDR_TEXT_MAX], pid_text[16] = "";

        rdt_addr_format(&node.peer, addr);
        if (pid > 0)
            snprintf(pid_text, sizeof pid_text, "%d", (int)pid);
        len += (size_t)snprintf(
            text + len, cap - len,
            "%s,%016" PRIx64 ",%s,%s,%" PRIu32 ",%s,%s,%" PRIu64 ",%" PRIu64 ",%d\n", node.name,
            node.instance, addr, pid_text, node.threads, node.has_train ? "own" : "sent",
            node.has_test ? "own" : "sent", node.leaves, node.samples_sent, node.lost);
    }
    return text;
}

/* Kept up to date while nodes come: who wants to stop one by hand finds its process here. */
static void write_nodes(const struct remote *remote)
{
    char *table = nodes_table(remote);

    if (table)
        rundir_text(&remote->session->dir, "nodes.csv", table);
    free(table);
}

/* ---------- the host's view ---------- */

static void step(void *state, const struct input *input, uint64_t now_ns, struct actions *out)
{
    struct remote *remote = state;

    coord_step(remote->coord, input, now_ns, out);
}

static uint64_t deadline(const void *state)
{
    const struct remote *remote = state;

    return coord_deadline(remote->coord);
}

static void run(void *state, void *job)
{
    const struct remote *remote = state;

    coord_run(remote->coord, job);
}

static void on_event(void *state, const char *text, uint64_t now_ns)
{
    struct remote *remote = state;

    (void)now_ns;
    session_event(remote->session, text);
}

static void count_bytes(struct remote *remote)
{
    struct rdt_stats stats = {.size = sizeof stats};

    rdt_endpoint_stats(host_endpoint(remote->host), &stats);
    remote->session->bytes_sent = stats.bytes_sent;
    remote->session->bytes_retransmitted = stats.payload_retransmitted;
}

/* How the network was, in numbers, for events.log. */
static void note_network(const struct remote *remote)
{
    struct rdt_stats stats = {.size = sizeof stats};
    char text[ACTION_TEXT_MAX];

    rdt_endpoint_stats(host_endpoint(remote->host), &stats);
    text_format(text, sizeof text,
                "network datagrams_sent=%" PRIu64 " received=%" PRIu64 " lost=%" PRIu64
                " duplicate=%" PRIu64 " reordered=%" PRIu64 " corrupt=%" PRIu64
                " malformed=%" PRIu64 " stray=%" PRIu64 " garbage_messages=%" PRIu64,
                stats.datagrams_sent, stats.datagrams_received, stats.lost, stats.duplicate,
                stats.reordered, stats.corrupt, stats.malformed, stats.stray,
                host_garbage(remote->host));
    session_event(remote->session, text);
}

static void on_record(void *state, const void *record, uint64_t now_ns)
{
    struct remote *remote = state;
    const struct rundir *dir = &remote->session->dir;

    session_record(remote->session, record, now_ns);
    if (((const struct record *)record)->kind == RECORD_MEMBERS)
        write_nodes(remote);
    if (dir->failed)
        coord_fail(remote->coord, EXIT_OTHER, dir->why);
}

static void on_turn(void *state, uint64_t now_ns)
{
    struct remote *remote = state;
    char name[STANDALONE_NAME_MAX], why[128], text[ACTION_TEXT_MAX];

    (void)now_ns;
    count_bytes(remote);
    while (standalone_lost(remote->nodes, name, why, sizeof why)) {
        text_format(text, sizeof text, "process node=%s ended=\"%s\"", name, why);
        session_event(remote->session, text);
        coord_drop(remote->coord, name);
        if (!coord_is_gathering(remote->coord))
            continue;
        text_format(text, sizeof text, "node %s ended before the run began: %s", name, why);
        coord_fail(remote->coord, EXIT_NOT_STARTED, text);
    }
}

/* ---------- one run ---------- */

static int open_coord(struct remote *remote)
{
    struct setup *setup = &remote->session->setup;
    struct coord_config config = {
        .welcome = setup->welcome,
        .welcome_len = setup->welcome_len,
        .model = setup->model,
        .train = setup->train,
        .test = setup->test,
        .schedule = setup->schedule,
        .optim = setup->optim,
        .seed = setup->config.train.seed,
        .fingerprint = setup->fingerprint,
        .nodes = setup->config.cluster.nodes,
        .min_nodes = setup->config.cluster.min_nodes,
        .wait_ns = (uint64_t)setup->config.cluster.wait_s * 1000000000u,
    };

    do {
        if (getrandom(&config.run_id, sizeof config.run_id, 0) != sizeof config.run_id)
            return -1;
    } while (config.run_id == 0);
    return coord_open(&remote->coord, &config);
}

static int open_host(struct remote *remote, const struct remote_config *config, char *why,
                     size_t cap)
{
    const struct host_config host_config = {
        .bind = config->bind,
        .listen = true,
        .impaired = config->impaired,
        .impair = config->impair,
        .dead_ns = (uint64_t)remote->session->setup.config.cluster.dead_ms * 1000000u,
        .connections_max = COORD_NODES_MAX + 16,
    };
    const struct host_client client = {.state = remote,
                                       .step = step,
                                       .deadline = deadline,
                                       .run = run,
                                       .on_event = on_event,
                                       .on_record = on_record,
                                       .on_turn = on_turn};
    int err = host_open(&remote->host, &host_config, &client);

    if (err < 0)
        text_format(why, cap, "cannot listen at %s: %s", config->bind_text,
                    err == RDT_ESYS ? strerror(errno) : rdt_strerror(err));
    return err;
}

static int start(struct remote *remote, const struct remote_config *config, char *why, size_t cap)
{
    struct session *session = remote->session;
    char text[ACTION_TEXT_MAX], addr[RDT_ADDR_TEXT_MAX];
    struct rdt_addr local;
    int code = setup_welcome(&session->setup);

    if (code != 0) {
        text_format(why, cap, "%s", session->setup.why);
        return code;
    }
    if (open_coord(remote) < 0) {
        text_format(why, cap, "not enough memory for %zu parameters",
                    nn_model_parameters(session->setup.model));
        return EXIT_OTHER;
    }
    if (open_host(remote, config, why, cap) < 0)
        return EXIT_NOT_STARTED;
    local = host_local(remote->host);
    rdt_addr_format(&local, addr);
    text_format(text, sizeof text, "listening address=%s", addr);
    session_event(session, text);
    if (remote->nodes->count == 0) {
        text_format(text, sizeof text, "listening at %s", addr);
        progress_say(&session->progress, text);
    } else if (standalone_start(remote->nodes, local.port, session->dir.path) < 0) {
        text_format(why, cap, "cannot start the local nodes: %s", strerror(errno));
        return EXIT_NOT_STARTED;
    }
    return 0;
}

int remote_train(struct session *session, const struct remote_config *config,
                 struct standalone *nodes)
{
    struct remote remote = {.session = session, .nodes = nodes};
    char why[RUNDIR_WHY_MAX] = "";
    int code;

    memcpy(remote.pids, nodes->pids, sizeof remote.pids);
    code = start(&remote, config, why, sizeof why);
    if (code != 0) {
        fprintf(stderr, "gradwire-coordinator: %s\n", why);
        rundir_discard(&session->dir);
    } else {
        code = host_run(remote.host, why);
        count_bytes(&remote);
        note_network(&remote);
        session->nodes = (uint32_t)coord_nodes(remote.coord);
        write_nodes(&remote);
        code =
            session_end(session, code, why, coord_weights(remote.coord), coord_steps(remote.coord));
    }
    if (remote.host)
        host_free(remote.host);
    coord_free(remote.coord);
    return code;
}
