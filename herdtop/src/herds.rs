//! The herds on this machine: their names are those of files in /dev/shm.

use crate::snapshot::Herd;
use libherd::ffi::observe::is_name;
use std::fs;

/// Names as `herd_open` takes them, of all users.
fn names() -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| name_of(entry.file_name().to_str()?)).collect();
    names.sort();
    names
}

/// "herd-0-web" is the herd "0:web". Anybody can put files there, of any name: what no herd can have
/// written is left out, and so is what a terminal would obey.
fn name_of(file: &str) -> Option<String> {
    let (user, name) = file.strip_prefix("herd-")?.split_once('-')?;
    let is_id = user.parse::<u32>().is_ok_and(|id| id.to_string() == user);
    (is_id && is_name(name)).then(|| format!("{user}:{name}"))
}

/// A line for each.
pub fn list() -> String {
    let line = |name: String| match Herd::open(&name) {
        Ok(herd) if herd.is_alive() => format!("{name}\n"),
        Ok(_) => format!("{name}  (ended)\n"),
        Err(why) => format!("{why}\n"),
    };
    names().into_iter().map(line).collect()
}

pub fn the_only_one() -> Result<String, String> {
    let opened = names().into_iter().filter_map(|name| Some((Herd::open(&name).ok()?, name)));
    let (alive, ended): (Vec<_>, Vec<_>) = opened.partition(|(herd, _)| herd.is_alive());
    let names = |herds: Vec<(Herd, String)>| herds.into_iter().map(|(_, name)| name).collect();
    let (mut alive, ended): (Vec<String>, Vec<String>) = (names(alive), names(ended));
    match (alive.pop(), alive.is_empty()) {
        (Some(name), true) => Ok(name),
        (None, _) if ended.is_empty() => {
            Err("no herd with a name runs here (herd_config.name)".to_owned())
        }
        (None, _) => Err(format!("no herd runs here; ended: {} (herdtop NAME)", ended.join(", "))),
        (Some(last), false) => {
            Err(format!("which one? {} or {last}: herdtop NAME", alive.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let table = [
            ("herd-0-web", Some("0:web")),
            ("herd-1000-a-b", Some("1000:a-b")),
            ("herd-x-web", None),
            ("herd-0", None),
            ("sem.herd-0-web", None),
            ("herd-0-", None),
            ("herd-+0-web", None),
            ("herd-007-web", None),
            ("herd-0-a b", None),
            ("herd-0-\u{1b}]0;title\u{7}", None),
            ("herd-0-web\nroot", None),
            (&format!("herd-0-{}", "x".repeat(64)), None),
        ];
        for (file, name) in table {
            assert_eq!(name_of(file).as_deref(), name, "{file}");
        }
    }
}
