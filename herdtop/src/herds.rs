//! The herds on this machine: their names are those of files in /dev/shm.

use crate::snapshot::Herd;
use std::fs;

/// Names as `herd_open` takes them, of all users.
fn names() -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| name_of(entry.file_name().to_str()?)).collect();
    names.sort();
    names
}

/// "herd-0-web" is the herd "0:web".
fn name_of(file: &str) -> Option<String> {
    let (user, name) = file.strip_prefix("herd-")?.split_once('-')?;
    user.parse::<u32>().ok().map(|user| format!("{user}:{name}"))
}

pub fn print() {
    for name in names() {
        match Herd::open(&name) {
            Ok(herd) if herd.is_alive() => println!("{name}"),
            Ok(_) => println!("{name}  (ended)"),
            Err(why) => println!("{why}"),
        }
    }
}

pub fn the_only_one() -> Result<String, String> {
    let is_alive = |name: &String| Herd::open(name).is_ok_and(|herd| herd.is_alive());
    let mut alive: Vec<String> = names().into_iter().filter(is_alive).collect();
    match (alive.pop(), alive.is_empty()) {
        (Some(name), true) => Ok(name),
        (None, _) => Err("no herd with a name runs here (herd_config.name)".to_owned()),
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
        ];
        for (file, name) in table {
            assert_eq!(name_of(file).as_deref(), name, "{file}");
        }
    }
}
