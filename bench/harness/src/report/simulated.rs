//! The simulated part, marked as such, with what the simulator says of the measured machine first.

use super::plots::{self, Line};
use super::{number, table};
use crate::figures::Results;
use crate::sim::Way;
use crate::sim::studies::{self, Row};
use crate::sim::validation::{self, Tolerance};
use std::path::Path;

/// File, title, figure, whether its axis is logarithmic.
type Plot = (&'static str, &'static str, fn(&Row) -> f64, bool);

/// Of one run of the simulator; of a quick one, which is for a first look.
const CONNECTIONS: u64 = 100_000;
const CONNECTIONS_QUICK: u64 = 20_000;

pub fn sections(results: &Results, plots: &Path) -> Result<String, String> {
    let mut text = String::from(
        "\n# Simulated\n\n\
         Everything from here on is simulated, not measured. The simulator (bench/harness/src/sim) runs the library's own\n\
         decisions, the very functions, on simulated workers, cores, clients, wait queues and timers, and the other ways as\n\
         nginx and the kernel do them. First what it says of the machine that was measured, the mean of ten runs that differ\n\
         in what is drawn:\n\n",
    );
    let head = ["figure", "contender", "simulated", "measured", "off", "stated error", ""];
    let rows: Vec<Vec<String>> =
        validation::validate(|metric, contender| results.values(metric, contender))
            .iter()
            .map(|check| {
                let stated = match check.tolerance {
                    Tolerance::Share(share) => format!("{:.0} %", 100.0 * share),
                    Tolerance::Absolute(allowed) => format!("{allowed}"),
                };
                vec![
                    check.metric.to_owned(),
                    check.contender.to_owned(),
                    number(check.simulated),
                    number(check.measured),
                    number((check.simulated - check.measured).abs()),
                    stated,
                    if check.holds() { "holds" } else { "**does not hold**" }.to_owned(),
                ]
            })
            .collect();
    text += &table(&head.map(str::to_owned), &rows);
    text += "\nIt does not know caches, preemption within a system call, or which of several woken workers Linux runs first, so\n\
             the spread of `raw-shared` and CPU times below 1.2 times each other mean nothing here. Sleeps are compared where\n\
             no worker pushes a client off its core (see the wake-ups).\n\n";

    let is_quick = results.settings.get("rounds").is_some_and(|&rounds| rounds < 5.0);
    let rows = studies::run(if is_quick { CONNECTIONS_QUICK } else { CONNECTIONS });
    text += "## Sizes\n\n\
             Poisson arrivals that keep half of the cores busy, handlers of 200 us (exponential), connections that stay so\n\
             long that each worker has about 100. What `raw-pass` and `handoff/spread` pass on is not counted as moved.\n\n";
    let of = |study: &'static str| rows.iter().filter(move |row| row.study == study);
    let cases: [Plot; 5] = [
        ("jain", "Evenness of open connections (Jain's index), simulated", |row| row.jain, false),
        (
            "accept_p999",
            "Time to be accepted, 99.9 %, us, simulated",
            |row| row.accept_p999_us,
            true,
        ),
        (
            "accept_worst",
            "Time to be accepted, worst, us, simulated",
            |row| row.accept_worst_us,
            true,
        ),
        (
            "moves",
            "Hand-overs and moves in the wait queue a connection, simulated",
            |row| row.moves_per_connection,
            false,
        ),
        (
            "overhead",
            "CPU time a connection beside its handler, us, simulated",
            |row| row.overhead_us,
            true,
        ),
    ];
    for (name, title, figure, log) in cases {
        let line = |way: &str| Line {
            name: way.to_owned(),
            points: of("size")
                .filter(|row| row.way == way)
                .map(|row| (row.workers as f64, figure(row)))
                .collect(),
        };
        let lines: Vec<Line> = Way::ALL.iter().map(|(way, _)| line(way)).collect();
        let sizes = lines[0].points.iter().map(|&(workers, _)| number(workers));
        let head: Vec<String> = std::iter::once("workers".to_owned()).chain(sizes).collect();
        let body: Vec<Vec<String>> = lines
            .iter()
            .map(|line| {
                let figures = line.points.iter().map(|&(_, figure)| number(figure));
                std::iter::once(line.name.clone()).chain(figures).collect()
            })
            .collect();
        text += &format!("{title}:\n\n{}\n", table(&head, &body));
        let file = format!("simulated_{name}.svg");
        plots::lines(
            &plots.join(&file),
            title,
            ["workers (with up to 128 cores)", ""],
            log,
            &lines,
        )
        .map_err(|e| format!("{file}: {e}"))?;
        text += &format!("![{title}](benchmarks/{file})\n\n");
    }

    text += "## Shapes of arrivals and service\n\n\
             64 workers on 16 cores, half busy, short connections: 99.9 % of the answers came within so many us.\n\n";
    let cases: Vec<&String> = {
        let first = Way::ALL[0].0;
        of("shape").filter(|row| row.way == first).map(|row| &row.case).collect()
    };
    let ways = Way::ALL.map(|(way, _)| way);
    let head: Vec<String> = std::iter::once("").chain(ways).map(str::to_owned).collect();
    let body: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let figures = ways.map(|way| {
                let row = of("shape").find(|row| row.way == way && row.case == **case);
                row.map_or("-".to_owned(), |row| number(row.answer_p999_us.round()))
            });
            std::iter::once((*case).clone()).chain(figures).collect()
        })
        .collect();
    text += &table(&head, &body);
    text += "\n## Blocked workers\n\n\
             The same, and every 1000th request blocks its worker for 200 ms: how long clients wait to be accepted.\n\n";
    let body: Vec<Vec<String>> = of("blocked")
        .map(|row| {
            vec![
                row.way.clone(),
                number(row.accept_p999_us.round()),
                number(row.accept_worst_us.round()),
            ]
        })
        .collect();
    text += &table(&["", "99.9 %, us", "worst, us"].map(str::to_owned), &body);
    Ok(text)
}
