/* SPDX-License-Identifier: MIT */
#include <cluster/body.h>
#include <cluster/bytes.h>
#include <cluster/message.h>

#include <math.h>

enum {
    THREADS_MAX = 4096,
    SAMPLES_HEADER = 12,
    FLAG_FINITE = 1,
};

/* A text is its length (u16) and its bytes. */
static void write_text(struct wire_writer *w, const char *text, size_t cap)
{
    size_t len = strlen(text);

    assert(len < cap);
    write_u16(w, (uint16_t)len);
    write_bytes(w, text, len);
}

/* UTF-8 passes; what moves a terminal's cursor does not. */
static bool is_printable(uint8_t byte)
{
    return byte >= ' ' && byte != 0x7f;
}

static void read_text(struct wire_reader *r, char *out, size_t cap)
{
    size_t len = read_u16(r);
    const uint8_t *bytes = read_bytes(r, len);

    out[0] = '\0';
    if (!bytes)
        return;
    if (len >= cap) {
        r->failed = true;
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_printable(bytes[i]))
            r->failed = true;
    }
    memcpy(out, bytes, len);
    out[len] = '\0';
}

/* 0 or 1 and nothing else. */
static bool read_bool(struct wire_reader *r)
{
    uint8_t value = read_u8(r);

    if (value > 1)
        r->failed = true;
    return value == 1;
}

bool body_name_ok(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(name);

    return len > 0 && len < BODY_NAME_MAX && strspn(name, allowed) == len;
}

size_t body_join_encode(const struct body_join *join, uint8_t out[BODY_MAX])
{
    struct wire_writer w = wire_writer(out, BODY_MAX);

    assert(body_name_ok(join->name));
    write_u64(&w, join->instance);
    write_u32(&w, join->threads);
    write_text(&w, join->name, sizeof join->name);
    return w.len;
}

bool body_join_decode(struct body_join *out, const uint8_t *body, size_t len)
{
    struct wire_reader r = wire_reader(body, len);
    struct body_join join = {.instance = read_u64(&r)};

    join.threads = read_u32(&r);
    read_text(&r, join.name, sizeof join.name);
    if (!read_done(&r) || !body_name_ok(join.name))
        return false;
    if (join.threads == 0 || join.threads > THREADS_MAX)
        return false;
    *out = join;
    return true;
}

static void write_set(struct wire_writer *w, const struct body_set *set)
{
    write_bytes(w, set->digest, sizeof set->digest);
    write_u64(w, set->count);
    write_u32(w, set->sample_bytes);
    write_text(w, set->images, sizeof set->images);
    write_text(w, set->labels, sizeof set->labels);
}

static void read_set(struct wire_reader *r, struct body_set *set)
{
    read_into(r, set->digest, sizeof set->digest);
    set->count = read_u64(r);
    set->sample_bytes = read_u32(r);
    read_text(r, set->images, sizeof set->images);
    read_text(r, set->labels, sizeof set->labels);
    if (set->count > 0 && set->sample_bytes == 0)
        r->failed = true;
}

size_t body_welcome_encode(const struct body_welcome *welcome, uint8_t out[BODY_MAX])
{
    struct wire_writer w = wire_writer(out, BODY_MAX);

    assert(welcome->model_len <= BODY_MODEL_MAX);
    write_u64(&w, welcome->parameters);
    write_u64(&w, welcome->seed);
    write_u32(&w, welcome->epochs);
    write_u32(&w, welcome->batch);
    write_u32(&w, welcome->leaf);
    write_u32(&w, welcome->eval_leaf);
    write_u8(&w, welcome->drop_last);
    write_f64(&w, welcome->scale);
    write_f64(&w, welcome->mean);
    write_f64(&w, welcome->deviation);
    write_set(&w, &welcome->train);
    write_set(&w, &welcome->test);
    write_text(&w, welcome->kernel, sizeof welcome->kernel);
    write_u32(&w, welcome->model_len);
    write_bytes(&w, welcome->model, welcome->model_len);
    return w.len;
}

static bool welcome_sane(const struct body_welcome *welcome)
{
    return welcome->batch > 0 && welcome->leaf > 0 && welcome->eval_leaf > 0 &&
           isfinite(welcome->scale) && isfinite(welcome->mean) && isfinite(welcome->deviation) &&
           fabs(welcome->deviation) > 0 && welcome->model_len <= BODY_MODEL_MAX;
}

bool body_welcome_decode(struct body_welcome *out, const uint8_t *body, size_t len)
{
    struct wire_reader r = wire_reader(body, len);
    struct body_welcome welcome = {.parameters = read_u64(&r)};

    welcome.seed = read_u64(&r);
    welcome.epochs = read_u32(&r);
    welcome.batch = read_u32(&r);
    welcome.leaf = read_u32(&r);
    welcome.eval_leaf = read_u32(&r);
    welcome.drop_last = read_bool(&r);
    welcome.scale = read_f64(&r);
    welcome.mean = read_f64(&r);
    welcome.deviation = read_f64(&r);
    read_set(&r, &welcome.train);
    read_set(&r, &welcome.test);
    read_text(&r, welcome.kernel, sizeof welcome.kernel);
    welcome.model_len = read_u32(&r);
    welcome.model = (const char *)read_bytes(&r, welcome.model_len);
    if (!read_done(&r) || !welcome_sane(&welcome))
        return false;
    *out = welcome;
    return true;
}

