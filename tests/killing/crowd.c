/*
 * A job of many processes that leaves a witness of its last work.
 *
 *   crowd FILE sleepers|chains COUNT SECONDS    COUNT processes at work, for SECONDS at most
 *   crowd FILE now                              the time, written to FILE
 *
 * Sleepers wake now and then, once all are there: they would hold up the forks. Each link of a chain forks the next one
 * and exits. All ignore SIGTERM. Each writes the boot clock, in nanoseconds, to its place in FILE whenever it works. The
 * first place is set when all have begun.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t *places;
static uint64_t end;
/* A pipe that ends when all have closed it. */
static int gate[2];

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void work(int place) {
    uint64_t time = now();
    if (time >= end) _exit(0);
    places[place] = time;
}

static void await_all(void) {
    char nothing;
    close(gate[1]);
    if (read(gate[0], &nothing, 1) != 0) _exit(68);
}

static void sleeper(int place, int count) {
    work(place);
    await_all();
    /* All together wake about 20,000 times a second. */
    uint64_t pause = (20 + (uint64_t)count / 20) * 1000000;
    struct timespec first = {0, pause * (place % 97) / 97}, rest = {pause / 1000000000, pause % 1000000000};
    nanosleep(&first, NULL);
    for (;;) {
        work(place);
        nanosleep(&rest, NULL);
    }
}

static void chain(int place) {
    close(gate[1]);
    for (;;) {
        work(place);
        pid_t next = fork();
        if (next > 0) _exit(0);
        if (next < 0) usleep(1000);
    }
}

int main(int count, char **words) {
    if (count < 3) return 64;
    int file = open(words[1], O_RDWR | O_CREAT, 0666);
    int processes = count > 4 ? atoi(words[3]) : 1;
    size_t size = (processes + 1) * sizeof(*places);
    if (file < 0 || processes < 1 || processes > 20000 || ftruncate(file, size)) return 65;
    places = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (places == MAP_FAILED) return 66;
    if (!strcmp(words[2], "now")) {
        places[0] = now();
        return 0;
    }
    end = now() + strtoull(words[4], NULL, 10) * 1000000000;
    signal(SIGTERM, SIG_IGN);
    if (pipe(gate)) return 69;
    for (int place = 1; place <= processes; place++) {
        pid_t child = fork();
        if (child < 0) return 67;
        if (child == 0) {
            if (!strcmp(words[2], "chains")) chain(place);
            sleeper(place, processes);
        }
    }
    await_all();
    places[0] = now();
    while (now() < end) usleep(10000);
    return 0;
}
