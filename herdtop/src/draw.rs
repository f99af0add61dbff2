//! What the screen shows, as styled lines: the same for the live view and for --once.

use crate::columns::{Column, columns};
use crate::options::Options;
use crate::percentile::{Percentiles, time};
use crate::rates::Figures;
use crate::rows::{Row, Sort, bar, count, short, sorted, sparkline};
use crate::snapshot::Snapshot;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Looks that a sparkline can show.
pub const HISTORY: usize = 60;

/// Accepts per second in the last looks, of each slot and of all.
#[derive(Default)]
pub struct History {
    slots: HashMap<usize, VecDeque<f64>>,
    all: VecDeque<f64>,
}

impl History {
    pub fn add(&mut self, now: &Snapshot, figures: &Figures) {
        push(&mut self.all, figures.all.accepted_per_s);
        for (slot, rates) in now.slots.iter().zip(&figures.slots) {
            push(self.slots.entry(slot.number).or_default(), rates.accepted_per_s);
        }
    }
}

fn push(values: &mut VecDeque<f64>, value: f64) {
    if values.len() == HISTORY {
        values.pop_front();
    }
    values.push_back(value);
}

/// What stays on one line.
type Part = Vec<Span<'static>>;

pub struct View<'a> {
    pub name: &'a str,
    pub now: &'a Snapshot,
    pub figures: &'a Figures,
    pub history: &'a History,
    pub sort: Sort,
    pub reverse: bool,
    pub paused: bool,
    pub color: bool,
    pub ascii: bool,
    pub width: usize,
}

