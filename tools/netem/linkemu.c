/* SPDX-License-Identifier: MIT */
/*
 * linkemu: two network namespaces joined by the simulated link of rdt/link.h.
 *
 * Each namespace has one TUN device; what the kernel sends into the one is read here, goes through
 * the link's model and is written to the other.  Real programs, real sockets, any protocol over
 * IPv4.  The namespaces have no names: they live in descriptors of this process and are gone, with
 * everything in them, when it ends, however it ends.  A program gets in through nsenter:
 *
 *     linkemu --link rate=1gbit,delay=500us,loss=5% &     prints  READY a=/proc/7/fd/5 b=...
 *     nsenter --net=/proc/7/fd/5 ping 10.77.0.2
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <rdt/link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_SKIPPED = 77, /* no root, no TUN: tests take it as "cannot run here" */
    PACKET_MAX = 65536,
    TAKE_MAX = 64, /* packets in a row from one side */
    QUEUE_PACKETS = 10000,
    COALESCE_NS = 50000,
    MTU_DEFAULT = 1500,
    MTU_MIN = 576,
    MTU_MAX = 65535,
};

struct side {
    const char *address;
    int net; /* the namespace */
    int tun;
    struct rdt_link *link; /* for what comes from here */
};

static struct side sides[2] = {{.address = "10.77.0.1"}, {.address = "10.77.0.2"}};
static uint8_t packet[PACKET_MAX];
static volatile sig_atomic_t stop;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---------- namespaces and devices ---------- */

static void cannot(const char *what)
{
    const bool no_right = errno == EPERM || errno == EACCES || errno == ENOENT || errno == ENODEV;

    fprintf(stderr, "linkemu: %s: %s%s\n", what, strerror(errno),
            no_right ? " (needs root and /dev/net/tun)" : "");
    exit(no_right ? EXIT_SKIPPED : 1);
}

static void configure(int control, unsigned long request, struct ifreq *r, const char *what)
{
    if (ioctl(control, request, r) < 0)
        cannot(what);
}

static void set_address(struct ifreq *r, const char *text)
{
    struct sockaddr_in name = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, text, &name.sin_addr) != 1)
        abort();
    memcpy(&r->ifr_addr, &name, sizeof name);
}

