#include "bare_lock.h"

int bare_trylock(uint64_t *word, uint64_t own)
{
    uint64_t free = 0;
    return __atomic_compare_exchange_n(word, &free, own, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

int bare_unlock(uint64_t *word, uint64_t own)
{
    return __atomic_compare_exchange_n(word, &own, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

int bare_unlock_by_store(uint64_t *word)
{
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    return 1;
}
