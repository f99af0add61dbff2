//! The live view: looks, keys and the terminal.

use crate::draw::{History, View};
use crate::options::Options;
use crate::rates::{self, Figures};
use crate::rows::Sort;
use crate::snapshot::{Herd, Snapshot};
use crate::terminal::{self, KEYS_WITHIN, Terminal, Woken};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Text};
use std::ffi::c_int;
use std::io;
use std::time::{Duration, Instant};

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
        figures: Figures::default(),
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
        let mut next_look = Instant::now() + options.interval;
        loop {
            let drawn = terminal.screen.draw(|frame| self.draw(frame, options));
            drawn.map_err(|error| format!("terminal: {error}"))?;
            let left = next_look.saturating_duration_since(Instant::now());
            // Also without keys: a resize waits there, and would hide the next key's edge.
            let within = match terminal.wait(left)? {
                Woken::End(signal) => return Ok(Some(signal)),
                Woken::Keys => KEYS_WITHIN,
                Woken::Nothing => Duration::ZERO,
            };
            if !self.handle_all(within).map_err(|error| error.to_string())? {
                return Ok(None);
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
        self.herd.follow();
        let now = self.herd.snapshot()?;
        self.figures = rates::between(&self.now, &now);
        self.history.add(&now, &self.figures);
        self.now = now;
        Ok(())
    }

    /// All keys that crossterm has read: poll(2) does not tell of them again. False: quit.
    fn handle_all(&mut self, mut within: Duration) -> io::Result<bool> {
        while event::poll(within)? {
            if !self.handle(event::read()?) {
                return Ok(false);
            }
            within = Duration::ZERO;
        }
        Ok(true)
    }

    /// False: quit.
    fn handle(&mut self, event: Event) -> bool {
        let Event::Key(key) = event else { return true };
        if key.kind == KeyEventKind::Release {
            return true;
        }
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if ctrl => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        true
    }

    fn draw(&mut self, frame: &mut Frame, options: &Options) {
        let area = frame.area();
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
            width: area.width.into(),
        };
        let head = view.head();
        let rows = view.rows();
        let [head_area, title_area, rows_area, keys_area] = Layout::vertical([
            Constraint::Length(head.len() as u16),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        let room = usize::from(rows_area.height);
        self.scroll = self.scroll.min(rows.len().saturating_sub(room));
        let shown: Vec<Line> = rows.into_iter().skip(self.scroll).take(room).collect();
        frame.render_widget(Text::from(head), head_area);
        frame.render_widget(view.table_head(), title_area);
        frame.render_widget(view.keys(), keys_area);
        frame.render_widget(Text::from(shown), rows_area);
    }
}
