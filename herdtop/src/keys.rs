//! Keys out of the bytes that a terminal sends (ECMA-48 5.4, xterm's "PC-style function keys"). Pure.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Quit,
    Pause,
    Sort,
    Reverse,
    Redraw,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// What was read of a key that is sent as several bytes: over a slow line they come one by one. That a
/// lone Escape could be a key as well is why it is none here: nobody has to guess how long to wait.
#[derive(Default)]
enum Begun {
    #[default]
    Nothing,
    Escape,
    /// ESC O: a function key's name follows.
    Single,
    /// ESC [: parameters follow, and a letter or '~' that ends it. The first of them, while it lasts.
    Control {
        first: u32,
        is_first: bool,
    },
}

#[derive(Default)]
pub struct Keys {
    begun: Begun,
}

impl Keys {
    pub fn of(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|&byte| self.after(byte)).collect()
    }

    fn after(&mut self, byte: u8) -> Option<Key> {
        let begun = std::mem::take(&mut self.begun);
        match (begun, byte) {
            (_, 0x1b) => self.begun = Begun::Escape,
            (Begun::Escape, b'[') => self.begun = Begun::Control { first: 0, is_first: true },
            (Begun::Escape, b'O') => self.begun = Begun::Single,
            (Begun::Control { first, is_first: true }, b'0'..=b'9') => {
                let first = first.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                self.begun = Begun::Control { first, is_first: true };
            }
            (Begun::Control { first, .. }, 0x20..=0x3f) => {
                self.begun = Begun::Control { first, is_first: false };
            }
            (Begun::Control { first, .. }, 0x40..=0x7e) => return named(byte, first),
            (Begun::Single, 0x40..=0x7e) => return named(byte, 0),
            _ => return plain(byte),
        }
        None
    }
}

fn named(last: u8, first: u32) -> Option<Key> {
    match (last, first) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'H', _) | (b'~', 1 | 7) => Some(Key::Home),
        (b'F', _) | (b'~', 4 | 8) => Some(Key::End),
        (b'~', 5) => Some(Key::PageUp),
        (b'~', 6) => Some(Key::PageDown),
        _ => None,
    }
}

fn plain(byte: u8) -> Option<Key> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const CTRL_L: u8 = 12;
    match byte {
        b'q' | b'Q' | CTRL_C | CTRL_D => Some(Key::Quit),
        b'p' | b'P' | b' ' => Some(Key::Pause),
        b's' | b'S' => Some(Key::Sort),
        b'r' | b'R' => Some(Key::Reverse),
        CTRL_L => Some(Key::Redraw),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys_in_one_piece_or_one_by_one() {
        use Key::*;
        let table: [(&[u8], &[Key]); 15] = [
            (b"q", &[Quit]),
            (b"\x03\x04", &[Quit, Quit]),
            (b"sr p\x0c", &[Sort, Reverse, Pause, Pause, Redraw]),
            (b"\x1b[A\x1b[B", &[Up, Down]),
            (b"\x1bOA\x1bOB\x1bOH\x1bOF", &[Up, Down, Home, End]),
            (
                b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[H\x1b[F",
                &[PageUp, PageDown, Home, End, Home, End],
            ),
            (b"\x1b[1;5A", &[Up]),
            // Not ours: their letters are no keys of their own.
            (b"\x1b[15~\x1b[200~\x1b[99999999999999999999~\x1b[?1;2q\x1b[1;2s", &[]),
            // The Linux console's F1 is ESC [ [ A.
            (b"\x1b[[A", &[]),
            (b"\x1b", &[]),
            (b"\x1b\x1b[A", &[Up]),
            // Escape, and then a key; also Alt with it.
            (b"\x1bq", &[Quit]),
            (b"\x1b[\x03", &[Quit]),
            ("größe".as_bytes(), &[Reverse]),
            (b"\0\xff\x80\x1b[\xffA", &[]),
        ];
        for (bytes, keys) in table {
            assert_eq!(Keys::default().of(bytes), keys, "{:?}", bytes.escape_ascii().to_string());
            let mut slowly = Keys::default();
            let found: Vec<Key> = bytes.chunks(1).flat_map(|byte| slowly.of(byte)).collect();
            assert_eq!(found, keys, "one by one: {:?}", bytes.escape_ascii().to_string());
        }
    }
}
