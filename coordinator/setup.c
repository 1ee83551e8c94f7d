/* SPDX-License-Identifier: MIT */
#include <coordinator/setup.h>

#include <cluster/text.h>
#include <cluster/tree.h>
#include <coordinator/coord.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "FILE:LINE: key: problem" for what nn found wrong in our file. */
static int fail_key(struct setup *setup, const char *section, const struct nn_error *error)
{
    char key[128];
    unsigned line;

    text_format(key, sizeof key, "%s%s%s", section, error->key[0] ? "." : "", error->key);
    line = config_line(setup->path, key);
    if (line == 0)
        line = config_line(setup->path, section);
    text_format(setup->why, sizeof setup->why, "%s:%u: %s: %s", setup->path, line, key,
                error->text);
    return EXIT_USAGE;
}

static int fail(struct setup *setup, const char *key, const char *text)
{
    text_format(setup->why, sizeof setup->why, "%s:%u: %s: %s", setup->path,
                config_line(setup->path, key), key, text);
    return EXIT_USAGE;
}

static int open_set(struct setup *setup, const char *key, const struct config_files *files,
                    uint64_t limit, struct nn_dataset **out)
{
    uint32_t classes = (uint32_t)nn_model_outputs(setup->model);
    struct nn_error error = {.key = ""};
    char text[512];
    int err = nn_dataset_read_idx(out, files->images, files->labels, limit, classes, &error);

    if (err == NN_ENOMEM)
        return fail(setup, key, "not enough memory for the samples");
    if (err < 0)
        return fail(setup, key, error.text);
    if (nn_dataset_sample_bytes(*out) != nn_model_inputs(setup->model) + 4) {
        text_format(text, sizeof text, "%s: a sample has %zu values, model.input %zu",
                    files->images, nn_dataset_sample_bytes(*out) - 4,
                    nn_model_inputs(setup->model));
        return fail(setup, key, text);
    }
    return 0;
}

static int open_data(struct setup *setup)
{
    const struct config_data *data = &setup->config.data;
    int code = open_set(setup, "data.train", &data->train, data->train_limit, &setup->train);

    if (code == 0 && data->test.images[0])
        code = open_set(setup, "data.test", &data->test, data->test_limit, &setup->test);
    if (code != 0)
        return code;
    if (nn_dataset_count(setup->train) == 0)
        return fail(setup, "data.train", "no samples");
    if (setup->test && schedule_eval_leaves(nn_dataset_count(setup->test)) > TREE_LEAVES_MAX)
        return fail(setup, "data.test", "more than a million samples: set data.test_limit");
    if (setup->test && nn_dataset_count(setup->test) == 0) {
        nn_dataset_free(setup->test);
        setup->test = NULL;
    }
    setup->normalize = (struct nn_normalize){data->scale, data->mean, data->deviation};
    if (!nn_normalize_ok(&setup->normalize))
        return fail(setup, "data.normalize", "the samples would not be finite (f32)");
    return 0;
}

static int plan_steps(struct setup *setup)
{
    const struct config_train *train = &setup->config.train;
    char text[256];

    setup->schedule = (struct schedule){.samples = nn_dataset_count(setup->train),
                                        .batch = train->batch,
                                        .leaf = train->leaf,
                                        .epochs = train->epochs,
                                        .drop_last = train->drop_last};
    if (train->leaf == 0) /* DECISIONS 31's default, if the reader left it to us */
        setup->schedule.leaf = train->batch < 256 ? 32 : 64;
    if (schedule_leaves_max(&setup->schedule) > TREE_LEAVES_MAX) {
        text_format(text, sizeof text,
                    "%" PRIu32 " makes more than %d leaves of a batch of %" PRIu32 ": take at "
                    "least %" PRIu32,
                    setup->schedule.leaf, TREE_LEAVES_MAX, train->batch,
                    train->batch / TREE_LEAVES_MAX + 1);
        return fail(setup, "train.leaf", text);
    }
    if (schedule_steps(&setup->schedule) == 0) {
        text_format(text, sizeof text,
                    "%" PRIu32 " is more than the %" PRIu64
                    " samples, and train.drop_last leaves nothing to do",
                    train->batch, setup->schedule.samples);
        return fail(setup, "train.batch", text);
    }
    return 0;
}

static struct nn_optim optim_of(const struct config_train *train, uint64_t steps)
{
    static const enum nn_optim_kind kinds[] = {
        [OPTIMIZER_SGD] = NN_SGD, [OPTIMIZER_MOMENTUM] = NN_MOMENTUM, [OPTIMIZER_ADAM] = NN_ADAM};

