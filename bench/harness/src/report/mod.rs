//! The report: docs/benchmarks.md and its plots, from results alone.

mod measured;
mod plots;
mod simulated;
mod wins;

use crate::figures::{Results, number};
use std::fs;
use std::path::Path;

pub fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let [before, after] = &machine.load_average;
    format!(
        "Machine: {}, {} cores, Linux {}, {}; {}. Load average {before} at the start, {after} at the end; took {:.0} s.",
        machine.cpu,
        machine.cores,
        machine.kernel,
        machine.compiler,
        machine.nginx,
        machine.seconds
    )
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    text += &line(head);
    let rule: Vec<String> =
        (0..head.len()).map(|at| if at == 0 { "---" } else { "---:" }.to_owned()).collect();
    text += &line(&rule);
    rows.iter().for_each(|row| text += &line(row));
    text
}

/// Writes benchmarks.md and benchmarks/*.svg into a directory.
pub fn write(results: &Results, directory: &Path) -> Result<(), String> {
    let plots = directory.join("benchmarks");
    fs::create_dir_all(&plots).map_err(|e| format!("{}: {e}", plots.display()))?;
    let mut text = String::from(
        "# Benchmarks\n\n\
         libherd beside what people would pick instead, on the same job: accept, read a request, write an answer of\n\
         about 150 bytes, close or keep. This page is made by `make bench` from one run; run it to see your machine.\n\n",
    );
    if !results.failures.is_empty() {
        text += "**Some steps failed: do not trust this page.**\n\n";
        results.failures.iter().for_each(|what| text += &format!("- {what}\n"));
        text += "\n";
    }
    text += &machine(results);
    text += "\n\nThe load generator runs on the same cores as the servers. Figures are medians of rounds in which the\n\
             contenders took turns (A B C A B C ...); ± is half the distance of the quartiles. Bold: nobody's median is\n\
             better. \n\n";
    for skipped in &results.skipped {
        text += &format!("- Not measured: {skipped}\n");
    }
    text += &measured::contenders();
    text += &wins::section(results);
    text += &measured::sections(results, &plots)?;
    text += "## What the library promises\n\n```text\n";
    text += &crate::promises::table(results);
    text += "```\n";
    text += &crate::promises::notes(results);
    text += &simulated::sections(results, &plots)?;
    let path = directory.join("benchmarks.md");
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}
