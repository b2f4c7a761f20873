/* preferred PROGRAM [ARG]...: PROGRAM at nice -20, as the user who starts it. To be installed set-user-ID root. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <unistd.h>

int main(int count, char **words) {
    uid_t user = getuid();
    if (count < 2 || setpriority(PRIO_PROCESS, 0, -20) || setresuid(user, user, user)) return 77;
    execv(words[1], words + 1);
    return 127;
}
