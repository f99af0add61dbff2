//! Measuring: servers are started, driven from outside, and what comes out is kept. The small programs
//! that drive and look are in bench/ and c_examples/load/; here is only who is driven when.

mod beyond;
pub mod contender;
mod parts;
pub mod proc;
mod steps;

use crate::figures::{Machine, Results};
use contender::{HERD, HERD_OTHERS, LIBRARIES, NGINX, Places, RAW, Server, Setup, VARIANTS};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// How long and how often.
#[derive(Clone, Copy)]
pub struct Pace {
    pub rounds: usize,
    pub crash_rounds: usize,
    pub short_rounds: usize,
    pub short_s: f64,
    pub rate_s: f64,
    pub wait_ms: u32,
    pub crash_ms: u32,
    pub wakeups: u32,
    pub idle_s: f64,
    pub growth_rounds: usize,
    /// Half a minute under callgrind.
    pub counts_instructions: bool,
}

pub const FULL: Pace = Pace {
    rounds: 5,
    crash_rounds: 5,
    short_rounds: 11,
    short_s: 0.4,
    rate_s: 1.0,
    wait_ms: 3000,
    crash_ms: 300,
    wakeups: 120,
    idle_s: 5.0,
    growth_rounds: 5,
    counts_instructions: true,
};

pub const QUICK: Pace = Pace {
    rounds: 2,
    crash_rounds: 1,
    short_rounds: 2,
    short_s: 0.2,
    rate_s: 0.3,
    wait_ms: 600,
    crash_ms: 300,
    wakeups: 60,
    idle_s: 2.0,
    growth_rounds: 1,
    counts_instructions: false,
};

/// Which part of it all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What the library promises, and the peers that the promises name.
    Promises,
    /// All contenders.
    All,
}

/// Where the crash rows set it, to keep them short; the default elsewhere.
pub const CRASH_ACCEPT_DELAY_MS: u32 = 100;
pub const WORKERS: usize = 4;
pub const BURN_US: u32 = 500;
pub const LISTENERS: [u32; 4] = [1, 16, 256, 1000];
pub const GROWN_WORKERS: [usize; 4] = [1, 4, 16, 64];
pub const GROWN_LISTENERS: [usize; 4] = [1, 16, 256, 1000];

/// For what does not depend on how accepts are shared: one of each kind.
const KEEPERS: [&str; 9] = [
    "exclusive/spread",
    "mutex/spread",
    "reuseport/spread",
    "raw-exclusive",
    "raw-mutex",
    "nginx-rotate",
    "libevent-reuseport",
    "libev-reuseport",
    "libuv-reuseport",
];

/// For latency: every way of sharing accepts.
const LATE: [&str; 17] = [
    "exclusive/spread",
    "mutex/spread",
    "mutex/pack",
    "shared/pack",
    "reuseport/spread",
    "handoff/spread",
    "raw-shared",
    "raw-exclusive",
    "raw-rotate",
    "raw-mutex",
    "raw-reuseport",
    "raw-pass",
    "nginx-mutex",
    "nginx-rotate",
    "nginx-reuseport",
    "libevent-shared",
    "libuv-shared",
];

/// Of the small servers on libraries: their masters and workers are all alike.
const CRASHERS: [&str; 2] = ["libevent-shared", "libuv-reuseport"];

/// In the steps that grow the number of listeners: who can have many.
const LISTENERS_OF: [&str; 4] = ["exclusive/spread", "mutex/spread", "nginx-mutex", "nginx-rotate"];

/// In steps that grow the number of workers.
const GROWERS: [&str; 8] = [
    "exclusive/spread",
    "mutex/spread",
    "reuseport/spread",
    "raw-shared",
    "raw-exclusive",
    "raw-rotate",
    "raw-mutex",
    "raw-reuseport",
];

pub struct Bench {
    places: Places,
    pace: Pace,
    extent: Extent,
    results: Results,
    servers: BTreeMap<String, Server>,
    begun: Instant,
}

