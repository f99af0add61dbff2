/* Running a test with one of the preload_ objects. */
#ifndef PRELOAD_H
#define PRELOAD_H

#include "check.h"

#include <dlfcn.h>

/* First call of main after test_begin: starts the program anew with build/tests/NAME.so preloaded. */
CHECK_HELPER void preload(const char *name, char **argv)
{
    char path[4096];
    const char *build = getenv("HERD_BUILD");
    snprintf(path, sizeof path, "%s/tests/%s.so", build != NULL ? build : "build", name);
    const char *preloaded = getenv("LD_PRELOAD");
    if (preloaded != NULL && strstr(preloaded, path) != NULL) { /* a checker preloads its own besides */
        return;
    }
    CHECK_EQ(access(path, R_OK), 0);
    setenv("LD_PRELOAD", path, 1);
    execv("/proc/self/exe", argv);
    perror("execv");
    test_exit(1);
}

#endif
