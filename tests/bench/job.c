/* The job of the handover: LOG NUMBER [FIFO]. Notes its number, its start and its end, on one clock, at the
   end of LOG; with FIFO it first waits until the other side has closed that. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    long long start = now();
    struct timespec work = {0, 20000000};
    char line[96], byte;
    int log = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (argc > 3) {
        int gate = open(argv[3], O_RDONLY);
        while (read(gate, &byte, 1) > 0) {}
    }
    nanosleep(&work, NULL);
    int length = snprintf(line, sizeof line, "%s %lld %lld\n", argv[2], start, now());
    return write(log, line, length) != length;
}
