/*
 * nginx_cycle: prefork workers that answer "hello" and close, with the event loop written by hand as in nginx.
 *
 * usage: nginx_cycle ADDR WORKERS    SIGTERM to the parent ends all.
 *
 * This is the loop to start from in a server that already has nginx's shape; herd_run_once is the same in one call.
 */
#define _GNU_SOURCE
#include <herd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct herd_worker *volatile worker;

static int check_call(int result, const char *call)
{
    if (result >= 0)
        return result;
    fprintf(stderr, "nginx_cycle: %s: %s\n", call, herd_strerror(result));
    exit(EXIT_FAILURE);
}
#define check(call) check_call(call, #call)

static void on_signal(int number)
{
    (void)number;
    herd_drain(worker);
    alarm(10); /* ends the process: nobody waits longer for a client that is silent (worker_shutdown_timeout) */
}

/* What comes first is taken for a whole request, which is good enough for an answer that is always the same. */
static void on_request(struct herd_worker *ready_worker, struct herd_event *event, uint32_t ready)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
    char request[8192];
    int fd = event->fd;
    (void)ready;
    if (recv(fd, request, sizeof request, 0) > 0) /* an empty socket has room for so little */
        send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
    herd_event_del(ready_worker, event); /* ngx_close_connection: del first, then close and count */
    close(fd);
    herd_conn_closed(ready_worker);
    free(event);
}

/* The listener's handler in nginx (ngx_http_init_connection). */
static void on_accept(struct herd_worker *by, int fd, const struct sockaddr *peer, uint32_t peer_length, void *data)
{
    struct herd_event *event = malloc(sizeof *event);
    (void)peer, (void)peer_length, (void)data;
    if (event != NULL && herd_event_init(event, on_request, NULL) == 0 && herd_event_add(by, event, fd, HERD_READ) == 0)
        return; /* ngx_handle_read_event */
    free(event);
    close(fd);
    herd_conn_closed(by);
}

/* ngx_worker_process_cycle around ngx_process_events_and_timers */
static void cycle(void)
{
    while (herd_worker_state(worker) < HERD_WORKER_DRAINED) {      /* until ngx_quit, and all are closed */
        check(herd_trylock(worker));                               /* ngx_trylock_accept_mutex */
        check(herd_process_events(worker, -1, HERD_POST_EVENTS));  /* ngx_process_events */
        check(herd_process_posted(worker, HERD_POSTED_ACCEPT));    /* ngx_event_process_posted: accept events */
        check(herd_unlock(worker));                                /* ngx_shmtx_unlock(&ngx_accept_mutex) */
        check(herd_process_timers(worker));                        /* ngx_event_expire_timers */
        check(herd_process_posted(worker, HERD_POSTED_EVENTS));    /* ngx_event_process_posted: the others */
    }
}

int main(int argc, char **argv)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    char address[256];
    int workers = argc == 3 ? atoi(argv[2]) : 0, number, status;
    if (workers < 1 || workers > HERD_MAX_WORKERS) {
        fputs("usage: nginx_cycle ADDR WORKERS    (such as 127.0.0.1:8080 4)\n", stderr);
        return 2;
    }
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = (uint32_t)workers;
    check(herd_create(&config, &herd));                                /* ngx_event_module_init */
    int listener = check(herd_listen(herd, argv[1], NULL, on_accept, NULL)); /* ngx_open_listening_sockets */
    check(herd_listener_address(herd, listener, address, sizeof address));

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    static pid_t pids[HERD_MAX_WORKERS];
    for (int i = 0; i < workers; i++) {
        if ((pids[i] = fork()) == 0) {                                 /* ngx_spawn_process */
            struct herd_worker *made;
            check(herd_worker_create(herd, HERD_ANY_SLOT, &made));     /* ngx_event_process_init */
            worker = made;
            signal(SIGTERM, on_signal);
            sigprocmask(SIG_UNBLOCK, &signals, NULL);
            cycle();
            herd_worker_destroy(worker);
            _exit(EXIT_SUCCESS);
        }
    }
    printf("nginx_cycle: ready on %s, %d workers, pid %d\n", address, workers, (int)getpid());
    fflush(stdout);
    sigwait(&signals, &number);                                        /* ngx_master_process_cycle */
    for (int i = 0; i < workers; i++)
        if (pids[i] > 0 && kill(pids[i], number) == 0 && waitpid(pids[i], &status, 0) > 0)
            herd_reap(herd, pids[i]);                                  /* ngx_unlock_mutexes */
    return check(herd_destroy(herd));
}