/* Bytes of `rows` rows of floats; false: more than a message holds. */
static bool fits_message(uint64_t rows, uint64_t floats)
{
    uint64_t bytes;

    return !__builtin_mul_overflow(rows, floats, &bytes) &&
           !__builtin_mul_overflow(bytes, sizeof(float), &bytes) &&
           bytes <= UINT32_MAX - MESSAGE_HEADER;
}

static bool fits_memory(uint64_t rows, uint64_t floats)
{
    uint64_t bytes;

    return !__builtin_mul_overflow(rows, floats, &bytes) && bytes <= SIZE_MAX / 8;
}

bool body_product_ok(const struct body_product *product)
{
    if (product->rows == 0 || product->inner == 0 || product->cols == 0)
        return false;
    if (product->block_rows == 0 || product->block_rows > product->rows)
        return false;
    if (product->depth == 0 || product->depth > BODY_DEPTH_MAX)
        return false;
    if (product->op == BODY_COMBINE && product->inner != product->cols)
        return false;
    /* BLAS counts in int. */
    if (product->op == BODY_MULTIPLY && (product->block_rows > INT32_MAX ||
                                         product->inner > INT32_MAX || product->cols > INT32_MAX))
        return false;
    return isfinite(product->x) && isfinite(product->y) &&
           fits_message(product->block_rows, product->inner) &&
           fits_message(product->block_rows, product->cols) &&
           fits_memory(product->rows, product->inner) &&
           fits_memory(product->rows, product->cols) && fits_memory(product->inner, product->cols);
}

size_t body_product_encode(const struct body_product *product, uint8_t out[BODY_PRODUCT_BYTES])
{
    struct wire_writer w = wire_writer(out, BODY_PRODUCT_BYTES);

    assert(body_product_ok(product));
    write_u8(&w, (uint8_t)product->op);
    write_u64(&w, product->rows);
    write_u64(&w, product->inner);
    write_u64(&w, product->cols);
    write_u64(&w, product->block_rows);
    write_u32(&w, product->depth);
    write_f64(&w, product->x);
    write_f64(&w, product->y);
    write_text(&w, product->kernel, sizeof product->kernel);
    return w.len;
}

bool body_product_decode(struct body_product *out, const uint8_t *body, size_t len)
{
    struct wire_reader r = wire_reader(body, len);
    uint8_t op = read_u8(&r);
    struct body_product product = {.rows = read_u64(&r)};

    product.inner = read_u64(&r);
    product.cols = read_u64(&r);
    product.block_rows = read_u64(&r);
    product.depth = read_u32(&r);
    product.x = read_f64(&r);
    product.y = read_f64(&r);
    read_text(&r, product.kernel, sizeof product.kernel);
    if (!read_done(&r) || op > BODY_COMBINE)
        return false;
    product.op = (enum body_op)op;
    if (!body_product_ok(&product))
        return false;
    *out = product;
    return true;
}

size_t body_refuse_encode(const char *text, uint8_t out[BODY_MAX])
{
    struct wire_writer w = wire_writer(out, BODY_MAX);
    char line[BODY_TEXT_MAX];
    size_t len;

    for (len = 0; text[len] != '\0' && len < sizeof line - 1; len++)
        line[len] = is_printable((uint8_t)text[len]) ? text[len] : '?';
    line[len] = '\0';
    write_text(&w, line, sizeof line);
    return w.len;
}

bool body_refuse_decode(char out[BODY_TEXT_MAX], const uint8_t *body, size_t len)
{
    struct wire_reader r = wire_reader(body, len);
    char text[BODY_TEXT_MAX];

    read_text(&r, text, sizeof text);
    if (!read_done(&r))
        return false;
    memcpy(out, text, sizeof text);
    return true;
}

size_t body_ready_encode(const struct body_ready *ready, uint8_t out[BODY_MAX])
{
    struct wire_writer w = wire_writer(out, BODY_MAX);

    write_u64(&w, ready->fingerprint);
    write_u8(&w, ready->has_train);
    write_u8(&w, ready->has_test);
    return w.len;
}

bool body_ready_decode(struct body_ready *out, const uint8_t *body, size_t len)
{
    struct wire_reader r = wire_reader(body, len);
    struct body_ready ready = {.fingerprint = read_u64(&r)};

    ready.has_train = read_bool(&r);
    ready.has_test = read_bool(&r);
    if (!read_done(&r))
        return false;
    *out = ready;
    return true;
}

