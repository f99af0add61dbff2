/* timeout: 300
 * Workers are killed and replaced, stopped and continued at random under steady arrivals. Every
 * connection is answered, unless it was in a worker that was killed, and none waits in the backlog
 * much longer than accept_delay; the counters add up at the end. HERD_TEST_SLOW=1: a minute instead
 * of ten seconds. HERD_TEST_SEED=N: the same faults again. */
#include "right.h"

enum {
    workers = 5,
    delay_ms = 200,
    /* With room for a busy machine. */
    most_wait_ms = delay_ms + 50 + 500,
    gap_us = 5000,
    hold_most_ms = 200,
    stop_most_ms = 1500, /* twice what may be waited: else nobody would miss who takes the right from the stopped */
    /* Connections that a worker was just taking when it was stopped: a matter of microseconds (docs/protocol.md). */
    caught_most = 3,
    waiting_most = 900
};

/* When a connection was accepted, by the client's port; shared with the workers. */
static int64_t *accepted_us;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    struct sockaddr_in from;
    memcpy(&from, peer, sizeof from);
    SHARED_SET(accepted_us[ntohs(from.sin_port)], now_us());
    serve_on_accept(worker, fd, peer, peer_length, data);
}

enum stage { free_place, wants_greeting, rests, wants_answer };

static struct client {
    enum stage stage;
    int fd;
    int slot;
    unsigned kills; /* before it connected */
    uint16_t port;
    int64_t began_us;
    int64_t stood_still_us; /* before it connected */
    int64_t rests_until_us;
} clients[waiting_most];

static struct target {
    int is_stopped;
    pid_t dead;
    int64_t act_us; /* when it is to be continued, or its death reported */
    int64_t killed_us; /* last */
    int64_t stopped_us;
} targets[workers];

static struct figures {
    unsigned made, answered, lost_before, lost_after, kills, stops;
    unsigned kills_unready; /* perhaps before it had its slot */
    int64_t longest_us;
    unsigned over_20_ms;
    unsigned caught;
    int64_t stood_still_us; /* so long in all the machine did not run this process, nor the workers perhaps */
} figures;

/* --- clients -------------------------------------------------------------------------------- */

static void connect_one(void)
{
    for (int i = 0; i < waiting_most; i++) {
        struct client *client = &clients[i];
        if (client->stage == free_place) {
            struct sockaddr_in own;
            socklen_t length = sizeof own;
            client->began_us = now_us();
            client->stood_still_us = figures.stood_still_us;
            client->fd = connect_to(serve.address);
            CHECK_EQ(getsockname(client->fd, (struct sockaddr *)&own, &length), 0);
            client->port = ntohs(own.sin_port);
            client->kills = figures.kills;
            client->stage = wants_greeting;
            figures.made++;
            return;
        }
    }
    CHECK(!"too many clients wait");
}

static void end_client(struct client *client)
{
    close(client->fd);
    client->stage = free_place;
}

static void check_wait(const struct client *client)
{
    int64_t waited_us = SHARED_GET(accepted_us[client->port]) - client->began_us;
    int64_t stood_still_us = figures.stood_still_us - client->stood_still_us;
    int64_t most_us = (int64_t)most_wait_ms * 1000 + stood_still_us;
    int64_t until_stopped_us = targets[client->slot].stopped_us - client->began_us;
    int is_late = waited_us > most_us, may_be_caught = until_stopped_us >= 0 && until_stopped_us <= most_us;
    figures.caught += is_late && may_be_caught;
    if (is_late && (!may_be_caught || figures.caught > caught_most)) {
        fprintf(stderr, "connection %u waited %d ms before slot %d accepted it\n", figures.made,
                (int)(waited_us / 1000), client->slot);
        test_exit(1);
    }
    figures.longest_us = waited_us > figures.longest_us && !is_late ? waited_us : figures.longest_us;
    figures.over_20_ms += waited_us > 20000;
}

static void client_is_readable(struct client *client, uint32_t *seed)
{
    unsigned char byte;
    ssize_t got = recv(client->fd, &byte, 1, 0);
    if (client->stage == wants_greeting && got == 1) {
        client->slot = byte;
        CHECK(client->slot < workers);
        check_wait(client);
        client->rests_until_us = now_us() + (int64_t)right_random(seed, hold_most_ms) * 1000;
        client->stage = rests;
    } else if (client->stage == wants_greeting) {
        /* Accepted by a worker that was killed then. */
        CHECK(figures.kills != client->kills);
        figures.lost_before++;
        end_client(client);
    } else if (client->stage == wants_answer && got == 1) {
        figures.answered++;
        end_client(client);
    } else {
        CHECK(got != 1);
        CHECK(targets[client->slot].killed_us >= client->began_us);
        figures.lost_after++;
        end_client(client);
    }
}

/* To be called each millisecond or so. */
static void note_progress(void)
{
    static int64_t last_us;
    int64_t since_last_us = now_us() - last_us;
    figures.stood_still_us += last_us != 0 && since_last_us > 20000 ? since_last_us : 0;
    last_us = now_us();
}

