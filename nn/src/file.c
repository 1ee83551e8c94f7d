/* SPDX-License-Identifier: MIT */
/*
 * Reads files strictly and replaces them atomically: what every format of nn stands on.
 */
#include "file.h"
#include "fail.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_SHOWN = 200, /* of a path in an error: the end is the telling part */
    REASON_BYTES = 240,
    IO_CHUNK = 1 << 30,           /* Linux moves at most 2 GiB a call */
    TEMPORARY_TRIES = 1000,       /* names left behind by killed processes before we give up */
    PATH_BYTES = NN_PATH_MAX + 32 /* with the temporary ending */
};

int file_fail(struct nn_error *error, int code, const char *path, const char *reason, ...)
{
    char text[REASON_BYTES];
    size_t len = strlen(path);
    size_t skip = len > PATH_SHOWN ? len - PATH_SHOWN : 0;
    va_list args;

    va_start(args, reason);
    vsnprintf(text, sizeof text, reason, args);
    va_end(args);
    return nn_fail(error, code, NULL, "%s%s: %s", skip > 0 ? "..." : "", path + skip, text);
}

int file_open(struct file_in *file, const char *path, struct nn_error *error)
{
    struct stat info;
    /* Without O_NONBLOCK a pipe would hold us until somebody writes into it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return file_fail(error, NN_EIO, path, "%s", strerror(errno));
    if (fstat(fd, &info) < 0) {
        file_fail(error, NN_EIO, path, "%s", strerror(errno));
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        file_fail(error, NN_EIO, path, "is %s, not a file",
                  S_ISDIR(info.st_mode) ? "a directory" : "a device or a pipe");
        goto out;
    }
    *file = (struct file_in){.path = path, .len = (uint64_t)info.st_size, .fd = fd};
    return NN_OK;
out:
    close(fd);
    return NN_EIO;
}

void file_close(struct file_in *file)
{
    close(file->fd);
    file->fd = -1;
}

int file_read(struct file_in *file, void *bytes, size_t len, const char *what,
              struct nn_error *error)
{
    char *to = bytes;
    size_t done = 0;

    while (done < len) {
        size_t want = len - done < IO_CHUNK ? len - done : IO_CHUNK;
        ssize_t got = read(file->fd, to + done, want);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_fail(error, NN_EIO, file->path, "%s", strerror(errno));
        if (got == 0)
            return file_fail(error, NN_EFORMAT, file->path,
                             "truncated: ends %zu bytes before the end of the %s", len - done,
                             what);
        done += (size_t)got;
    }
    return NN_OK;
}

static int write_all(int fd, const struct file_span *span)
{
    const char *from = span->bytes;
    size_t done = 0;

    while (done < span->len) {
        size_t want = span->len - done < IO_CHUNK ? span->len - done : IO_CHUNK;
        ssize_t put = write(fd, from + done, want);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        done += (size_t)put;
    }
    return 0;
}

/* Opens "PATH.tmp-PID-TRY", which nobody else has. */
static int open_temporary(char name[PATH_BYTES], const char *path)
{
    int fd = -1;

    for (int try = 0; try < TEMPORARY_TRIES; try++) {
        int len = snprintf(name, PATH_BYTES, "%s.tmp-%ld-%d", path, (long)getpid(), try);

        if (len < 0 || len >= PATH_BYTES) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return fd;
}

/* Makes the rename itself durable.  Some file systems cannot sync a directory: EINVAL. */
static int sync_parent(const char *path)
{
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    int status = 0;
    int fd;

    assert(len + 1 < sizeof parent);
    if (len > 0)
        memcpy(parent, path, len);
    else
        parent[len++] = slash ? '/' : '.';
    parent[len] = '\0';
    fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fsync(fd) < 0 && errno != EINVAL)
        status = -1;
    close(fd);
    return status;
}

/* Everything between opening and renaming; errno says what failed. */
static int fill_temporary(int fd, const struct file_span *spans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (write_all(fd, &spans[i]) < 0)
            return -1;
    }
    return fsync(fd);
}

int file_replace(const char *path, const struct file_span *spans, size_t count,
                 struct nn_error *error)
{
    char name[PATH_BYTES];
    struct stat info;
    int fd;
    int status;
    int saved;

    /* A rename over /dev/null would replace the device. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return file_fail(error, NN_EIO, path, "exists and is not a regular file");
    fd = open_temporary(name, path);
    if (fd < 0)
        return file_fail(error, NN_EIO, path, "cannot be written: %s", strerror(errno));
    status = fill_temporary(fd, spans, count);
    saved = errno;
    /* close may be the first to hear of a full disk (NFS). */
    if (close(fd) < 0 && status == 0) {
        status = -1;
        saved = errno;
    }
    if (status == 0 && rename(name, path) < 0) {
        status = -1;
        saved = errno;
    }
    if (status < 0) {
        unlink(name);
        return file_fail(error, NN_EIO, path, "cannot be written: %s", strerror(saved));
    }
    if (sync_parent(path) < 0)
        return file_fail(error, NN_EIO, path, "cannot be made durable: %s", strerror(errno));
    return NN_OK;
}
