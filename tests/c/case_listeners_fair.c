/* Listeners that all have connections waiting are served in turn, whatever their family. */
#include "check.h"

enum { listeners = 3, waiting = 30 };

static unsigned accepted[listeners];

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    static const sa_family_t families[listeners] = {AF_INET, AF_INET6, AF_UNIX};
    (void)peer_length;
    unsigned *count = (unsigned *)data;
    CHECK_EQ(peer->sa_family, families[count - accepted]);
    ++*count;
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

static void serve_in_turn(uint32_t mode, uint32_t accept_batch)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    struct herd_worker *worker;
    int clients[listeners][waiting];
    char path[64];
    config.mode = mode;
    config.max_workers = 2;
    config.accept_batch = accept_batch;
    memset(accepted, 0, sizeof accepted);
    snprintf(path, sizeof path, "unix:@herd-fair-%d", (int)getpid());
    CHECK_CODE(herd_create(&config, &herd), 0);
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, on_accept, &accepted[0]), 0);
    int v6 = herd_listen(herd, "[::1]:0", NULL, on_accept, &accepted[1]);
    if (v6 == -EADDRNOTAVAIL || v6 == -EAFNOSUPPORT) {
        test_skip("no IPv6 here");
    }
    CHECK_CODE(v6, 1);
    CHECK_CODE(herd_listen(herd, path, NULL, on_accept, &accepted[2]), 2);
    for (int listener = 0; listener < listeners; listener++) {
        for (int i = 0; i < waiting; i++) {
            clients[listener][i] = connect_to(address_of(herd, listener));
        }
    }

    CHECK_CODE(herd_worker_create(herd, 0, &worker), 0);
    unsigned total = 0;
    while (total < listeners * waiting) {
        unsigned least = waiting, most = 0;
        CHECK(herd_run_once(worker, 5000) > 0);
        total = 0;
        for (int listener = 0; listener < listeners; listener++) {
            unsigned count = accepted[listener];
            total += count;
            least = count < least ? count : least;
            most = count > most ? count : most;
        }
        CHECK(most - least <= 1);
    }
    CHECK_EQ(total, listeners * waiting);
    for (int listener = 0; listener < listeners; listener++) {
        for (int i = 0; i < waiting; i++) {
            close(clients[listener][i]);
        }
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(50);
    serve_in_turn(HERD_MODE_MUTEX, 1);
    serve_in_turn(HERD_MODE_MUTEX, 4);
    serve_in_turn(HERD_MODE_SHARED, 1);
    serve_in_turn(HERD_MODE_HANDOFF, 4);
    test_exit(0);
}
