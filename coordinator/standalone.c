/* SPDX-License-Identifier: MIT */
#include <coordinator/standalone.h>

#include <cluster/text.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ORDER_PATH_MAX = 1200, END_WAIT_MS = 4000, END_POLL_MS = 10 };

/* What a child is told through its pipe. */
struct order {
    uint16_t port;
    char log[ORDER_PATH_MAX];
};

static int node_program(char *out, size_t cap)
{
    ssize_t len = readlink("/proc/self/exe", out, cap - 1);
    char *slash;

    if (len < 0)
        return -1;
    out[len] = '\0';
    slash = strrchr(out, '/');
    if (!slash)
        return -1;
    slash[1] = '\0';
    text_append(out, cap, "gradwire-node");
    return access(out, X_OK);
}

/* The child's side.  Never returns. */
__attribute__((noreturn)) static void be_node(int pipe_fd, uint32_t idx, uint32_t threads,
                                              const char *program)
{
    struct order order;
    char join[32], name[16], count[16];
    size_t have = 0;
    int log_fd;

    /* A Ctrl-C at the terminal is for the coordinator, which tells us when it is over. */
    setpgid(0, 0);
    while (have < sizeof order) {
        ssize_t len = read(pipe_fd, (char *)&order + have, sizeof order - have);

        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            _exit(0); /* the coordinator did not get that far */
        have += (size_t)len;
    }
    log_fd = open(order.log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (log_fd >= 0) {
        dup2(log_fd, STDOUT_FILENO);
        dup2(log_fd, STDERR_FILENO);
    }
    log_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (log_fd >= 0)
        dup2(log_fd, STDIN_FILENO);
    text_format(join, sizeof join, "127.0.0.1:%u", order.port);
    text_format(name, sizeof name, "n%u", idx + 1);
    text_format(count, sizeof count, "%u", threads);
    execl(program, "gradwire-node", "--join", join, "--name", name, "--threads", count, "--bind",
          "127.0.0.1", (char *)NULL);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

int standalone_fork(struct standalone *nodes, uint32_t count, uint32_t threads, char *why,
                    size_t why_cap)
{
    char program[ORDER_PATH_MAX];
    pid_t parent = getpid();

    memset(nodes, 0, sizeof *nodes);
    if (node_program(program, sizeof program) < 0) {
        text_format(why, why_cap, "%s: not there or not a program: --standalone needs it", program);
        return -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        int fds[2];
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0) {
            text_format(why, why_cap, "cannot start node %u: %s", i + 1, strerror(errno));
            return -1;
        }
        pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (getppid() != parent)
                _exit(0);
            close(fds[1]);
            for (uint32_t other = 0; other < i; other++)
                close(nodes->pipes[other]);
            be_node(fds[0], i, threads, program);
        }
        close(fds[0]);
        if (pid < 0) {
            text_format(why, why_cap, "cannot start node %u: %s", i + 1, strerror(errno));
            close(fds[1]);
            return -1;
        }
        nodes->pids[i] = pid;
        nodes->pipes[i] = fds[1];
        nodes->count = i + 1;
    }
    return 0;
}

int standalone_start(struct standalone *nodes, uint16_t port, const char *dir)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        struct order order = {.port = port};
        ssize_t len;

        text_format(order.log, sizeof order.log, "%s/n%u.log", dir, i + 1);
        len = write(nodes->pipes[i], &order, sizeof order);
        close(nodes->pipes[i]);
        nodes->pipes[i] = -1;
        if (len != sizeof order)
            return -1;
    }
    return 0;
}

static bool all_gone(struct standalone *nodes)
{
    bool gone = true;

    for (uint32_t i = 0; i < nodes->count; i++) {
        if (nodes->pids[i] > 0 && waitpid(nodes->pids[i], NULL, WNOHANG) == nodes->pids[i])
            nodes->pids[i] = 0;
        if (nodes->pids[i] > 0)
            gone = false;
    }
    return gone;
}

void standalone_end(struct standalone *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (nodes->pipes[i] >= 0)
            close(nodes->pipes[i]);
        nodes->pipes[i] = -1;
    }
    for (int waited = 0; !all_gone(nodes) && waited < END_WAIT_MS; waited += END_POLL_MS)
        poll(NULL, 0, END_POLL_MS);
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (nodes->pids[i] <= 0)
            continue;
        kill(nodes->pids[i], SIGKILL);
        waitpid(nodes->pids[i], NULL, 0);
        nodes->pids[i] = 0;
    }
    nodes->count = 0;
}

bool standalone_lost(struct standalone *nodes, char name[STANDALONE_NAME_MAX], char *why,
                     size_t why_cap)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        int status;

        if (nodes->pids[i] <= 0 || waitpid(nodes->pids[i], &status, WNOHANG) != nodes->pids[i])
            continue;
        nodes->pids[i] = 0;
        text_format(name, STANDALONE_NAME_MAX, "n%u", i + 1);
        if (WIFSIGNALED(status))
            text_format(why, why_cap, "killed by signal %d", WTERMSIG(status));
        else
            text_format(why, why_cap, "exit code %d, see its log", WEXITSTATUS(status));
        return true;
    }
    return false;
}
