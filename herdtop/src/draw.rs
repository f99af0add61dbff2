//! What the screen shows, as styled lines: the same for the live view and for --once.

use crate::options::Options;
use crate::percentile::{Percentiles, time};
use crate::rates::Figures;
use crate::rows::{Row, Sort, bar, count, short, sorted, sparkline};
use crate::snapshot::Snapshot;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::collections::{HashMap, VecDeque};

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

    fn labelled(&self, parts: &[(&str, String)]) -> Line<'static> {
        let mut spans = vec![Span::raw(" ")];
        for (label, value) in parts {
            if !label.is_empty() {
                spans.push(Span::styled(format!("{label} "), self.style(Color::DarkGray)));
            }
            spans.push(Span::raw(format!("{value}  ")));
        }
        Line::from(spans)
    }

    pub fn head(&self) -> Vec<Line<'static>> {
        let View { now, figures, .. } = self;
        let total = &now.total;
        let state = match (now.is_alive, self.paused) {
            (false, _) => "ENDED",
            (true, true) => "PAUSED",
            (true, false) => "running",
        };
        let state_style = match (now.is_alive, self.paused) {
            (false, _) => self.style(Color::Red).add_modifier(Modifier::BOLD),
            (true, true) => self.style(Color::Yellow).add_modifier(Modifier::BOLD),
            (true, false) => self.style(Color::Green),
        };
        let title = Line::from(vec![
            Span::styled(format!(" {} ", self.name), self.strong()),
            Span::raw(format!(
                " {}/{}  {} workers in {} slots  ",
                now.mode, now.balance, total.workers, total.slots
            )),
            Span::styled(state, state_style),
        ]);
        let holder = match total.holder {
            -1 => "nobody".to_owned(),
            slot if total.holder_since_us == 0 => format!("slot {slot}"),
            slot => format!(
                "slot {slot} for {}",
                time(total.now_us.saturating_sub(total.holder_since_us))
            ),
        };
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
        if now.mode == "mutex" {
            balance.push(("right:", holder));
            balance.push(("held p50/p99", of(figures.right_held)));
        }
        let spark_width = self.width.saturating_sub(14).min(HISTORY);
        let all = self.history.all.iter().copied();
        let most = all.clone().fold(0.0, f64::max);
        vec![
            title,
            self.labelled(&[
                ("open", total.connections_open.to_string()),
                ("accepted/s", short(figures.all.accepted_per_s)),
                ("requests/s", short(figures.all.requests_per_s)),
                ("handovers/s", short(figures.all.handovers_per_s)),
                ("wasted/acc", format!("{:.3}", figures.wasted_per_accept)),
            ]),
            self.labelled(&balance),
            self.labelled(&[
                ("p50/p99: accept", of(figures.accept_delay)),
                ("handover", of(figures.handover)),
                ("turn", of(figures.turn_work)),
            ]),
            self.labelled(&[
                ("accepted", total.accepted.to_string()),
                ("lost", total.lost.to_string()),
                ("thefts", total.thefts.to_string()),
                ("reaps", total.reaps.to_string()),
                ("back-offs", total.backoffs.to_string()),
                ("guard", total.guard_ticks.to_string()),
            ]),
            Line::from(vec![
                Span::styled(" accepts/s  ", self.style(Color::DarkGray)),
                Span::styled(
                    sparkline(all, most, spark_width, self.ascii),
                    self.style(Color::Cyan),
                ),
            ]),
        ]
    }

    pub fn table_head(&self) -> Line<'static> {
        let name = |sort: Sort, text: &'static str| {
            let style = Style::new().add_modifier(Modifier::REVERSED);
            if sort == self.sort {
                Span::styled(text, style.add_modifier(Modifier::BOLD))
            } else {
                Span::styled(text, style)
            }
        };
        let plain =
            |text: &'static str| Span::styled(text, Style::new().add_modifier(Modifier::REVERSED));
        Line::from(vec![
            name(Sort::Slot, "  SLOT"),
            plain("     PID STATE FOR    "),
            name(Sort::Open, " OPEN            "),
            name(Sort::Accepted, "ACC/S            "),
            name(Sort::Busy, " BUSY       "),
            plain(" HND/S"),
        ])
    }

    pub fn rows(&self) -> Vec<Line<'static>> {
        let rows = sorted(self.now, self.figures, self.sort, self.reverse);
        let open_most = rows.iter().map(|row| row.slot.stats.connections_open).max().unwrap_or(0);
        let values = self.history.slots.values().flatten().copied();
        let rate_most = values.fold(0.0, f64::max);
        rows.iter().map(|row| self.row(row, open_most, rate_most)).collect()
    }

    fn row(&self, row: &Row, open_most: u64, rate_most: f64) -> Line<'static> {
        let stats = &row.slot.stats;
        let has_worker = stats.workers > 0;
        let state_color = match row.state() {
            "busy" => Color::Yellow,
            "rests" => Color::Red,
            _ => Color::Green,
        };
        // The holder is marked by a letter too: colours may be off.
        let mark = if row.holds_right() { "*" } else { " " };
        let style = if row.holds_right() { self.strong() } else { Style::new() };
        let pid = if has_worker { stats.pid.to_string() } else { "-".to_owned() };
        let open = stats.connections_open;
        let open_part = if open_most > 0 { open as f64 / open_most as f64 } else { 0.0 };
        let history = self.history.slots.get(&row.slot.number).cloned().unwrap_or_default();
        let spark = sparkline(history.iter().copied(), rate_most, 10, self.ascii);
        let rates = row.rates;
        Line::from(vec![
            Span::styled(format!("{mark}{:>5}", row.slot.number), style),
            Span::styled(format!(" {pid:>7}"), style),
            Span::styled(format!(" {:<5}", row.state()), self.style(state_color)),
            Span::raw(format!(" {:<6}", row.since())),
            Span::raw(format!(" {:>5} ", count(open))),
            Span::styled(bar(open_part, 10, self.ascii), self.style(Color::Blue)),
            Span::raw(format!(" {:>5} ", short(rates.accepted_per_s))),
            Span::styled(spark, self.style(Color::Cyan)),
            Span::raw(format!(" {:>4.0}% ", rates.busy * 100.0)),
            Span::styled(bar(rates.busy, 5, self.ascii), self.style(Color::Magenta)),
            Span::raw(format!(" {:>5}", short(rates.handovers_per_s))),
        ])
    }

    pub fn keys(&self) -> Line<'static> {
        let order = if self.reverse { ", reversed" } else { "" };
        let text = format!(
            " q quit  p pause  s sort: {}{order}  r reverse  up/down scroll  * has the right",
            self.sort.name()
        );
        Line::from(Span::styled(text, self.style(Color::DarkGray)))
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
    let lines = view.head().into_iter().take(5).chain([view.table_head()]).chain(view.rows());
    lines.map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}