    return (struct nn_optim){.kind = kinds[train->optimizer],
                             .lr = train->lr,
                             .momentum = train->momentum,
                             .beta1 = train->beta1,
                             .beta2 = train->beta2,
                             .epsilon = train->epsilon,
                             .weight_decay = train->weight_decay,
                             .rate = strcmp(train->schedule, "linear") == 0 ? NN_RATE_LINEAR
                                                                            : NN_RATE_CONSTANT,
                             .steps = steps};
}

int setup_open(struct setup *setup, const char *path, const char *const *sets, size_t sets_count)
{
    const char *kernel;
    struct nn_error error = {.key = ""};
    int code;

    memset(setup, 0, sizeof *setup);
    setup->path = path;
    if (config_read(&setup->config, path, sets, sets_count, setup->why) < 0)
        return EXIT_USAGE;
    if (strcmp(setup->config.train.strategy, "sync") != 0)
        return fail(setup, "train.strategy", "only \"sync\" is in this version");
    kernel = setup->config.cluster.kernel;
    if (nn_blas_open(kernel[0] ? kernel : NULL, &error) < 0) {
        text_format(setup->why, sizeof setup->why, "cluster.kernel: %s", error.text);
        return kernel[0] ? EXIT_USAGE : EXIT_NOT_STARTED;
    }
    nn_thread_init();
    if (nn_model_open(&setup->model, setup->config.model, setup->config.model_len, &error) < 0)
        return fail_key(setup, "model", &error);
    code = open_data(setup);
    if (code == 0)
        code = plan_steps(setup);
    if (code == 0)
        setup->optim = optim_of(&setup->config.train, schedule_steps(&setup->schedule));
    return code;
}

void setup_close(struct setup *setup)
{
    nn_dataset_free(setup->train);
    nn_dataset_free(setup->test);
    nn_model_free(setup->model);
    config_free(&setup->config);
    free(setup->welcome);
    setup->train = setup->test = NULL;
    setup->model = NULL;
    setup->welcome = NULL;
}

static void describe_set(struct body_set *out, const struct nn_dataset *data,
                         const struct config_files *files)
{
    struct nn_digest digest = nn_dataset_digest(data);

    memcpy(out->digest, digest.bytes, sizeof out->digest);
    out->count = nn_dataset_count(data);
    out->sample_bytes = (uint32_t)nn_dataset_sample_bytes(data);
    text_format(out->images, sizeof out->images, "%s", files->images);
    text_format(out->labels, sizeof out->labels, "%s", files->labels);
}

int setup_welcome(struct setup *setup)
{
    const struct config_train *train = &setup->config.train;
    struct body_welcome welcome = {
        .parameters = nn_model_parameters(setup->model),
        .seed = train->seed,
        .epochs = train->epochs,
        .batch = train->batch,
        .leaf = setup->schedule.leaf,
        .eval_leaf = SCHEDULE_EVAL_LEAF,
        .drop_last = train->drop_last,
        .scale = setup->normalize.scale,
        .mean = setup->normalize.mean,
        .deviation = setup->normalize.deviation,
        .model = setup->config.model,
        .model_len = (uint32_t)setup->config.model_len,
    };

    if (setup->config.model_len > BODY_MODEL_MAX)
        return fail(setup, "model", "a description longer than 48 KiB cannot be sent to nodes");
    if (welcome.parameters > (RDT_MESSAGE_MAX - 4096) / sizeof(float)) {
        text_format(setup->why, sizeof setup->why,
                    "model: %" PRIu64 " parameters (%" PRIu64
                    " bytes) are more than a message holds (4 GiB)",
                    welcome.parameters, welcome.parameters * sizeof(float));
        return EXIT_USAGE;
    }
    text_format(welcome.kernel, sizeof welcome.kernel, "%s", nn_blas_kernel());
    describe_set(&welcome.train, setup->train, &setup->config.data.train);
    if (setup->test)
        describe_set(&welcome.test, setup->test, &setup->config.data.test);
    setup->welcome = malloc(BODY_MAX);
    if (!setup->welcome ||
        nn_fingerprint(setup->model, train->seed, setup->schedule.leaf, &setup->fingerprint) < 0) {
        text_format(setup->why, sizeof setup->why, "not enough memory for the self-test");
        return EXIT_OTHER;
    }
    setup->welcome_len = body_welcome_encode(&welcome, setup->welcome);
    return 0;
}
