#!/bin/sh
# SPDX-License-Identifier: MIT
#
# symbols.sh BUILD: asks the object files of a build what the layers promise.
# "only" rows list all that pure code may call; "never" rows what a layer must not touch.
# A row whose object files do not exist fails: a missing library proves nothing.
set -eu

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: symbols.sh BUILD_DIRECTORY" >&2
    exit 1
fi
build=$1
status=0

memory='malloc|calloc|realloc|free|aligned_alloc|mem(cpy|move|set|cmp|chr)'
string='str(len|nlen|cmp|ncmp|chr|rchr|cspn|spn|tod|toul|toull|tol)|__errno_location'
compiler='__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__tls_get_addr|abort|__cpu_model|__cpu_indicator_init'
sanitizer='__(asan|ubsan|tsan|sanitizer)_.*'
mathematics='(sqrt|cbrt|exp|exp2|log|log2|pow|floor|ceil|round|fmin|fmax|fabs|fmod|ldexp|frexp)f?|l?l?round|qsort'
crypto='XXH.*|crypto_.*|sodium_.*'

network='socket|connect|bind|listen|accept4?|shutdown|[gs]etsockopt|getsockname|getpeername|send(to|msg|mmsg)?|recv(from|msg|mmsg)?|p?poll|p?select|epoll_.*|eventfd|io_uring_.*|getaddrinfo|gethostbyname'
clock='time|clock|clock_.*|gettimeofday|nanosleep|usleep|sleep|timerfd_.*'
thread='pthread_.*|thrd_.*|mtx_.*|cnd_.*|sem_.*'
file='f?open(at|64)?|fopen64|fdopen|close|read|write|p(read|write)v?(64)?|fsync|rename|unlink|mkdir|stat|fstat|mmap(64)?'
process='fork|vfork|exec.*|posix_spawn|system|popen|kill|signal|sigaction|exit|_exit|getenv|setenv|secure_getenv'
print='printf|fprintf|vprintf|vfprintf|puts|putchar|fputs|fputc|perror|fwrite'
chance='rand(om)?|s?rand|random_r|getrandom|getentropy|arc4random.*'

# row NAME only|never REGEX DIRECTORY FIND_ARGUMENT...
row() {
    name=$1 kind=$2 regex=$3 dir=$build/$4
    shift 4
    objects=$([ ! -d "$dir" ] || find "$dir" -name '*.c.o' "$@")
    if [ -z "$objects" ]; then
        echo "symbols: $name: no object file under $dir"
        status=1
        return
    fi
    # shellcheck disable=SC2086 # paths of our own build, no spaces
    own=$(nm --defined-only $objects | awk 'NF == 3 {print $3}' | sort -u)
    # shellcheck disable=SC2086
    called=$(nm -u $objects | awk '$1 == "U" {print $2}' | sort -u)
    foreign=$(echo "$called" | grep -vxF -e "$own" || true)
    case $kind in
    only) bad=$(echo "$foreign" | grep -vxE "$regex|" || true) ;;
    never) bad=$(echo "$foreign" | grep -xE "$regex" || true) ;;
    esac
    if [ -n "$bad" ]; then
        echo "symbols: $name calls outside its layer:"
        # shellcheck disable=SC2086
        for symbol in $bad; do
            echo "  $symbol, in$(nm -A -u $objects | awk -v s="$symbol" '$NF == s {
                sub(/:.*/, ""); sub(/.*\//, ""); printf " %s", $0}')"
        done
        status=1
    else
        echo "symbols: $name: $(echo "$objects" | wc -l) objects, no fault"
    fi
}

pure="$network|$clock|$thread|$file|$process|$print|$chance"
row "rdt/core" only "$memory|$string|$compiler|$sanitizer|$mathematics|$crypto" \
    rdt -path '*/core/*'
row "nn" never "$network|$thread|$clock|$chance|rdt_.*" nn -path '*/src/*'
row "cluster without host" never "$network|$clock|$thread|$chance" \
    cluster -not -name host.c.o
row "coordinator's step function" never "$pure" \
    coordinator -path '*/coordinator_core.dir/*'
row "node's step function" never "$pure" \
    node '(' -name worker.c.o -o -name work.c.o -o -name buffers.c.o -o -name matrix.c.o ')'
exit $status
