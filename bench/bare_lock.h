/* The least that an accept lock in a shared object can be: two function calls, two compare-and-swaps. */
#include <stdint.h>
int bare_trylock(uint64_t *word, uint64_t own);
int bare_unlock(uint64_t *word, uint64_t own);
int bare_unlock_by_store(uint64_t *word);