fn first_line(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|o| [o.stdout, o.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("none").to_owned()
}

impl Bench {
    pub fn new(build: &Path, extent: Extent, pace: Pace) -> Result<Bench, String> {
        let scratch = std::env::temp_dir().join(format!("herd-bench.{}", std::process::id()));
        fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
        let build = build.canonicalize().map_err(|e| format!("{}: {e}", build.display()))?;
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let machine = Machine {
            cpu: model.unwrap_or("unknown").trim_start_matches(['\t', ' ', ':']).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            compiler: first_line("cc", "--version"),
            nginx: contender::nginx()
                .map_or("none".to_owned(), |path| first_line(&path.to_string_lossy(), "-v")),
            load_average: [proc::load_average(), String::new()],
            seconds: 0.0,
        };
        let settings = [
            ("rounds", pace.rounds as f64),
            ("crash_rounds", pace.crash_rounds as f64),
            ("short_rounds", pace.short_rounds as f64),
            ("idle_s", pace.idle_s),
            ("workers", WORKERS as f64),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
        Ok(Bench {
            places: Places { build, scratch },
            pace,
            extent,
            results: Results { machine, settings, ..Results::default() },
            servers: BTreeMap::new(),
            begun: Instant::now(),
        })
    }

    fn say(&self, what: &str) {
        eprintln!("bench: {:4.0} s: {what}", self.begun.elapsed().as_secs_f64());
    }

    fn fail(&mut self, what: String) {
        self.say(&format!("FAILED: {what}"));
        self.results.failures.push(what);
    }

    /// `always`, and with all contenders `more` as well.
    fn names(&self, always: &[&[&str]], more: &[&[&str]]) -> Vec<String> {
        let more: &[&[&str]] = if self.extent == Extent::All { more } else { &[] };
        let mut names: Vec<String> = Vec::new();
        for name in always.iter().chain(more).copied().flatten() {
            if !names.iter().any(|known| known == name) {
                names.push((*name).to_owned());
            }
        }
        names
    }

    fn start(&mut self, names: &[String], setup: Setup) {
        let (number, Setup { workers, listeners, .. }) = (names.len(), setup);
        self.say(&format!("{number} servers, workers: {workers}, listeners: {listeners}"));
        for name in names {
            match contender::start(&self.places, name, setup) {
                Ok(server) => {
                    self.servers.insert(name.clone(), server);
                }
                Err(why) => {
                    let line = format!("{name}: {why}");
                    if !self.results.skipped.contains(&line) {
                        self.say(&format!("skipped {line}"));
                        self.results.skipped.push(line);
                    }
                }
            }
        }
    }

    /// Rounds in which those that were started take turns. Before each the lock has its own: what else the
    /// machine does changes its figures for seconds, so they are taken at many moments.
    fn take_turns(
        &mut self,
        what: &str,
        rounds: usize,
        names: &[String],
        mut step: impl FnMut(&mut Bench, &str, String, u32) -> Result<(), String>,
    ) {
        self.say(&format!("{what}, {rounds} rounds"));
        for _ in 0..rounds {
            self.measure_lock();
            for name in names {
                let Some(server) = self.servers.get(name) else { continue };
                let (address, master) = (server.address.clone(), server.master);
                if let Err(why) = step(self, name, address, master) {
                    self.fail(format!("{what}, {name}: {why}"));
                }
            }
        }
    }

    /// Runs one of the small programs to its end.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.places.program(program));
        let output = command.args(arguments).stdin(Stdio::null()).output();
        let Output { status, stdout, stderr } = output.map_err(|e| format!("{program}: {e}"))?;
        let text = String::from_utf8_lossy(&stdout).into_owned();
        if status.success() {
            return Ok(text);
        }
        let said = String::from_utf8_lossy(&stderr);
        let errors = text.lines().find(|line| line.contains("\"errors\"")).unwrap_or_default();
        let said = said.lines().last().unwrap_or_default();
        Err(format!("{program} {}: {status} {said} {}", arguments.join(" "), errors.trim()))
    }

    /// All of it.
    pub fn measure(mut self) -> Results {
        self.measure_parts();
        let peers: &[&[&str]] = &[&RAW, &NGINX, &LIBRARIES, &HERD_OTHERS];

        for idle in [8, 64] {
            let names = self.names(&[&HERD, &["raw-exclusive", "raw-rotate"]], &[&RAW]);
            self.start(&names, Setup::of(idle));
            self.measure_wakeups(idle, &names);
            if idle == 64 {
                self.measure_idle(idle);
            }
            self.servers.clear();
        }
        for idle in [4, 16] {
            let names = self.names(&[&HERD], &[]);
            self.start(&names, Setup::of(idle));
            self.measure_idle(idle);
            self.servers.clear();
        }

        let promised: &[&str] = &["raw-rotate", "raw-exclusive", "raw-mutex"];
        let main = self.names(&[&HERD, promised], peers);
        let with_variants = self.names(&[&HERD, promised, &VARIANTS], peers);
        self.start(&with_variants, Setup::of(WORKERS));
        self.measure_short("", self.pace.short_rounds, &with_variants);
        self.measure_hold(&main);
        let more: &[&str] =
            &["raw-reuseport", "raw-pass", "reuseport/spread", "handoff/spread", "nginx-mutex"];
        let names = self.names(&[&HERD, promised], &[more]);
        self.measure_stall(&names);
        if self.extent == Extent::All {
            self.measure_keep_alive("", self.pace.rounds, &KEEPERS.map(str::to_owned));
            self.measure_latency(&LATE.map(str::to_owned));
            self.measure_system_calls(&main);
        }
        self.servers.clear();

        let names = self.names(&[&HERD, &["raw-exclusive", "raw-mutex"]], &[&RAW]);
        let burn = self.places.program("bench/burn.so").to_string_lossy().into_owned();
        let burn_us = BURN_US.to_string();
        let environment = &[("LD_PRELOAD", burn.as_str()), ("BURN_US", burn_us.as_str())];
        self.start(&names, Setup { environment, ..Setup::of(WORKERS) });
        self.measure_burn(&names);
        self.servers.clear();

        let names =
            self.names(&[&HERD, &["raw-exclusive"]], &[&RAW, &HERD_OTHERS, &NGINX, &CRASHERS]);
        self.measure_crash(&names);
        self.measure_event();
        if self.extent == Extent::All {
            self.measure_workers();
            self.measure_listeners();
            self.measure_memory(&KEEPERS.map(str::to_owned));
            if self.pace.counts_instructions {
                self.count_instructions();
            }
        }
        self.say("done");
        self.results.machine.load_average[1] = proc::load_average();
        self.results.machine.seconds = self.begun.elapsed().as_secs_f64();
        let _ = fs::remove_dir_all(&self.places.scratch);
        std::mem::take(&mut self.results)
    }
}