/* In the namespace of the calling thread: loopback up, one TUN device up. */
static int open_tun(const char *address, int mtu)
{
    struct ifreq r = {.ifr_name = "link0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (tun < 0 || control < 0)
        cannot("/dev/net/tun");
    configure(tun, TUNSETIFF, &r, "a TUN device");
    set_address(&r, address);
    configure(control, SIOCSIFADDR, &r, "its address");
    set_address(&r, "255.255.255.0");
    configure(control, SIOCSIFNETMASK, &r, "its netmask");
    r.ifr_mtu = mtu;
    configure(control, SIOCSIFMTU, &r, "its MTU");
    r.ifr_qlen = QUEUE_PACKETS;
    configure(control, SIOCSIFTXQLEN, &r, "its queue");
    r.ifr_flags = IFF_UP | IFF_RUNNING | IFF_POINTOPOINT | IFF_NOARP;
    configure(control, SIOCSIFFLAGS, &r, "starting it");
    configure(control, SIOCSIFFLAGS, &loopback, "starting the loopback device");
    close(control);
    return tun;
}

static int open_namespace(void)
{
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        cannot("/proc/self/ns/net");
    return fd;
}

static void open_sides(int mtu)
{
    int home = open_namespace();

    for (int i = 0; i < 2; i++) {
        if (unshare(CLONE_NEWNET) < 0)
            cannot("a network namespace");
        sides[i].net = open_namespace();
        sides[i].tun = open_tun(sides[i].address, mtu);
    }
    if (setns(home, CLONE_NEWNET) < 0)
        cannot("the namespace we came from");
    close(home);
}

/* ---------- forwarding ---------- */

/* false: there was nothing. */
static bool take_packets(struct side *from, uint64_t now)
{
    int taken = 0;

    for (; taken < TAKE_MAX; taken++) {
        ssize_t n = read(from->tun, packet, sizeof packet);
        const struct rdt_arrival one = {.bytes = packet, .len = n > 0 ? (size_t)n : 0};

        if (n <= 0)
            break;
        if (packet[0] >> 4 == 4) /* the kernel tries IPv6 on every device; not over this one */
            rdt_link_put(from->link, &one, now);
    }
    return taken > 0;
}

static bool give_packets(struct side *from, struct side *to, uint64_t now)
{
    struct rdt_arrival one;
    bool any = false;

    for (; rdt_link_next(from->link, now, &one); any = true) {
        ssize_t n;

        do
            n = write(to->tun, one.bytes, one.len);
        while (n < 0 && errno == EINTR); /* a packet damaged beyond reading is refused: lost */
    }
    return any;
}

/*
 * Packets of a fast link are due microseconds apart.  Waking for each would measure this machine's
 * scheduler, so they are delivered in small groups, up to COALESCE_NS late, as a network card does.
 */
static void sleep_until_due(void)
{
    struct pollfd watched[2] = {{.fd = sides[0].tun, .events = POLLIN},
                                {.fd = sides[1].tun, .events = POLLIN}};
    struct timespec wait = {.tv_sec = 1};
    uint64_t due = rdt_link_deadline(sides[0].link);
    const uint64_t other = rdt_link_deadline(sides[1].link);
    const uint64_t now = now_ns();

    if (other < due)
        due = other;
    if (due <= now)
        return;
    if (due - now < COALESCE_NS)
        wait = (struct timespec){.tv_nsec = COALESCE_NS};
    else if (due - now < 1000000000)
        wait = (struct timespec){.tv_nsec = (long)(due - now)};
    ppoll(watched, 2, &wait, NULL);
}

static void forward(void)
{
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while (!stop) {
        bool busy = false;

        for (int i = 0; i < 2; i++)
            busy |= take_packets(&sides[i], now_ns());
        for (int i = 0; i < 2; i++)
            busy |= give_packets(&sides[i], &sides[1 - i], now_ns());
        if (!busy)
            sleep_until_due();
    }
}

static void print_stats(void)
{
    for (int i = 0; i < 2; i++) {
        struct rdt_link_stats s = {.size = sizeof s};

        rdt_link_stats(sides[i].link, &s);
        fprintf(stderr,
                "linkemu: from %s put=%" PRIu64 " delivered=%" PRIu64 " lost=%" PRIu64
                " queue_dropped=%" PRIu64 " duplicated=%" PRIu64 " corrupted=%" PRIu64
                " reordered=%" PRIu64 "\n",
                i ? "b" : "a", s.put, s.delivered, s.lost, s.queue_dropped, s.duplicated,
                s.corrupted, s.reordered);
    }
}

/* ---------- command line ---------- */

static void usage(FILE *to)
{
    fputs("usage: linkemu [--link TEXT] [--back TEXT] [--mtu N]\n"
          "  --link TEXT  the way from a to b, and back unless --back is given:\n"
          "               loss=5%,burst=4,delay=2ms,jitter=500us,reorder=1%,duplicate=1%,\n"
          "               corrupt=1%,rate=100mbit,queue=64k,seed=7\n"
          "  --mtu N      of both devices (1500)\n"
          "Prints READY with the two namespaces and forwards until SIGTERM.\n"
          "a is 10.77.0.1, b is 10.77.0.2.  Needs root.\n",
          to);
}

static void open_link(struct side *side, const char *option, const char *text, bool is_back)
{
    struct rdt_link_config config;
    char why[160];

    if (rdt_link_parse(&config, text, why, sizeof why)) {
        fprintf(stderr, "linkemu: %s: %s\n", option, why);
        exit(2);
    }
    config.overhead_bytes = 0; /* the headers are among the bytes here */
    if (config.mtu) {
        fputs("linkemu: the MTU is --mtu, not part of the link\n", stderr);
        exit(2);
    }
    if (is_back)
        config.seed ^= UINT64_C(0x5851f42d4c957f2d);
    if (rdt_link_open(&side->link, &config, 0)) {
        fputs("linkemu: no memory\n", stderr);
        exit(1);
    }
}

static bool read_mtu(int *mtu, const char *text)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (end == text || *end || value < MTU_MIN || value > MTU_MAX)
        return false;
    *mtu = (int)value;
    return true;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    const char *there = "";
    const char *back = NULL;
    int mtu = MTU_DEFAULT;

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (value && strcmp(argv[i], "--link") == 0) {
            there = value;
        } else if (value && strcmp(argv[i], "--back") == 0) {
            back = value;
        } else if (!value || strcmp(argv[i], "--mtu") != 0 || !read_mtu(&mtu, value)) {
            const bool help = strcmp(argv[i], "--help") == 0;

            usage(help ? stdout : stderr);
            return help ? 0 : 2;
        }
    }
    open_link(&sides[0], "--link", there, false);
    open_link(&sides[1], back ? "--back" : "--link", back ? back : there, true);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* whoever started it wants it no longer than himself */
    open_sides(mtu);
    printf("READY a=/proc/%d/fd/%d b=/proc/%d/fd/%d\n", (int)getpid(), sides[0].net, (int)getpid(),
           sides[1].net);
    fflush(stdout);
    forward();
    print_stats();
    rdt_link_free(sides[0].link);
    rdt_link_free(sides[1].link);
    return 0;
}
