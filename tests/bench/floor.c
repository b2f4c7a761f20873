/* The least that a wrapper of a command does: starts it, waits for it, and ends as it did. */
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

int main(int count, char **words) {
    pid_t pid;
    int status;
    if (count < 2 || posix_spawnp(&pid, words[1], 0, 0, words + 1, environ))
        return 127;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
