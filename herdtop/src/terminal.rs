//! The terminal: what it must be for the live view, what wakes the view, and how it is given back.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
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

/// How long crossterm may wait for keys that poll(2) has told of: not at all, but when its edge is
/// used up, and then a loop without a pause would spin.
pub const KEYS_WITHIN: Duration = Duration::from_millis(20);

pub enum Woken {
    Keys,
    Nothing,
    /// To end as by this signal.
    End(c_int),
}

pub struct Terminal {
    /// Not dropped: its Drop complains on stderr and so panics if that has gone too.
    pub screen: ManuallyDrop<DefaultTerminal>,
    keyboard: Keyboard,
    signal: Arc<AtomicUsize>,
}

enum Keyboard {
    Stdin(Stdin),
    Tty(File),
}

impl Keyboard {
    /// The one that crossterm reads.
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
        let screen = ratatui::try_init().map_err(|error| useless(&error.to_string()))?;
        let terminal = Terminal { screen: ManuallyDrop::new(screen), keyboard, signal };
        // From now on crossterm handles SIGWINCH, which so ends `wait`.
        match event::poll(Duration::ZERO) {
            Ok(_) => Ok(terminal),
            Err(error) => {
                terminal.give_back();
                Err(useless(&error.to_string()))
            }
        }
    }

    /// Waits for keys, a signal or, for as long, nothing. Not crossterm's wait: that one goes on after
    /// a signal (EINTR), and reads without end from a terminal that has gone (EOF, EIO).
    pub fn wait(&self, longest: Duration) -> Result<Woken, String> {
        let mut keyboard = [PollFd::new(self.keyboard.fd(), PollFlags::POLLIN)];
        // The end of a millisecond, or the last one would be waited for in a loop.
        let ms = (longest.as_millis() + 1).min(LONGEST_WAIT_MS.into()) as u16;
        match poll(&mut keyboard, ms) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(format!("poll: {}", errno.desc())),
        }
        let signal = self.signal.load(Relaxed) as c_int;
        if signal != 0 {
            return Ok(Woken::End(signal));
        }
        let found = keyboard[0].revents().unwrap_or(PollFlags::empty());
        // As a hangup ends a program, also where its SIGHUP went to somebody else.
        if found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            return Ok(Woken::End(SIGHUP));
        }
        Ok(if found.is_empty() { Woken::Nothing } else { Woken::Keys })
    }

    /// A terminal that has gone takes nothing back, and there is nobody to be told.
    pub fn give_back(mut self) {
        let _ = self.screen.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The first signal is kept for the loop; the second ends the process where it is, in case that a
/// write to a stopped terminal holds up the loop.
fn watch_signals(signal: &Arc<AtomicUsize>) -> io::Result<()> {
    let is_second = Arc::new(AtomicBool::new(false));
    for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        flag::register_conditional_default(number, Arc::clone(&is_second))?;
        flag::register(number, Arc::clone(&is_second))?;
        flag::register_usize(number, Arc::clone(signal), number as usize)?;
    }
    Ok(())
}

/// Ends the process by the signal, so that who waits for it sees that.
pub fn end_by(signal: c_int) -> Result<(), String> {
    low_level::emulate_default_handler(signal).map_err(|error| format!("signal {signal}: {error}"))
}
