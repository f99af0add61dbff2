/* fallocate(2) as on a memory file system without room. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    (void)fd;
    (void)mode;
    (void)offset;
    (void)length;
    errno = ENOSPC;
    return -1;
}

int fallocate64(int fd, int mode, off_t offset, off_t length)
{
    return fallocate(fd, mode, offset, length);
}
