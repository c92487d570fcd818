/* LD_PRELOAD library for tests: moves the wall clock of a process by the seconds (a double) at SKEW_FILE. The file is
 * mapped, so a test can set the clock of running processes. Monotonic clocks, sleeps and timeouts are not changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double skew_seconds(void) {
    static volatile double *shared;
    static int is_open;
    if (!is_open) {
        const char *path = getenv("SKEW_FILE");
        int file = path ? open(path, O_RDONLY) : -1;
        is_open = 1;
        if (file >= 0) {
            void *mapped = mmap(0, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
            shared = mapped == MAP_FAILED ? 0 : mapped;
            close(file);
        }
    }
    return shared ? *shared : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*original)(clockid_t, struct timespec *);
    if (!original) original = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = original(clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long shifted = time->tv_sec * 1000000000LL + time->tv_nsec + (long long)(skew_seconds() * 1e9);
        time->tv_sec = shifted / 1000000000LL;
        time->tv_nsec = shifted % 1000000000LL;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    value->tv_sec = now.tv_sec;
    value->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
