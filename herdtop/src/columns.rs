//! The table's columns: which there are in a window of a width. Pure.

use crate::rows::Sort;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    Slot,
    Pid,
    State,
    For,
    Open,
    OpenBar,
    Accepts,
    AcceptsLine,
    Busy,
    BusyBar,
    Handovers,
}

use Column::*;

const ALL: [Column; 11] =
    [Slot, Pid, State, For, Open, OpenBar, Accepts, AcceptsLine, Busy, BusyBar, Handovers];

/// What is left out first where there is not room for all.
const BY_NEED: [&[Column]; 4] = [&[], &[OpenBar, AcceptsLine, BusyBar], &[Pid], &[Handovers]];

impl Column {
    /// As wide as the column.
    pub fn head(self) -> &'static str {
        match self {
            Slot => "  SLOT",
            Pid => "     PID",
            State => " STATE",
            For => " FOR   ",
            Open => "  OPEN ",
            Accepts => " ACC/S ",
            Busy => "  BUSY ",
            OpenBar | AcceptsLine => "          ",
            BusyBar => "     ",
            Handovers => " HND/S",
        }
    }

    /// What its rows can be sorted by.
    pub fn sort(self) -> Option<Sort> {
        match self {
            Slot => Some(Sort::Slot),
            Open => Some(Sort::Open),
            Accepts => Some(Sort::Accepted),
            Busy => Some(Sort::Busy),
            _ => None,
        }
    }
}

fn width_of(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.head().len()).sum()
}

/// The columns that there is room for.
pub fn columns(width: usize) -> Vec<Column> {
    let mut columns = ALL.to_vec();
    for unneeded in BY_NEED {
        columns.retain(|column| !unneeded.contains(column));
        if width_of(&columns) <= width {
            break;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_window_has_the_columns_that_matter_most() {
        assert_eq!(columns(80), ALL);
        assert_eq!(columns(79), ALL);
        let plain = [Slot, Pid, State, For, Open, Accepts, Busy, Handovers];
        assert_eq!(columns(78), plain);
        assert_eq!(columns(54), plain);
        assert_eq!(columns(53), [Slot, State, For, Open, Accepts, Busy, Handovers]);
        let least = [Slot, State, For, Open, Accepts, Busy];
        assert_eq!(columns(40), least);
        assert_eq!(columns(0), least);
        assert_eq!(width_of(&least), 40);
    }
}
