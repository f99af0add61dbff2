//! docs/observing.md explains each word of the screen and each key of the JSON, and none that is not there.

use crate::columns::columns;
use crate::draw::{History, View};
use crate::json;
use crate::rates::{self, Figures};
use crate::rows::{STATES, Sort};
use crate::snapshot::{Slot, Snapshot};
use std::collections::BTreeSet;

const DOCS: &str = include_str!("../../docs/observing.md");

/// What the first cells of the tables under a heading have in backquotes.
fn documented(heading: &str) -> BTreeSet<String> {
    let (_, section) = DOCS.split_once(&format!("\n{heading}\n")).expect("the heading is there");
    let section = section.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split('|').next()).map(|cell| format!("`{cell}"));
    cells.flat_map(|cell| quoted(&cell)).collect()
}

fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn herd(is_alive: bool) -> Snapshot {
    let mut now = Snapshot { is_alive, mode: "mutex", balance: "spread", ..Default::default() };
    now.total.holder = -1;
    now.slots.push(Slot::default());
    now
}

#[test]
fn each_key_of_the_json() {
    let now = herd(true);
    let text = json::text("web", &now, &rates::at(&now, &now));
    let keys: BTreeSet<String> = text
        .split("\": ")
        .filter_map(|part| part.rsplit_once('"'))
        .map(|(_, key)| key.to_owned())
        .collect();
    assert!(keys.contains("name") && keys.contains("busy"), "{keys:?}");
    assert_eq!(documented("### JSON"), keys);
}

#[test]
fn each_word_of_the_screen() {
    let mut words = BTreeSet::new();
    for is_alive in [true, false] {
        let now = herd(is_alive);
        let view = View {
            name: "web",
            now: &now,
            figures: &Figures::default(),
            history: &History::default(),
            sort: Sort::Slot,
            reverse: false,
            paused: false,
            color: false,
            ascii: true,
            width: 1000,
        };
        let head: Vec<String> = view.head().iter().map(ToString::to_string).collect();
        // Above the figures are sentences. Each figure is one word behind its label.
        for part in
            head[if is_alive { 1 } else { 2 }..].iter().flat_map(|line| line.trim().split("  "))
        {
            words.insert(part.rsplit_once(' ').expect("label and figure").0.to_owned());
        }
    }
    words.extend(columns(1000).into_iter().map(|column| column.head().trim().to_owned()));
    words.remove("");
    assert_eq!(documented("### Words"), words);
    assert_eq!(documented("### States"), STATES.map(str::to_owned).into());
}
