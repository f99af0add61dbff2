/* vanish ROUNDS PROGRAM [ARGUMENT...]: runs the program again and again in a terminal that goes away soon
 * after a key was pressed: 0 to 24 ms later, and without a SIGHUP in every second round, as when the
 * program is in a session of its own. It has to end each time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void die(const char *what, int round, pid_t pid)
{
    fprintf(stderr, "vanish: round %d: %s\n", round, what);
    kill(pid, SIGKILL);
    exit(1);
}

/* Reads until the program has drawn all up to `text`. */
static int shows(int terminal, const char *text)
{
    static char screen[1 << 16];
    size_t have = 0;
    struct pollfd polled = { .fd = terminal, .events = POLLIN };
    while (poll(&polled, 1, 10000) == 1) {
        ssize_t got = read(terminal, screen + have, sizeof screen - 1 - have);
        if (got <= 0)
            return 0;
        have += (size_t)got;
        screen[have] = '\0';
        if (memmem(screen, have, text, strlen(text)) != NULL)
            return 1;
    }
    return 0;
}

static void run(int round, char **command)
{
    const struct winsize size = { .ws_row = 24, .ws_col = 80 };
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0 || ioctl(terminal, TIOCSWINSZ, &size) != 0)
        exit(77);
    int inside = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        dup2(inside, 0), dup2(inside, 1), dup2(inside, 2);
        if (round % 2 == 0)
            ioctl(0, TIOCSCTTY, 0);
        execvp(command[0], command);
        _exit(127);
    }
    close(inside);
    if (!shows(terminal, "q quit"))
        die("draws nothing", round, pid);
    /* A key, or only the beginning of one, whose reader may go on reading. */
    const char *key = round / 2 % 2 == 0 ? "s" : "\033[";
    if (write(terminal, key, strlen(key)) != (ssize_t)strlen(key))
        die("takes no key", round, pid);
    sleep_ms(round / 2 % 25);
    close(terminal);
    for (int waited_ms = 0; waitpid(pid, NULL, WNOHANG) != pid; waited_ms += 2) {
        if (waited_ms > 10000)
            die("goes on without its terminal", round, pid);
        sleep_ms(2);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    for (int round = 0; round < atoi(argv[1]); round++)
        run(round, argv + 2);
    return 0;
}
