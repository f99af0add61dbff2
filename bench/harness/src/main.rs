//! herd-bench run [--quick] BUILD JSON: measures all contenders.
//! herd-bench promises [--quick] BUILD JSON: measures what the library promises, and prints it.
//! herd-bench report JSON DIRECTORY: makes benchmarks.md and its plots.
//! BUILD holds examples/, bench/ and peers/. Exit 0: done, whatever it says; 1: something failed; 2: usage.

use herd_bench::figures::Results;
use herd_bench::measure::{Bench, Extent, FULL, QUICK};
use herd_bench::{promises, report};
use std::path::Path;
use std::process::ExitCode;

fn measure(extent: Extent, quick: bool, build: &str, json: &str) -> Result<Results, String> {
    let results = Bench::new(Path::new(build), extent, if quick { QUICK } else { FULL })?.measure();
    results.write(Path::new(json))?;
    Ok(results)
}

fn do_it(arguments: &[&str]) -> Result<Vec<String>, String> {
    let quick = arguments.contains(&"--quick");
    let plain: Vec<&str> = arguments.iter().copied().filter(|a| *a != "--quick").collect();
    match plain[..] {
        ["run", build, json] => Ok(measure(Extent::All, quick, build, json)?.failures),
        ["promises", build, json] => {
            let results = measure(Extent::Promises, quick, build, json)?;
            let machine = report::machine(&results);
            println!("{machine}\n\n{}{}", promises::table(&results), promises::notes(&results));
            Ok(results.failures)
        }
        ["report", json, directory] => {
            report::write(&Results::read(Path::new(json))?, Path::new(directory))?;
            Ok(Vec::new())
        }
        _ => Err("usage: herd-bench run|promises [--quick] BUILD JSON, or herd-bench report JSON DIRECTORY".to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match do_it(&arguments) {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("herd-bench: {} steps failed: do not trust the figures", failures.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("herd-bench: {why}");
            ExitCode::from(if why.starts_with("usage") { 2 } else { 1 })
        }
    }
}
