//! herdtop: what each worker of a herd does, live, in a terminal. It looks at the herd from outside, by
//! its name, and changes nothing of it.

mod columns;
#[cfg(test)]
mod documented;
mod draw;
mod herds;
mod json;
mod keys;
mod live;
mod options;
mod percentile;
mod process;
mod rates;
mod rows;
mod snapshot;
mod terminal;

use options::{Asked, Options, Output};
use snapshot::Herd;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::thread;

fn main() -> ExitCode {
    let result = options::parse().and_then(|options| match options {
        Asked::ForText(text) => print(&text),
        Asked::ToRun(options) => run(&options),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Not by eprintln!, which panics where stderr has gone.
            let _ = writeln!(io::stderr(), "herdtop: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    if options.output == Output::List {
        return print(&herds::list());
    }
    let name = match &options.name {
        Some(name) => name.clone(),
        None => herds::the_only_one()?,
    };
    let herd = Herd::open(&name)?;
    if options.output == Output::Live {
        return live::run(herd, options);
    }
    let before = herd.snapshot()?;
    // An ended herd does nothing more.
    let now = if before.is_alive {
        thread::sleep(options.interval);
        herd.snapshot()?
    } else {
        before.clone()
    };
    let figures = rates::at(&before, &now);
    match options.output {
        Output::Json => print(&json::text(&name, &now, &figures)),
        _ => print(&draw::plain(&name, &now, &figures, options)),
    }
}

/// To stdout. A reader that has gone has read what it wanted.
fn print(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("stdout: {error}")),
        _ => Ok(()),
    }
}
