//! The terminal: what it must be for the live view, what wakes the view, and how it is given back.

use crate::keys::{Key, Keys};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;
use ratatui::layout::{Position, Rect};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level};
use std::ffi::c_int;
use std::fs::File;
use std::io::{self, IsTerminal, Stdin};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A signal that comes between the look for it and the wait is seen so much later.
const LONGEST_WAIT_MS: u16 = 500;

pub enum Woken {
    Keys(Vec<Key>),
    /// Time to look, or the window has another size.
    Nothing,
    /// To end as by this signal.
    End(c_int),
}

pub struct Terminal {
    /// Not dropped: its Drop complains on stderr and so panics if that has gone too.
    screen: ManuallyDrop<DefaultTerminal>,
    keyboard: Keyboard,
    keys: Keys,
    signal: Arc<AtomicUsize>,
}

enum Keyboard {
    Stdin(Stdin),
    Tty(File),
}

impl Keyboard {
    /// The one whose modes crossterm sets.
    fn open() -> Result<Keyboard, String> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Ok(Keyboard::Stdin(stdin));
        }
        let tty = File::open("/dev/tty").map_err(|error| useless(&format!("/dev/tty: {error}")))?;
        Ok(Keyboard::Tty(tty))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Keyboard::Stdin(stdin) => stdin.as_fd(),
            Keyboard::Tty(tty) => tty.as_fd(),
        }
    }

    /// What poll(2) finds there, nothing for `ms` at most.
    fn poll(&self, ms: u16) -> Result<PollFlags, Errno> {
        let mut polled = [PollFd::new(self.fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::from(ms))?;
        Ok(polled[0].revents().unwrap_or(PollFlags::empty()))
    }
}

fn has_gone(found: PollFlags) -> bool {
    found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL)
}

fn useless(why: &str) -> String {
    format!("no terminal for the live view ({why}): use --once or --json")
}

/// Whether escape sequences may be written to stdout, and would be understood.
fn check() -> Result<(), String> {
    if !io::stdout().is_terminal() {
        return Err(useless("stdout is none"));
    }
    match std::env::var_os("TERM") {
        Some(term) if !term.is_empty() && term != "dumb" => Ok(()),
        Some(term) => Err(useless(&format!("TERM={}", term.display()))),
        None => Err(useless("TERM is not set")),
    }
}

impl Terminal {
    pub fn take() -> Result<Terminal, String> {
        check()?;
        let keyboard = Keyboard::open()?;
        let signal = Arc::new(AtomicUsize::new(0));
        watch_signals(&signal).map_err(|error| format!("signals: {error}"))?;
        // A panic gives the terminal back too: `try_init` sees to that.
        match ratatui::try_init() {
            Ok(screen) => {
                let screen = ManuallyDrop::new(screen);
                Ok(Terminal { screen, keyboard, keys: Keys::default(), signal })
            }
            Err(error) => {
                let _ = ratatui::try_restore();
                Err(useless(&error.to_string()))
            }
        }
    }

    /// Draws what has changed. The signal to end by, if the terminal has gone.
    pub fn draw(&mut self, content: impl FnOnce(&mut Frame)) -> Result<Option<c_int>, String> {
        match self.screen.draw(content) {
            Ok(_) => Ok(None),
            Err(_) if self.keyboard.poll(0).is_ok_and(has_gone) => Ok(Some(SIGHUP)),
            Err(error) => Err(format!("terminal: {error}")),
        }
    }

    /// To draw everything anew next time, whatever others have written there. If it fails, so will the next
    /// `draw`, which says so.
    pub fn wipe(&mut self) {
        // Not `clear`, which asks the terminal for the cursor and waits for the answer.
        if let Ok(size) = self.screen.size() {
            let _ = self.screen.resize(Rect::from((Position::ORIGIN, size)));
        }
    }

    /// Waits for keys, a signal or, for as long, nothing. Crossterm's reader is not asked: in a terminal
    /// that has gone (EOF, EIO) it reads without end, whatever one looked at before, since the terminal
    /// can go between the look and the read.
    pub fn wait(&mut self, longest: Duration) -> Result<Woken, String> {
        // The end of a millisecond, or the last one would be waited for in a loop.
        let ms = (longest.as_millis() + 1).min(LONGEST_WAIT_MS.into()) as u16;
        let found = match self.keyboard.poll(ms) {
            Ok(found) => found,
            Err(Errno::EINTR) => PollFlags::empty(),
            Err(errno) => return Err(format!("poll: {}", errno.desc())),
        };
        let signal = self.signal.load(Relaxed) as c_int;
        if signal != 0 {
            return Ok(Woken::End(signal));
        }
        // As a hangup ends a program, also where its SIGHUP went to somebody else.
        if has_gone(found) {
            return Ok(Woken::End(SIGHUP));
        }
        if found.is_empty() {
            return Ok(Woken::Nothing);
        }
        let mut bytes = [0; 256];
        match read(self.keyboard.fd(), &mut bytes) {
            Ok(0) | Err(Errno::EIO) => Ok(Woken::End(SIGHUP)),
            Ok(count) => Ok(Woken::Keys(self.keys.of(&bytes[..count]))),
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(Woken::Nothing),
            Err(errno) => Err(format!("keyboard: {}", errno.desc())),
        }
    }

    /// A terminal that has gone takes nothing back, and there is nobody to be told.
    pub fn give_back(mut self) {
        let _ = self.screen.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The first signal is kept for the loop; the second ends the process where it is, in case that a
/// write to a stopped terminal holds up the loop. A window's new size only ends the wait.
fn watch_signals(signal: &Arc<AtomicUsize>) -> io::Result<()> {
    let is_second = Arc::new(AtomicBool::new(false));
    for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        flag::register_conditional_default(number, Arc::clone(&is_second))?;
        flag::register(number, Arc::clone(&is_second))?;
        flag::register_usize(number, Arc::clone(signal), number as usize)?;
    }
    flag::register(SIGWINCH, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Ends the process by the signal, so that who waits for it sees that.
pub fn end_by(signal: c_int) -> Result<(), String> {
    low_level::emulate_default_handler(signal).map_err(|error| format!("signal {signal}: {error}"))
}
