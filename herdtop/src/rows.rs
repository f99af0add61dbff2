//! The table's rows: which slots, in which order, and what stands in each column. Pure.

use crate::percentile::time;
use crate::process::Process;
use crate::rates::{Figures, SlotRates};
use crate::snapshot::{Slot, Snapshot};
use libherd::abi::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    #[default]
    Slot,
    Open,
    Accepted,
    Busy,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::Slot => Sort::Open,
            Sort::Open => Sort::Accepted,
            Sort::Accepted => Sort::Busy,
            Sort::Busy => Sort::Slot,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Sort::Slot => "slot",
            Sort::Open => "open",
            Sort::Accepted => "acc/s",
            Sort::Busy => "busy",
        }
    }
}

/// What a row can say of its worker's state.
pub const STATES: [&str; 6] = ["stop", "dead", "idle", "busy", "rests", "-"];

pub struct Row<'a> {
    pub slot: &'a Slot,
    pub rates: SlotRates,
}

impl Row<'_> {
    pub fn holds_right(&self) -> bool {
        usize::try_from(self.slot.stats.holder) == Ok(self.slot.number)
    }

    pub fn state(&self) -> &'static str {
        let [stopped, dead, idle, busy, rests, none] = STATES;
        match (self.slot.process, self.slot.stats.state) {
            (Process::Stopped, _) => stopped,
            (Process::Dead, _) => dead,
            (_, HERD_STATE_IDLE) => idle,
            (_, HERD_STATE_BUSY) => busy,
            (_, HERD_STATE_RESTING) => rests,
            _ => none,
        }
    }

    /// How long it has been in its state, or had been when the herd was last heard of. If that was by
    /// this worker's coming into it, nobody knows.
    pub fn since(&self, is_alive: bool) -> String {
        let stats = &self.slot.stats;
        match stats.now_us.saturating_sub(stats.state_since_us) {
            _ if stats.workers == 0 => String::new(),
            0 if !is_alive => "?".to_owned(),
            us => time(us),
        }
    }
}

pub fn sorted<'a>(now: &'a Snapshot, figures: &Figures, sort: Sort, reverse: bool) -> Vec<Row<'a>> {
    let rates = |index: usize| figures.slots.get(index).copied().unwrap_or_default();
    let mut rows: Vec<Row> =
        (0..).zip(&now.slots).map(|(index, slot)| Row { slot, rates: rates(index) }).collect();
    // Stable: equal ones stay in the order of their slots. The largest first, but for the number.
    match sort {
        Sort::Slot => {}
        Sort::Open => rows.sort_by_key(|row| u64::MAX - row.slot.stats.connections_open),
        Sort::Accepted => {
            rows.sort_by(|a, b| b.rates.accepted_per_s.total_cmp(&a.rates.accepted_per_s));
        }
        Sort::Busy => rows.sort_by(|a, b| b.rates.busy.total_cmp(&a.rates.busy)),
    }
    if reverse {
        rows.reverse();
    }
    rows
}

/// A number in few columns.
pub fn short(number: f64) -> String {
    match number {
        n if n >= 1e10 => format!("{:.0}G", n / 1e9),
        n if n >= 1e7 => format!("{:.0}M", n / 1e6),
        n if n >= 1e5 => format!("{:.0}k", n / 1e3),
        n if n >= 10.0 || n == 0.0 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

/// A whole number in few columns.
pub fn count(number: u64) -> String {
    if number < 100_000 { number.to_string() } else { short(number as f64) }
}

/// A bar of `width` columns, filled in proportion.
pub fn bar(part: f64, width: usize, ascii: bool) -> String {
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (part * (width * 8) as f64).round() as usize;
    // Something is more than nothing.
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    let mut text = String::new();
    for column in 0..width {
        let filled = eighths.saturating_sub(column * 8).min(8);
        text.push(match (ascii, filled) {
            (true, 0) => ' ',
            (true, _) => '#',
            (false, filled) => [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'][filled],
        });
    }
    text
}

/// The last `width` values as a line of small columns, the newest at the right, by the largest.
pub fn sparkline(
    history: impl DoubleEndedIterator<Item = f64> + Clone,
    most: f64,
    width: usize,
    ascii: bool,
) -> String {
    let mut text: Vec<char> = history
        .rev()
        .take(width)
        .map(|value| {
            let level =
                if most > 0.0 { (value / most * 8.0).ceil().clamp(0.0, 8.0) as usize } else { 0 };
            let levels: [char; 9] = if ascii {
                [' ', '.', '.', ':', ':', '=', '=', '#', '#']
            } else {
                [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
            };
            levels[level]
        })
        .collect();
    text.resize(width, ' ');
    text.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_sparklines() {
        for (part, text) in
            [(0.0, "    "), (0.001, "▏   "), (0.5, "██  "), (1.0, "████"), (7.0, "████")]
        {
            assert_eq!(bar(part, 4, false), text, "{part}");
        }
        assert_eq!(bar(f64::NAN, 2, false), "  ");
        assert_eq!((bar(0.5, 4, true), bar(0.1, 4, true)), ("##  ".into(), "#   ".into()));
        assert_eq!(sparkline([0.0, 1.0, 4.0, 8.0].into_iter(), 8.0, 6, false), "   ▁▄█");
        assert_eq!(sparkline([1.0, 2.0, 3.0].into_iter(), 3.0, 2, true), "=#");
        assert_eq!(sparkline([0.0].into_iter(), 0.0, 2, true), "  ");
    }

    #[test]
    fn numbers_are_short() {
        let table = [(0.0, "0"), (0.25, "0.2"), (9.96, "10.0"), (10.0, "10"), (99_999.0, "99999")];
        for (number, text) in table.into_iter().chain([(123_456.0, "123k"), (12_345_678.0, "12M")])
        {
            assert_eq!(short(number), text);
        }
    }

    fn slot(number: usize, open: u64) -> Slot {
        let stats = herd_stats { connections_open: open, ..Default::default() };
        Slot { number, stats, ..Default::default() }
    }

    #[test]
    fn rows_are_sorted() {
        let slots = vec![slot(0, 5), slot(1, 9), slot(4, 5)];
        let now = Snapshot { is_alive: true, slots, ..Default::default() };
        let rates = |accepted_per_s, busy| SlotRates { accepted_per_s, busy, ..Default::default() };
        let slots = vec![rates(1.0, 0.5), rates(0.5, 0.1), rates(7.0, 0.2)];
        let figures = Figures { slots, ..Default::default() };
        let mut sort = Sort::default();
        for order in [[0, 1, 4], [1, 0, 4], [4, 0, 1], [0, 4, 1]] {
            let numbers = |reverse| -> Vec<usize> {
                sorted(&now, &figures, sort, reverse).iter().map(|row| row.slot.number).collect()
            };
            assert_eq!(numbers(false), order, "{sort:?}");
            assert!(numbers(true).iter().rev().eq(&order), "{sort:?}");
            sort = sort.next();
        }
        assert_eq!(sort, Sort::default());
    }
}
