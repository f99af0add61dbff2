/* Where bpf(2) is refused (no privilege, a sandbox, an old kernel) REUSEPORT works with the kernel's
 * hash, says so in the log and by herd_is_steered, and loads spread all the same. */
#include "reuseport.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

enum { workers = 4, connections = 400 };

static char messages[4096];

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    size_t used = strlen(messages);
    snprintf(messages + used, sizeof messages - used, "%d %s\n", level, message);
}

/* bpf(2) fails from now on as a sandbox has it. */
static void refuse_bpf(int with_errno)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)with_errno),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        test_skip("seccomp(2) is not allowed here");
    }
}

/* Jain's index of many connections that stay; the hash alone would give 0.993. */
static double spread(int with_errno)
{
    struct herd_config config = reuseport_config(1, 0);
    int clients[connections], taken[workers] = {0};
    config.log = on_log;
    messages[0] = '\0';
    serve_start(&config, workers);
    CHECK_EQ(herd_mode(serve.herd), HERD_MODE_REUSEPORT);
    CHECK_EQ(herd_is_steered(serve.herd), 0);
    CHECK(strstr(messages, "bpf: ") != NULL && strstr(messages, strerror(with_errno)) != NULL);
    CHECK(strstr(messages, "hash places connections\n") != NULL && strstr(messages, ", steered") == NULL);
    for (int i = 0; i < connections; i++) {
        int slot;
        clients[i] = serve_connect(&slot);
        taken[slot]++;
    }
    double squares = 0;
    for (int slot = 0; slot < workers; slot++) {
        squares += (double)taken[slot] * taken[slot];
    }
    double jain = (double)connections * connections / (workers * squares);
    printf("%staken: %d %d %d %d, Jain's index %.4f, %llu reorders\n", messages, taken[0], taken[1],
           taken[2], taken[3], jain, (unsigned long long)serve_total().reorders);
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    serve_end();
    return jain;
}

static void serve_without(int with_errno)
{
    double jain;
    refuse_bpf(with_errno); /* in a child of its own: the filter stays for good */
    CHECK_IN_SOME_TRY(jain = spread(with_errno), jain >= 0.997);
    test_exit(0);
}

int main(void)
{
    static const int errors[] = {EPERM, ENOSYS};
    test_begin(50);
    for (int i = 0; i < 2; i++) {
        pid_t pid = test_fork();
        if (pid == 0) {
            serve_without(errors[i]);
        }
        int code = test_join(pid);
        if (code != 0) {
            test_exit(code);
        }
    }
    /* Nor does the host's own policy ask for it. */
    struct herd_config config = reuseport_config(0, 0);
    config.log = on_log;
    serve_start(&config, 1);
    CHECK_EQ(herd_is_steered(serve.herd), 0);
    CHECK(strstr(messages, "bpf") == NULL);
    serve_end();
    test_exit(0);
}
