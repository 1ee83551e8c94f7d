/* SPDX-License-Identifier: MIT */
#include <coordinator/args.h>

#include <cluster/text.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "gradwire-coordinator: trains a network over nodes, through packet loss, bit for bit\n"
    "\n"
    "  gradwire-coordinator train RUN.json [options]   train; nodes join by gradwire-node --join\n"
    "  gradwire-coordinator eval MODEL.safetensors RUN.json [--set A.B=V]... [--json]\n"
    "  gradwire-coordinator verify DIR_A DIR_B         same weights? if not: where they part\n"
    "  gradwire-coordinator hash MODEL.safetensors     weights_xxh3 of a file\n"
    "  gradwire-coordinator matmul A.npy B.npy -o C.npy [options]   a product over nodes\n"
    "\n"
    "train:\n"
    "  --listen ADDR:PORT   where nodes join (default [::]:7171: every address, IPv4 too)\n"
    "  --nodes N            wait for N nodes (cluster.nodes)\n"
    "  --standalone N       start N nodes on this machine; 0: everything in this process\n"
    "  --threads N          threads of each local node (default: cores / local nodes)\n"
    "  --out DIR            run directory (default runs/NAME-TIME)\n"
    "  --set A.B=V          change a key of RUN.json, e.g. --set train.optimizer.lr=0.05; "
    "repeatable\n"
    "  --impair SPEC        pass every datagram through a simulated link, e.g.\n"
    "                       loss=5%,delay=2ms,reorder=1%,duplicate=1%,corrupt=1%,seed=7\n"
    "  --json               progress (stderr) and result (stdout) as one JSON object a line\n"
    "\n"
    "matmul (and --listen, --nodes, --standalone, --threads, --impair, --json as above):\n"
    "  -o C.npy             where the result goes\n"
    "  --op OP              mul (default), or element by element: add, sub, avg\n"
    "  --weights X,Y        of A and B in avg (default 1,1)\n"
    "  --check              test every block (Freivalds); a node that computes wrong is named\n"
    "  --wait SECONDS       for the nodes, and for another when none is left (default 60)\n"
    "\n"
    "exit codes: 0 done, 1 anything else (verify: the weights differ), 2 usage, config or data,\n"
    "  3 could not start, 4 stopped by the user with the weights saved, 5 numeric failure,\n"
    "  6 too few nodes left\n";

const char *args_help(void)
{
    return help_text;
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

struct option {
    const char *name;
    const char **text; /* where the value goes, as it is */
    uint32_t *count;   /* or as a number */
    uint32_t min, max;
};

static int bad(char why[ARGS_WHY_MAX], const char *what, const char *value)
{
    text_format(why, ARGS_WHY_MAX, "%s%s (see gradwire-coordinator --help)", what, value);
    return -1;
}

/* One option with a value.  Returns how many words it took, 0: not such an option. */
static int read_option(struct args *args, int left, char **argv, char why[ARGS_WHY_MAX])
{
    const char *set = NULL;
    const struct option options[] = {
        {"--listen", &args->listen, NULL, 0, 0},
        {"--nodes", NULL, &args->nodes, 1, 64},
        {"--standalone", NULL, &args->standalone, 0, 64},
        {"--threads", NULL, &args->threads, 1, 256},
        {"--out", &args->out, NULL, 0, 0},
        {"--set", &set, NULL, 0, 0},
        {"--impair", &args->impair, NULL, 0, 0},
        {"-o", &args->out, NULL, 0, 0},
        {"--op", &args->op, NULL, 0, 0},
        {"--weights", &args->weights, NULL, 0, 0},
        {"--wait", NULL, &args->wait_s, 0, 1 << 30},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct option *option = &options[i];

        if (strcmp(argv[0], option->name) != 0)
            continue;
        if (left < 2)
            return bad(why, option->name, ": needs a value");
        if (option->text)
            *option->text = argv[1];
        else if (to_count(argv[1], option->max, option->count) < 0 ||
                 *option->count < option->min) {
            text_format(why, ARGS_WHY_MAX, "%s %s: not a number from %u to %u", option->name,
                        argv[1], option->min, option->max);
            return -1;
        }
        if (option->count == &args->nodes)
            args->has_nodes = true;
        if (option->count == &args->wait_s)
            args->has_wait = true;
        if (option->count == &args->standalone)
            args->where = WHERE_STANDALONE;
        if (set && args->sets_count == ARGS_SETS_MAX)
            return bad(why, "--set: ", "given too often");
        if (set)
            args->sets[args->sets_count++] = set;
        return 2;
    }
    return 0;
}

static int read_command(struct args *args, const char *word, char why[ARGS_WHY_MAX])
{
    static const char *const names[] = {"train", "eval", "verify", "hash", "matmul"};
    static const char *const later[] = {"resume", "plan", "doctor", "status",
                                        "top",    "stop", "serve",  "explain"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(word, names[i]) == 0) {
            args->command = (enum command)i;
            return 0;
        }
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        args->command = COMMAND_HELP;
        return 0;
    }
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(word, later[i]) == 0)
            return bad(why, word,
                       ": not in this version; there are train, eval, verify, hash, matmul");
    text_format(why, ARGS_WHY_MAX,
                "%s: unknown command; there are train, eval, verify, hash, matmul (see "
                "gradwire-coordinator --help)",
                word);
    return -1;
}

