//! Where a peer is better, and why.

use super::measured::{Better, Column, SECTIONS, names};
use super::{number, table};
use crate::figures::{Results, median, spread};
use crate::measure::contender::is_ours;
use crate::reasons::reason;

/// Less than this, or than the spread of the rounds, is no difference.
const NOISE: f64 = 0.02;

fn is_better(column: &Column, value: f64, than: f64, noise: f64) -> bool {
    match column.better {
        Better::More => value > than * (1.0 + noise),
        Better::Less => value < than * (1.0 - noise),
    }
}

fn is_library(name: &str) -> bool {
    is_ours(name) || name == "herd"
}

/// The peers that beat the best of libherd's modes, the best of them first to be named.
pub fn section(results: &Results) -> String {
    let mut rows = Vec::new();
    for column in SECTIONS.iter().flat_map(|section| section.columns) {
        let known =
            || names().filter_map(|name| Some((name, results.values(column.metric, name)?)));
        let better_of = |a: (&'static str, f64), b: (&'static str, f64)| {
            if is_better(column, b.1, a.1, 0.0) { b } else { a }
        };
        let best = |ours: bool| {
            let those = known().filter(|&(name, _)| is_library(name) == ours);
            those.map(|(name, values)| (name, median(values))).reduce(better_of)
        };
        let (Some(own), Some(peer)) = (best(true), best(false)) else { continue };
        let noise_of = |name| results.values(column.metric, name).and_then(|values| spread(values));
        let noise = NOISE.max(noise_of(own.0).unwrap_or(0.0) + noise_of(peer.0).unwrap_or(0.0));
        if is_better(column, peer.1, own.1, noise) {
            let ratio = if own.1 == 0.0 { "-".to_owned() } else { number(peer.1 / own.1) };
            rows.push(vec![
                format!("{} ({})", column.title, column.metric),
                format!("{} {}", peer.0, number(peer.1)),
                format!("{} {}", own.0, number(own.1)),
                ratio,
                reason(column.metric, peer.0).to_owned(),
            ]);
        }
    }
    let mut text = String::from("## Where a peer wins\n\n");
    if rows.is_empty() {
        return text + "Nowhere in this run, beyond the spread of the rounds.\n\n";
    }
    text += "The best peer against the best of libherd's modes, where the difference is more than both spreads (at least 2 %).\n\n";
    let head = ["figure", "peer", "libherd", "ratio", "why"].map(str::to_owned);
    text + &table(&head, &rows) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_wins_beyond_the_noise_only() {
        let mut results = Results::default();
        for (name, value) in
            [("exclusive/spread", 100.0), ("raw-rotate", 101.0), ("libev-shared", 90.0)]
        {
            results.put("short", name, value);
        }
        assert!(section(&results).contains("Nowhere"));
        results.put("short", "libuv-shared", 110.0);
        let text = section(&results);
        assert!(text.contains("libuv-shared 110 | exclusive/spread 100 | 1.100"), "{text}");
        // Less is better here.
        results.put("cpu", "mutex/pack", 20.0);
        results.put("cpu", "raw-mutex", 18.0);
        assert!(section(&results).contains("raw-mutex 18 | mutex/pack 20"));
    }
}
