//! Which library this is.

use std::ffi::{CStr, c_char};

/// Major version: raised when programs have to be changed.
pub const HERD_VERSION_MAJOR: u32 = 0;
/// Minor version: raised when something was added; before 1.0 also when programs have to be changed.
pub const HERD_VERSION_MINOR: u32 = 1;
/// Patch version.
pub const HERD_VERSION_PATCH: u32 = 0;
/// The version of this header, as major * 10000 + minor * 100 + patch.
pub const HERD_VERSION_NUMBER: u32 = 100;
/// Version of the binary interface: the number in `libherd.so.N`.
pub const HERD_ABI: u32 = 0;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => unreachable!(),
    };

/// The version of the library that runs, such as "0.1.0". Static text. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_version_string() -> *const c_char {
    VERSION.as_ptr()
}

/// The version of the library that runs, as major * 10000 + minor * 100 + patch, to compare with
/// `HERD_VERSION_NUMBER` of the header. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_version_number() -> u32 {
    HERD_VERSION_NUMBER
}

/// The version of the binary interface of the library that runs; equal to `HERD_ABI` of the header,
/// or the program must not go on. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_abi() -> u32 {
    HERD_ABI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_package() {
        let numbers = format!("{HERD_VERSION_MAJOR}.{HERD_VERSION_MINOR}.{HERD_VERSION_PATCH}");
        assert_eq!(VERSION.to_str(), Ok(numbers.as_str()));
        let number = HERD_VERSION_MAJOR * 10000 + HERD_VERSION_MINOR * 100 + HERD_VERSION_PATCH;
        assert_eq!(HERD_VERSION_NUMBER, number);
        assert!(include_str!("../../build.rs").contains(&format!("const ABI: u32 = {HERD_ABI};")));
        let line = format!("#define HERD_VERSION_STRING \"{numbers}\"\n");
        assert!(include_str!("../../include/herd.h").contains(&line));
    }
}
