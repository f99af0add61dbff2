/* Reading a herd whose memory may hold anything. Include check.h before. C99 and C++17. */
#ifndef FIGURES_H
#define FIGURES_H

/* Each call that reads figures comes back, with what can be so. `slots`: the herd's, or 0 where its memory is
 * what says how many it has. */
CHECK_HELPER void look_at_figures(const struct herd *herd, int slots)
{
    struct herd_stats stats;
    struct herd_histogram times;
    memset(&stats, 0, sizeof stats);
    memset(&times, 0, sizeof times);
    stats.size = sizeof stats;
    times.size = sizeof times;
    int said = herd_slots(herd);
    CHECK(slots == 0 ? said >= 1 && said <= (int)HERD_MAX_WORKERS : said == slots);
    /* Neither AUTO nor DEFAULT: what the memory said when the herd was opened, and was looked at then. */
    int mode = herd_mode(herd), balance = herd_balance(herd);
    CHECK(mode >= HERD_MODE_EXCLUSIVE && mode <= HERD_MODE_SHARED);
    CHECK(balance >= HERD_BALANCE_SPREAD && balance <= HERD_BALANCE_ROUND_ROBIN);
    CHECK_CODE(herd_stats_total(herd, &stats), 0);
    CHECK(stats.holder >= -1 && stats.holder < said && (int)stats.slots == said);
    for (int slot = HERD_ALL_SLOTS; slot <= said; slot++) {
        CHECK_CODE(herd_stats_worker(herd, slot, &stats), slot >= 0 && slot < said ? 0 : -EINVAL);
        for (uint32_t which = 0; which <= HERD_HISTOGRAM_TURN_WORK + 1; which++) {
            CHECK_CODE(herd_stats_histogram(herd, slot, which, &times),
                       slot < said && which <= HERD_HISTOGRAM_TURN_WORK ? 0 : -EINVAL);
        }
    }
    int room = herd_stats_text(herd, NULL, 0);
    CHECK(room > 0);
    char *text = (char *)malloc((size_t)room);
    CHECK(text != NULL);
    CHECK(herd_stats_text(herd, text, (size_t)room) > 0);
    free(text);
}

#endif