uint32_t body_samples_max(uint32_t sample_bytes)
{
    return (uint32_t)((BODY_MAX - SAMPLES_HEADER) / ((uint64_t)sample_bytes + sizeof(uint64_t)));
}

size_t body_samples_len(uint32_t count, uint32_t sample_bytes)
{
    assert(count <= body_samples_max(sample_bytes));
    return SAMPLES_HEADER + count * ((size_t)sample_bytes + sizeof(uint64_t));
}

void body_samples_start(uint8_t *out, enum body_which which, uint32_t count, uint32_t sample_bytes)
{
    struct wire_writer w = wire_writer(out, SAMPLES_HEADER);

    assert(count > 0);
    assert(count <= body_samples_max(sample_bytes));
    write_u32(&w, which);
    write_u32(&w, count);
    write_u32(&w, sample_bytes);
    assert(w.len == SAMPLES_HEADER);
}

void body_samples_put(uint8_t *out, uint32_t idx, uint64_t id, const uint8_t *sample)
{
    uint32_t count;
    uint32_t sample_bytes;

    memcpy(&count, out + 4, sizeof count);
    memcpy(&sample_bytes, out + 8, sizeof sample_bytes);
    assert(idx < count);
    out += SAMPLES_HEADER;
    memcpy(out + idx * sizeof id, &id, sizeof id);
    memcpy(out + count * sizeof id + idx * (size_t)sample_bytes, sample, sample_bytes);
}

bool body_samples_decode(struct body_samples *out, const uint8_t *body, size_t len)
{
    struct wire_reader r = wire_reader(body, len);
    uint32_t which = read_u32(&r);
    struct body_samples samples = {.count = read_u32(&r)};

    samples.sample_bytes = read_u32(&r);
    if (r.failed || which > BODY_TEST || samples.count == 0 || samples.sample_bytes == 0)
        return false;
    if (samples.count > body_samples_max(samples.sample_bytes))
        return false;
    samples.which = (enum body_which)which;
    samples.ids = read_bytes(&r, samples.count * sizeof(uint64_t));
    samples.samples = read_bytes(&r, samples.count * (size_t)samples.sample_bytes);
    if (!read_done(&r))
        return false;
    *out = samples;
    return true;
}

uint64_t body_samples_id(const struct body_samples *samples, uint32_t idx)
{
    uint64_t id;

    assert(idx < samples->count);
    memcpy(&id, samples->ids + idx * sizeof id, sizeof id);
    return id;
}

const uint8_t *body_samples_at(const struct body_samples *samples, uint32_t idx)
{
    assert(idx < samples->count);
    return samples->samples + idx * (size_t)samples->sample_bytes;
}

size_t body_partial_len(uint64_t parameters)
{
    return (size_t)parameters * sizeof(float) + BODY_TRAILER;
}

void body_trailer_encode(const struct body_trailer *trailer, uint8_t out[BODY_TRAILER])
{
    struct wire_writer w = wire_writer(out, BODY_TRAILER);

    write_f64(&w, trailer->loss);
    write_u32(&w, trailer->correct);
    write_u32(&w, trailer->finite ? FLAG_FINITE : 0);
    assert(w.len == BODY_TRAILER);
}

bool body_partial_decode(struct body_trailer *out, uint64_t parameters, const uint8_t *body,
                         size_t len)
{
    struct wire_reader r;
    struct body_trailer trailer;
    uint32_t flags;

    if (len < BODY_TRAILER || (len - BODY_TRAILER) / sizeof(float) != parameters ||
        (len - BODY_TRAILER) % sizeof(float) != 0)
        return false;
    r = wire_reader(body + len - BODY_TRAILER, BODY_TRAILER);
    trailer.loss = read_f64(&r);
    trailer.correct = read_u32(&r);
    flags = read_u32(&r);
    trailer.finite = flags == FLAG_FINITE;
    if (flags > FLAG_FINITE || (trailer.finite && !isfinite(trailer.loss)))
        return false;
    *out = trailer;
    return true;
}

size_t body_evaluated_len(uint32_t count)
{
    assert(count <= BODY_RESULTS_MAX);
    return (size_t)count * BODY_RESULT;
}

void body_evaluated_put(uint8_t *out, uint32_t idx, const struct body_result *result)
{
    struct wire_writer w = wire_writer(out + (size_t)idx * BODY_RESULT, BODY_RESULT);

    assert(idx < BODY_RESULTS_MAX);
    write_f64(&w, result->loss);
    write_u32(&w, result->correct);
    assert(w.len == BODY_RESULT);
}

bool body_evaluated_ok(uint32_t count, size_t len)
{
    return count <= BODY_RESULTS_MAX && len == (size_t)count * BODY_RESULT;
}

struct body_result body_evaluated_get(const uint8_t *body, uint32_t idx)
{
    struct wire_reader r = wire_reader(body + (size_t)idx * BODY_RESULT, BODY_RESULT);
    struct body_result result = {.loss = read_f64(&r)};

    result.correct = read_u32(&r);
    return result;
}
