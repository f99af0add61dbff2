//! A herd's file with any content, looked at from outside: each call comes back with what it says it
//! returns, whatever the owner of the file does meanwhile.

use crate::abi::*;
use crate::ffi::herd::{herd_balance, herd_create, herd_destroy, herd_mode};
use crate::ffi::observe::{herd_is_alive, herd_open, herd_slots};
use crate::ffi::stats::{
    herd_stats_histogram, herd_stats_text, herd_stats_total, herd_stats_worker,
};
use crate::shm::region::place_of;
use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File, OpenOptions};
use std::mem::size_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::ptr;
use std::sync::OnceLock;

const SLOTS: usize = 2;

/// What a file that is cut short under the observer's eyes gives.
const DAMAGED: [c_int; 2] = [0, HERD_EDAMAGED];

/// A good file of a herd with two slots.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let name = format!("fuzz-good-{}", std::process::id());
        let path = place_of(None, &name).to_string();
        let name = CString::new(name).unwrap();
        let config = herd_config {
            size: size_of::<herd_config>() as u32,
            name: name.as_ptr(),
            max_workers: SLOTS as u32,
            ..crate::ffi::config::CONFIG_DEFAULTS
        };
        let mut herd = ptr::null_mut();
        assert_eq!(herd_create(&config, &mut herd), 0);
        let content = fs::read(path).unwrap();
        assert_eq!(herd_destroy(herd), 0);
        content
    })
}

pub fn drive(bytes: &[u8]) {
    let name = format!("fuzz-{}", std::process::id());
    let path = place_of(None, &name).to_string();
    let _ = fs::remove_file(&path);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = made.unwrap();
    let mut bytes = bytes.iter().copied();
    // Rather often something that begins as a good one.
    if bytes.next().unwrap_or(0) < 32 {
        file.write_all_at(&bytes.by_ref().collect::<Vec<u8>>(), 0).unwrap();
    } else {
        file.write_all_at(good(), 0).unwrap();
        (0..bytes.next().unwrap_or(0) % 8).for_each(|_| overwrite(&file, &mut bytes));
    }
    look(&CString::new(name).unwrap(), &file, &mut bytes);
    fs::remove_file(&path).unwrap();
}

fn place(bytes: &mut impl Iterator<Item = u8>) -> u64 {
    let [high, low] = [0, 0].map(|_| u64::from(bytes.next().unwrap_or(0)));
    // What it says of itself counts most.
    if high < 128 { low % 10 * 4 } else { (high << 8 | low) % (good().len() as u64 + 1) }
}

fn overwrite(file: &File, bytes: &mut impl Iterator<Item = u8>) {
    let at = place(bytes);
    let patch: Vec<u8> = match bytes.next().unwrap_or(0) {
        number @ 0..64 => u32::from(number % 8).to_ne_bytes().to_vec(),
        64..128 => bytes.by_ref().take(8).collect(),
        128..255 => bytes.by_ref().take(1).collect(),
        255 => vec![0xff; good().len() - (at as usize).min(good().len())],
    };
    file.write_all_at(&patch, at).unwrap();
}

fn look(name: &CString, file: &File, bytes: &mut impl Iterator<Item = u8>) {
    let mut observer = ptr::null_mut();
    let code = herd_open(name.as_ptr(), &mut observer);
    assert!([0, HERD_EDAMAGED, HERD_EVERSION, -libc::ENOENT].contains(&code), "{code}");
    assert_eq!(observer.is_null(), code != 0);
    if code != 0 {
        return;
    }
    let slots = herd_slots(observer);
    assert_eq!(slots, SLOTS as c_int, "by its size");
    let mut is_whole = true;
    loop {
        look_at_figures(observer, is_whole);
        match bytes.next() {
            None => break,
            Some(0..64) => {
                file.set_len(place(bytes)).unwrap();
                is_whole = false;
            }
            Some(64..96) => file.set_len(good().len() as u64 + 7).unwrap(),
            Some(_) => overwrite(file, bytes),
        }
    }
    assert_eq!(herd_destroy(observer), 0);
}

fn look_at_figures(observer: *mut herd, is_whole: bool) {
    let expected = |code: c_int| {
        let possible = if is_whole { &DAMAGED[..1] } else { &DAMAGED };
        assert!(possible.contains(&code), "{code}");
    };
    let mut stats = herd_stats { size: size_of::<herd_stats>() as u32, ..Default::default() };
    let mut times = herd_histogram::default();
    expected(herd_stats_total(observer, &mut stats));
    assert!((-1..SLOTS as c_int).contains(&stats.holder));
    for slot in 0..SLOTS as c_int {
        expected(herd_stats_worker(observer, slot, &mut stats));
        assert!((-1..SLOTS as c_int).contains(&stats.holder) && stats.workers <= 1);
        assert!(stats.state <= HERD_STATE_RESTING);
    }
    for slot in HERD_ALL_SLOTS..SLOTS as c_int {
        expected(herd_stats_histogram(observer, slot, HERD_HISTOGRAM_TURN_WORK, &mut times));
    }
    assert_eq!(herd_stats_worker(observer, SLOTS as c_int, &mut stats), -libc::EINVAL);
    assert!((0..=1).contains(&herd_is_alive(observer)));
    assert!(
        (HERD_MODE_EXCLUSIVE as c_int..=HERD_MODE_SHARED as c_int).contains(&herd_mode(observer))
    );
    assert!(herd_balance(observer) >= HERD_BALANCE_SPREAD as c_int);
    let room = herd_stats_text(observer, ptr::null_mut(), 0);
    if room < 0 {
        return expected(room);
    }
    let mut text = vec![0u8; room as usize];
    let length = herd_stats_text(observer, text.as_mut_ptr().cast::<c_char>(), text.len());
    expected(length.min(0));
    assert!(text.is_ascii());
}
