//! The rules of the house, as far as a program can check them: layers import downwards only, unsafe
//! code stays where it belongs and says why it is sound, files say what they are for and stay short.

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest. A layer imports only layers before it (and itself).
const LAYERS: [&str; 14] = [
    "abi", "atomics", "sys", "log", "shm", "reactor", "accept", "mode", "settings", "observe",
    "herd", "worker", "ffi", "fuzzing",
];

const UNSAFE_ALLOWED: [&str; 4] = ["sys", "shm", "reactor", "ffi"];

const LONGEST_FILE: usize = 400;

struct Source {
    path: PathBuf,
    layer: String,
    text: String,
}

impl Source {
    /// The part before the file's unit tests, which may use more.
    fn code(&self) -> &str {
        self.text.split("#[cfg(test)]").next().unwrap_or_default()
    }

    fn say(&self, line: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path.display(), line + 1)
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let inside = path.strip_prefix(&root).unwrap();
                let layer = inside.iter().next().unwrap().to_str().unwrap();
                let layer = layer.trim_end_matches(".rs").to_owned();
                found.push(Source { text: fs::read_to_string(&path).unwrap(), layer, path });
            }
        }
    }
    assert!(found.len() > 20, "the sources were not found");
    found
}

fn report(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

fn rank(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|&known| known == layer)
}

#[test]
fn layers_import_downwards_only() {
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| source.layer != "lib") {
        let Some(own) = rank(&source.layer) else {
            violations.push(source.say(0, "belongs to no layer"));
            continue;
        };
        for (number, line) in source.code().lines().enumerate() {
            for imported in line.split("crate::").skip(1) {
                let name = imported.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                match rank(name.unwrap_or_default()) {
                    Some(rank) if rank <= own => {}
                    _ => violations.push(source.say(number, line.trim())),
                }
            }
        }
    }
    report(violations);
}

#[test]
fn unsafe_code_is_where_it_belongs_and_says_why_it_is_sound() {
    let mut violations = Vec::new();
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            // `#[unsafe(no_mangle)]` marks exports; a lint is named in lib.rs.
            let is_unsafe =
                code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe")
                    && !code.contains("#[unsafe(");
            if !is_unsafe {
                continue;
            }
            if !UNSAFE_ALLOWED.contains(&source.layer.as_str()) {
                violations.push(source.say(number, "unsafe code in this layer"));
            }
            // The line's own statement may have begun a few lines above.
            let above = lines[number.saturating_sub(6)..=number].iter();
            if !above.clone().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                violations.push(source.say(number, "unsafe code without a SAFETY comment"));
            }
        }
    }
    report(violations);
}

#[test]
fn files_say_what_they_are_for_and_stay_short() {
    let mut violations = Vec::new();
    for source in sources() {
        if !source.text.starts_with("//! ") {
            violations.push(source.say(0, "does not say what it is for"));
        }
        let lines = source.code().lines().count();
        if lines > LONGEST_FILE {
            violations.push(source.say(lines, "is too long to read in one sitting"));
        }
    }
    report(violations);
}