/* Options that mean nothing to this command. */
static int check_options(const struct args *args, char why[ARGS_WHY_MAX])
{
    bool matmul = args->command == COMMAND_MATMUL;

    if (matmul && args->sets_count > 0)
        return bad(why, "--set", ": not for matmul");
    if (matmul && !args->out)
        return bad(why, "matmul needs -o C.npy", "");
    if (!matmul && (args->op || args->weights || args->check || args->has_wait))
        return bad(why, "--op, --weights, --check and --wait", ": for matmul only");
    return 0;
}

static int check(struct args *args, char why[ARGS_WHY_MAX])
{
    bool two = args->command == COMMAND_EVAL || args->command == COMMAND_VERIFY ||
               args->command == COMMAND_MATMUL;

    if (!args->first || (two && !args->second)) {
        static const char *const needs[] = {
            "train needs RUN.json", "eval needs MODEL.safetensors and RUN.json",
            "verify needs DIR_A and DIR_B", "hash needs MODEL.safetensors",
            "matmul needs A.npy and B.npy"};

        return bad(why, needs[args->command], "");
    }
    if (args->second && !two)
        return bad(why, args->second, ": one argument too many");
    if (args->where == WHERE_STANDALONE && args->listen)
        return bad(why, "--standalone and --listen", ": choose one");
    if (args->where == WHERE_STANDALONE && args->has_nodes && args->nodes != args->standalone)
        return bad(why, "--standalone and --nodes", ": choose one");
    return check_options(args, why);
}

int args_read(struct args *args, int argc, char **argv, char why[ARGS_WHY_MAX])
{
    memset(args, 0, sizeof *args);
    if (argc < 2)
        return bad(why, "no command", "; there are train, eval, verify, hash, matmul");
    if (read_command(args, argv[1], why) < 0)
        return -1;
    for (int i = 2; i < argc && args->command != COMMAND_HELP;) {
        int took;

        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            args->command = COMMAND_HELP;
            return 0;
        }
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--check") == 0) {
            bool *flag = argv[i][2] == 'j' ? &args->json : &args->check;

            *flag = true;
            i++;
            continue;
        }
        took = read_option(args, argc - i, argv + i, why);
        if (took < 0)
            return -1;
        if (took == 0) {
            if (argv[i][0] == '-' && argv[i][1])
                return bad(why, argv[i], ": unknown option");
            if (args->second)
                return bad(why, argv[i], ": one argument too many");
            if (args->first)
                args->second = argv[i];
            else
                args->first = argv[i];
            took = 1;
        }
        i += took;
    }
    return args->command == COMMAND_HELP ? 0 : check(args, why);
}