/* One look at all clients, for at most a millisecond. Returns how many are not done. */
static int serve_clients(uint32_t *seed)
{
    static struct pollfd polled[waiting_most];
    static struct client *polled_clients[waiting_most];
    nfds_t count = 0;
    for (int i = 0; i < waiting_most; i++) {
        struct client *client = &clients[i];
        if (client->stage == rests && now_us() >= client->rests_until_us) {
            ssize_t sent = send(client->fd, "x", 1, MSG_NOSIGNAL);
            (void)sent; /* a dead worker is seen in the answer */
            client->stage = wants_answer;
        }
        if (client->stage != free_place) {
            polled[count].fd = client->fd;
            polled[count].events = POLLIN;
            polled_clients[count++] = client;
        }
    }
    int ready = poll(polled, count, 1);
    note_progress();
    CHECK(ready >= 0 || errno == EINTR);
    for (nfds_t i = 0; ready > 0 && i < count; i++) {
        if (polled[i].revents != 0) {
            client_is_readable(polled_clients[i], seed);
        }
    }
    return (int)count;
}

/* --- faults --------------------------------------------------------------------------------- */

static int running_count(void)
{
    int count = 0;
    for (int slot = 0; slot < workers; slot++) {
        pid_t pid = serve.pids[slot];
        count += pid > 0 && !targets[slot].is_stopped && SHARED_GET(serve.shared->ready[slot]) == pid;
    }
    return count;
}

static void kill_one(int slot, uint32_t *seed)
{
    struct target *target = &targets[slot];
    figures.kills++;
    figures.kills_unready += SHARED_GET(serve.shared->ready[slot]) != serve.pids[slot];
    target->killed_us = now_us();
    target->is_stopped = 0;
    target->dead = serve_crash(slot);
    /* Often reported at once, sometimes later than the guard finds it. */
    target->act_us = now_us() + (right_random(seed, 3) > 0 ? 0 : right_random(seed, 400) * 1000);
}

static void hurt_one(uint32_t *seed)
{
    int slot = (int)right_random(seed, workers);
    int kills = right_random(seed, 2) == 0;
    struct target *target = &targets[slot];
    if (serve.pids[slot] == 0 || (!target->is_stopped && running_count() < 2)) {
        return;
    }
    if (kills) {
        kill_one(slot, seed);
    } else if (!target->is_stopped) {
        figures.stops++;
        target->is_stopped = 1;
        target->stopped_us = now_us();
        kill(serve.pids[slot], SIGSTOP);
        target->act_us = now_us() + (int64_t)(10 + right_random(seed, stop_most_ms)) * 1000;
    }
}

/* Continues the stopped, reports and replaces the dead, when it is time, or at once. */
static void heal(int at_once)
{
    for (int slot = 0; slot < workers; slot++) {
        struct target *target = &targets[slot];
        if (!at_once && now_us() < target->act_us) {
            continue;
        }
        if (target->is_stopped) {
            target->is_stopped = 0;
            kill(serve.pids[slot], SIGCONT);
        } else if (target->dead != 0) {
            CHECK(herd_reap(serve.herd, target->dead) >= 0);
            CHECK_EQ(serve_stats(slot).workers, 0);
            target->dead = 0;
            serve_fork(slot);
        }
    }
}

static void run(const struct right_case *c, int seconds, uint32_t *seed)
{
    struct herd_config config = right_config(c, delay_ms);
    memset(&figures, 0, sizeof figures);
    memset(targets, 0, sizeof targets);
    serve_prepare(&config, workers);
    CHECK_CODE(herd_remove_listener(serve.herd, 0), 0);
    serve.address = address_of(serve.herd, new_listener(serve.herd, on_accept, NULL));
    for (int slot = 0; slot < workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();

    int64_t end_us = now_us() + (int64_t)seconds * 1000000;
    int64_t next_connect_us = now_us(), next_fault_us = now_us();
    while (now_us() < end_us) {
        if (now_us() >= next_connect_us) {
            connect_one();
            next_connect_us += gap_us;
        }
        if (now_us() >= next_fault_us) {
            hurt_one(seed);
            next_fault_us = now_us() + 5000 + right_random(seed, 80000);
        }
        heal(0);
        serve_clients(seed);
    }
    heal(1);
    end_us = now_us() + 10000000;
    while (serve_clients(seed) > 0) {
        CHECK(now_us() < end_us);
    }
    serve_settle();
    WAIT_UNTIL(serve_total().connections_open == 0, 5000);
    struct herd_stats stats = serve_total();
    printf("%s: %u connections, %u answered, %u + %u lost with %u killed workers, %u stops; longest wait "
           "%.1f ms, %u over 20 ms, %u caught; thefts %llu, EAGAIN %llu, found by looking %llu\n",
           c->name, figures.made, figures.answered, figures.lost_before, figures.lost_after,
           figures.kills, figures.stops, (double)figures.longest_us / 1000, figures.over_20_ms, figures.caught,
           (unsigned long long)stats.thefts, (unsigned long long)stats.accept_eagain,
           (unsigned long long)stats.blind_accepts);
    CHECK_EQ(figures.answered + figures.lost_before + figures.lost_after, figures.made);
    CHECK(figures.answered >= figures.made / 2);
    CHECK(figures.kills > 0 && figures.stops > 0);
    CHECK_EQ(stats.workers, workers);
    CHECK(stats.reaps <= figures.kills && stats.reaps + figures.kills_unready >= figures.kills);
    CHECK(stats.accepted <= figures.made);
    CHECK(stats.accepted + figures.lost_before >= figures.made);
    serve_end();
}

int main(void)
{
    int seconds = test_is_slow() ? 60 : 10;
    test_begin(280);
    uint32_t seed = right_seed();
    accepted_us = (int64_t *)shared_memory(65536 * sizeof *accepted_us);
    for (int i = 0; i < right_case_count; i++) {
        if (i != 1) { /* EXCLUSIVE/PACK differs from EXCLUSIVE/SPREAD in the wait queue's order only */
            run(&right_cases[i], seconds / 3, &seed);
        }
    }
    test_exit(0);
}
