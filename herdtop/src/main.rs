//! herdtop: what each worker of a herd does, live, in a terminal. It looks at the herd from outside, by
//! its name, and changes nothing of it.

mod draw;
mod herds;
mod json;
mod live;
mod options;
mod percentile;
mod rates;
mod rows;
mod snapshot;

use options::{Options, Output};
use snapshot::Herd;
use std::process::ExitCode;
use std::thread;

fn main() -> ExitCode {
    let result = options::parse().and_then(|options| match options {
        None => Ok(()),
        Some(options) => run(&options),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("herdtop: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    if options.output == Output::List {
        herds::print();
        return Ok(());
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
    thread::sleep(options.interval);
    let now = herd.snapshot()?;
    let figures = rates::between(&before, &now);
    match options.output {
        Output::Json => print!("{}", json::text(&name, &now, &figures)),
        _ => print!("{}", draw::plain(&name, &now, &figures, options)),
    }
    Ok(())
}
