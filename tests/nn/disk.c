/* SPDX-License-Identifier: MIT */
#include "disk.h"

#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

enum { PATH_BYTES = 512, PATHS = 8 };

static char directory[PATH_BYTES];

void disk_open(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(directory, sizeof directory, "%s/gradwire-test-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

/* Calls each for every entry of the directory, and counts them. */
static int entries(void (*each)(const char *path))
{
    DIR *dir = opendir(directory);
    int count = 0;

    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (each)
            each(disk_path(entry->d_name));
    }
    closedir(dir);
    return count;
}

static void remove_entry(const char *path)
{
    ck_assert_int_eq(remove(path), 0);
}

void disk_close(void)
{
    entries(remove_entry);
    ck_assert_int_eq(rmdir(directory), 0);
}

int disk_files(void)
{
    return entries(NULL);
}

const char *disk_path(const char *name)
{
    static char paths[PATHS][2 * PATH_BYTES];
    static unsigned turn;
    char *path = paths[turn++ % PATHS];

    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

const char *disk_put(const char *name, const void *bytes, size_t len)
{
    const char *path = disk_path(name);
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

const char *disk_put_gzip(const char *name, const void *bytes, size_t len)
{
    const char *path = disk_path(name);
    gzFile file = gzopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)len), (int)len);
    ck_assert_int_eq(gzclose(file), Z_OK);
    return path;
}

uint8_t *disk_get(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long end;

    ck_assert_msg(file != NULL, "%s is not there", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    end = ftell(file);
    ck_assert_int_ge(end, 0);
    rewind(file);
    *len = (size_t)end;
    bytes = malloc(*len + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *len, file), *len);
    fclose(file);
    return bytes;
}

uint8_t *disk_lay(uint8_t *to, const void *bytes, size_t len)
{
    memcpy(to, bytes, len);
    return to + len;
}

void disk_limit(size_t bytes)
{
    struct rlimit limit;

    /* Without this the kernel ends the process instead of failing the write. */
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

void disk_unlimit(void)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

bool disk_shell(const char *command)
{
    char line[4096];

    snprintf(line, sizeof line, "cd '%s' && %s", directory, command);
    return system(line) == 0;
}
