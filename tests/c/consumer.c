/* A program as a user would build it: see tests/sh/consumer.sh. The argument is the version wanted. */
#include <herd.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    puts(herd_version_string());
    return argc > 1 && strcmp(argv[1], herd_version_string()) != 0;
}
