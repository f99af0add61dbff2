/* R36: when shared memory cannot be reserved, herd_create says so and leaves nothing behind. */
#include "preload.h"

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(50);
    preload("preload_fallocate", argv);
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    int before = open_fds();
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(herd_create(&config, &herd), -ENOMEM);
        CHECK(herd == NULL);
    }
    CHECK_EQ(open_fds(), before);
    test_exit(0);
}
