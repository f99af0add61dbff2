//! The live view: looks, keys and the terminal.

use crate::draw::{History, View};
use crate::keys::Key;
use crate::options::Options;
use crate::rates::{self, Figures};
use crate::rows::Sort;
use crate::snapshot::{Herd, Snapshot};
use crate::terminal::{self, Terminal, Woken};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Text;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Of the table, before the head is cut.
const LEAST_ROWS: usize = 4;

const FIRST_INTERVAL: Duration = Duration::from_millis(250);

struct Live {
    herd: Herd,
    now: Snapshot,
    figures: Figures,
    history: History,
    sort: Sort,
    reverse: bool,
    paused: bool,
    scroll: usize,
}

pub fn run(herd: Herd, options: &Options) -> Result<(), String> {
    let now = herd.snapshot()?;
    let mut live = Live {
        herd,
        figures: rates::at(&now, &now),
        history: History::default(),
        now,
        sort: Sort::default(),
        reverse: false,
        paused: false,
        scroll: 0,
    };
    let mut terminal = Terminal::take()?;
    let result = live.watch(&mut terminal, options);
    terminal.give_back();
    match result? {
        Some(signal) => terminal::end_by(signal),
        None => Ok(()),
    }
}

impl Live {
    /// Until a key quits, or the signal that it gives.
    fn watch(
        &mut self,
        terminal: &mut Terminal,
        options: &Options,
    ) -> Result<Option<c_int>, String> {
        // Not long without rates.
        let mut next_look = Instant::now() + options.interval.min(FIRST_INTERVAL);
        loop {
            if let Some(signal) = terminal.draw(|frame| self.draw(frame, options))? {
                return Ok(Some(signal));
            }
            let left = next_look.saturating_duration_since(Instant::now());
            let keys = match terminal.wait(left)? {
                Woken::End(signal) => return Ok(Some(signal)),
                Woken::Keys(keys) => keys,
                Woken::Nothing => Vec::new(),
            };
            for key in keys {
                match key {
                    Key::Quit => return Ok(None),
                    Key::Redraw => terminal.wipe(),
                    other => self.handle(other),
                }
            }
            if Instant::now() >= next_look {
                next_look = Instant::now() + options.interval;
                if !self.paused {
                    self.look()?;
                }
            }
        }
    }

    fn look(&mut self) -> Result<(), String> {
        let is_another = self.herd.follow();
        let now = self.herd.snapshot()?;
        if is_another {
            // Nothing of the one before is this one's.
            self.history = History::default();
            self.now = now.clone();
        }
        self.figures = rates::at(&self.now, &now);
        // What an ended herd did last stays to be seen.
        if now.is_alive {
            self.history.add(&now, &self.figures);
        }
        self.now = now;
        Ok(())
    }

    fn handle(&mut self, key: Key) {
        match key {
            Key::Pause => self.paused = !self.paused,
            Key::Sort => self.sort = self.sort.next(),
            Key::Reverse => self.reverse = !self.reverse,
            Key::Up => self.scroll = self.scroll.saturating_sub(1),
            Key::Down => self.scroll = self.scroll.saturating_add(1),
            Key::PageUp => self.scroll = self.scroll.saturating_sub(10),
            Key::PageDown => self.scroll = self.scroll.saturating_add(10),
            Key::Home => self.scroll = 0,
            Key::End => self.scroll = usize::MAX,
            Key::Quit | Key::Redraw => {}
        }
    }

    fn draw(&mut self, frame: &mut Frame, options: &Options) {
        let area = frame.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let view = View {
            name: self.herd.name(),
            now: &self.now,
            figures: &self.figures,
            history: &self.history,
            sort: self.sort,
            reverse: self.reverse,
            paused: self.paused,
            color: options.color,
            ascii: options.ascii,
            width,
        };
        let rows = view.rows();
        let mut lines = view.head();
        lines.extend(view.sparkline());
        // In a low window the workers matter more than the last lines of the head.
        lines.truncate(height.saturating_sub(2 + rows.len().min(LEAST_ROWS)).max(1));
        lines.push(view.table_head());
        let room = height.saturating_sub(lines.len() + 1);
        self.scroll = self.scroll.min(rows.len().saturating_sub(room));
        let shown = self.scroll..rows.len().min(self.scroll + room);
        let keys = view.keys(shown.clone(), rows.len());
        lines.extend(rows.into_iter().skip(shown.start).take(shown.len()));
        frame.render_widget(Text::from(lines), area);
        let [_, last] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        frame.render_widget(keys, last);
    }
}
