//! The command line and the environment.

use lexopt::prelude::*;
use std::env;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    Live,
    Once,
    Json,
    List,
}

pub struct Options {
    pub name: Option<String>,
    pub output: Output,
    pub interval: Duration,
    pub color: bool,
    /// Bars of letters, for terminals that know no others.
    pub ascii: bool,
}

const HELP: &str = "\
herdtop [options] [NAME]   shows what each worker of a herd does

NAME is the one that the server gave its herd (herd_config.name), or UID:NAME for
another user's. Without it: the only herd that runs.

  --name NAME        the same
  --list             list the herds on this machine
  --once             print the figures of one interval and end
  --json             the same as JSON
  --interval-ms N    time between two looks, 50 to 60000 (1000)
  --no-color         no colours (also: NO_COLOR in the environment)
  --ascii            bars of letters (also: a locale without UTF-8)
  --help, --version

Keys: s sort by the next column, r reverse, p or space pause, arrows scroll, q quit.
";

pub enum Asked {
    ToRun(Options),
    /// For this text only.
    ForText(String),
}

pub fn parse() -> Result<Asked, String> {
    parse_from(lexopt::Parser::from_env()).map_err(|error| format!("{error} (see --help)"))
}

fn parse_from(mut parser: lexopt::Parser) -> Result<Asked, lexopt::Error> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let mut options = Options {
        name: None,
        output: Output::Live,
        interval: Duration::from_millis(1000),
        color: set("NO_COLOR").is_none(),
        ascii: !speaks_utf8(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set)),
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("name") => options.name = Some(parser.value()?.string()?),
            Value(name) if options.name.is_none() => options.name = Some(name.string()?),
            Long("list") => options.output = Output::List,
            Long("once") if options.output == Output::Json => {}
            Long("once") => options.output = Output::Once,
            Long("json") => options.output = Output::Json,
            Long("interval-ms") => {
                let ms: u64 = parser.value()?.parse()?;
                if !(50..=60_000).contains(&ms) {
                    return Err("--interval-ms is 50 to 60000".into());
                }
                options.interval = Duration::from_millis(ms);
            }
            Long("no-color") => options.color = false,
            Long("ascii") => options.ascii = true,
            Long("help") | Short('h') => {
                return Ok(Asked::ForText(HELP.to_owned()));
            }
            Long("version") => {
                let version = env!("CARGO_PKG_VERSION");
                return Ok(Asked::ForText(format!("herdtop {version}\n")));
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Asked::ToRun(options))
}

fn speaks_utf8(locale: Option<std::ffi::OsString>) -> bool {
    let locale = locale.unwrap_or_default().to_string_lossy().to_ascii_uppercase();
    locale.contains("UTF-8") || locale.contains("UTF8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, lexopt::Error> {
        match parse_from(lexopt::Parser::from_args(arguments))? {
            Asked::ToRun(options) => Ok(options),
            Asked::ForText(text) => panic!("{text}"),
        }
    }

    #[test]
    fn arguments() {
        let options = parsed(&["web", "--json", "--once", "--interval-ms", "250", "--no-color"]);
        let options = options.unwrap();
        assert_eq!((options.name.as_deref(), options.output), (Some("web"), Output::Json));
        assert_eq!((options.interval.as_millis(), options.color), (250, false));
        assert_eq!(parsed(&["--name", "33:web"]).unwrap().name.as_deref(), Some("33:web"));
        for bad in [["a", "b"], ["--interval-ms", "10"], ["--interval-ms", "x"], ["a", "--colour"]]
        {
            assert!(parsed(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn locales() {
        for (locale, utf8) in [("C.UTF-8", true), ("de_DE.utf8", true), ("C", false), ("", false)] {
            assert_eq!(speaks_utf8(Some(locale.into())), utf8, "{locale}");
        }
        assert!(!speaks_utf8(None));
    }
}
