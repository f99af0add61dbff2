// The same as consumer.c, as a C++ program.
#include <herd.h>
#include <iostream>
#include <string>

int main(int argc, char **argv)
{
    const std::string version = herd_version_string();
    std::cout << version << '\n';
    return argc > 1 && version != argv[1];
}