impl View<'_> {
    fn style(&self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Stands out without a colour as well.
    fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Lines of parts, each in one piece, as many lines as the width needs.
    fn lines(&self, parts: Vec<Part>) -> Vec<Line<'static>> {
        let mut lines: Vec<Line> = Vec::new();
        let mut used = 0;
        for part in parts {
            let needed = part.iter().map(|span| span.width()).sum::<usize>();
            match lines.last_mut() {
                Some(line) if used + 2 + needed <= self.width => {
                    line.push_span("  ");
                    line.spans.extend(part);
                    used += 2 + needed;
                }
                _ => {
                    lines.push(Line::from_iter([Span::raw(" ")].into_iter().chain(part)));
                    used = 1 + needed;
                }
            }
        }
        lines
    }

    fn labelled(&self, parts: &[(&'static str, String)]) -> Vec<Line<'static>> {
        let part = |(label, value): &(&'static str, String)| {
            vec![
                Span::styled(format!("{label} "), self.style(Color::DarkGray)),
                Span::raw(value.clone()),
            ]
        };
        self.lines(parts.iter().map(part).collect())
    }

    fn title(&self) -> Vec<Line<'static>> {
        let (total, now) = (&self.now.total, self.now);
        let (state, color) = match (now.is_alive, self.paused) {
            (false, _) => ("ENDED", Color::Red),
            (true, true) => ("PAUSED", Color::Yellow),
            (true, false) => ("running", Color::Green),
        };
        let state_style = match color {
            Color::Green => self.style(color),
            _ => self.style(color).add_modifier(Modifier::BOLD),
        };
        let workers = match (now.is_alive, total.workers) {
            (true, workers) => format!("{workers} workers in {} slots", total.slots),
            (false, 0) => "all workers had left".to_owned(),
            (false, workers) => format!("{workers} workers died with it"),
        };
        self.lines(vec![
            vec![Span::styled(self.name.to_owned(), self.strong())],
            vec![Span::styled(state, state_style)],
            vec![Span::raw(format!("{}/{}", now.mode, now.balance))],
            vec![Span::raw(workers)],
        ])
    }

    /// That all below is of the past.
    fn epitaph(&self) -> Vec<Line<'static>> {
        let heard = match self.now.ended_for_us {
            0 => "last heard of: never".to_owned(),
            us => format!("last heard of {} ago", time(us)),
        };
        let said = ["its processes have ended", heard.as_str(), "figures: of its whole life"];
        let style = self.style(Color::Red);
        self.lines(said.map(|text| vec![Span::styled(text.to_owned(), style)]).into())
    }

    fn right(&self) -> String {
        let total = &self.now.total;
        match total.holder {
            -1 => "nobody".to_owned(),
            slot => match total.now_us.saturating_sub(total.holder_since_us) {
                _ if total.holder_since_us == 0 => format!("slot {slot}"),
                0 if !self.now.is_alive => format!("slot {slot}"),
                held_us => format!("slot {slot} for {}", time(held_us)),
            },
        }
    }

    pub fn head(&self) -> Vec<Line<'static>> {
        let View { now, figures, .. } = self;
        let total = &now.total;
        let ratio = match (total.open_least, total.open_most) {
            (least, most) if least == most => "1.00".to_owned(),
            (0, _) => "inf".to_owned(),
            (least, most) => format!("{:.2}", most as f64 / least as f64),
        };
        let of = |times: Percentiles| match times.count {
            0 => "-".to_owned(),
            _ => format!("{}/{}", time(times.p50_us), time(times.p99_us)),
        };
        let mut balance = vec![("Jain", format!("{:.3}", total.open_jain)), ("max/min", ratio)];
        if now.has_right() {
            balance.push(("right:", self.right()));
            balance.push(("held p50/p99", of(figures.right_held)));
        }
        let rate = |per_s: f64| if now.is_alive { short(per_s) } else { "-".to_owned() };
        let mut lines = self.title();
        if !now.is_alive {
            lines.extend(self.epitaph());
        }
        lines.extend(self.labelled(&[
            ("open", total.connections_open.to_string()),
            ("accepted/s", rate(figures.all.accepted_per_s)),
            ("requests/s", rate(figures.all.requests_per_s)),
            ("handovers/s", rate(figures.all.handovers_per_s)),
            ("wasted/acc", format!("{:.3}", figures.wasted_per_accept)),
        ]));
        lines.extend(self.labelled(&balance));
        lines.extend(self.labelled(&[
            ("p50/p99: accept", of(figures.accept_delay)),
            ("handover", of(figures.handover)),
            ("turn", of(figures.turn_work)),
        ]));
        lines.extend(self.labelled(&[
            ("accepted", total.accepted.to_string()),
            ("lost", total.lost.to_string()),
            ("thefts", total.thefts.to_string()),
            ("reaps", total.reaps.to_string()),
            ("back-offs", total.backoffs.to_string()),
            ("guard", total.guard_ticks.to_string()),
        ]));
        lines
    }

    /// Accepts per second of the last looks.
    pub fn sparkline(&self) -> Option<Line<'static>> {
        let width = self.width.saturating_sub(14).min(HISTORY);
        let all = self.history.all.iter().copied();
        let most = all.clone().fold(0.0, f64::max);
        let drawn = sparkline(all, most, width, self.ascii);
        (width > 0).then(|| {
            Line::from(vec![
                Span::styled(" accepts/s  ", self.style(Color::DarkGray)),
                Span::styled(drawn, self.style(Color::Cyan)),
            ])
        })
    }

    pub fn table_head(&self) -> Line<'static> {
        let columns = columns(self.width);
        let shown = columns.into_iter().map(|column| {
            let style = Style::new().add_modifier(Modifier::REVERSED);
            let sorted = column.sort() == Some(self.sort);
            Span::styled(
                column.head(),
                if sorted { style.add_modifier(Modifier::BOLD) } else { style },
            )
        });
        Line::from_iter(shown)
    }

    pub fn rows(&self) -> Vec<Line<'static>> {
        let rows = sorted(self.now, self.figures, self.sort, self.reverse);
        let open_most = rows.iter().map(|row| row.slot.stats.connections_open).max().unwrap_or(0);
        let values = self.history.slots.values().flatten().copied();
        let rate_most = values.fold(0.0, f64::max);
        rows.iter().map(|row| self.row(row, open_most, rate_most)).collect()
    }

    fn row(&self, row: &Row, open_most: u64, rate_most: f64) -> Line<'static> {
        let columns = columns(self.width);
        Line::from_iter(
            columns.into_iter().map(|column| self.cell(row, column, open_most, rate_most)),
        )
    }

    fn cell(&self, row: &Row, column: Column, open_most: u64, rate_most: f64) -> Span<'static> {
        let Row { slot, rates } = row;
        let stats = &slot.stats;
        // The holder is marked by a letter too: colours may be off.
        let mark = if row.holds_right() { "*" } else { " " };
        let style = if row.holds_right() { self.strong() } else { Style::new() };
        let rate = |per_s: f64| if self.now.is_alive { short(per_s) } else { "-".to_owned() };
        match column {
            Column::Slot => Span::styled(format!("{mark}{:>5}", slot.number), style),
            Column::Pid if stats.workers == 0 => Span::styled(format!(" {:>7}", "-"), style),
            Column::Pid => Span::styled(format!(" {:>7}", stats.pid), style),
            Column::State => {
                let color = match row.state() {
                    "busy" => Color::Yellow,
                    "rests" | "stop" | "dead" => Color::Red,
                    _ => Color::Green,
                };
                Span::styled(format!(" {:<5}", row.state()), self.style(color))
            }
            Column::For => Span::raw(format!(" {:<6}", row.since(self.now.is_alive))),
            Column::Open => Span::raw(format!(" {:>5} ", count(stats.connections_open))),
            Column::OpenBar => {
                let part = stats.connections_open as f64 / open_most.max(1) as f64;
                Span::styled(bar(part, 10, self.ascii), self.style(Color::Blue))
            }
            Column::Accepts => Span::raw(format!(" {:>5} ", rate(rates.accepted_per_s))),
            Column::AcceptsLine => {
                let history = self.history.slots.get(&slot.number).into_iter().flatten().copied();
                let line = sparkline(history, rate_most, 10, self.ascii);
                Span::styled(line, self.style(Color::Cyan))
            }
            Column::Busy => Span::raw(format!(" {:>4.0}% ", rates.busy * 100.0)),
            Column::BusyBar => {
                Span::styled(bar(rates.busy, 5, self.ascii), self.style(Color::Magenta))
            }
            Column::Handovers => Span::raw(format!(" {:>5}", rate(rates.handovers_per_s))),
        }
    }

    /// One line: what does not fit is left out from the end. `shown`: the rows that there is room for, of
    /// `all`.
    pub fn keys(&self, shown: Range<usize>, all: usize) -> Option<Line<'static>> {
        let order = if self.reverse { ", reversed" } else { "" };
        let mut parts = vec!["q quit".to_owned(), "p pause".to_owned()];
        if shown.len() < all {
            parts.push(format!("up/down {}-{}/{all}", (shown.start + 1).min(all), shown.end));
        }
        parts.push(format!("s sort: {}{order}", self.sort.name()));
        parts.push("r reverse".to_owned());
        if self.now.has_right() {
            parts.push("* has the right".to_owned());
        }
        let style = self.style(Color::DarkGray);
        let parts = parts.into_iter().map(|text| vec![Span::styled(text, style)]).collect();
        self.lines(parts).into_iter().next()
    }
}

/// One look as text without any style.
pub fn plain(name: &str, now: &Snapshot, figures: &Figures, options: &Options) -> String {
    let mut history = History::default();
    history.add(now, figures);
    let view = View {
        name,
        now,
        figures,
        history: &history,
        sort: Sort::Slot,
        reverse: false,
        paused: false,
        color: false,
        ascii: options.ascii,
        width: 80,
    };
    let lines = view.head().into_iter().chain([view.table_head()]).chain(view.rows());
    lines.map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}
