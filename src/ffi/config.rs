//! Initialising the structs that the host fills.

use super::fence::{code, fence};
use super::sized;
use crate::abi::*;
use std::ffi::c_int;
use std::mem::size_of;
use std::ptr;

/// Every default as zero, which the library replaces: what `HERD_CONFIG_INIT` says.
pub(crate) const CONFIG_DEFAULTS: herd_config = herd_config {
    size: size_of::<herd_config>() as u32,
    mode: HERD_MODE_AUTO,
    balance: HERD_BALANCE_DEFAULT,
    max_workers: 0,
    worker_connections: 0,
    accept_delay_ms: 0,
    handover_delay_us: 0,
    accept_batch: 0,
    name: ptr::null(),
    log: None,
    log_data: ptr::null_mut(),
    balance_callback: None,
    balance_data: ptr::null_mut(),
    pick_callback: None,
    pick_data: ptr::null_mut(),
    acceptor_slot: 0,
    reserved: 0,
};

pub(super) const LISTEN_OPTIONS_DEFAULTS: herd_listen_options = herd_listen_options {
    size: size_of::<herd_listen_options>() as u32,
    backlog: 0,
    flags: 0,
    unix_mode: 0,
};

/// Sets every member of `config` to its default, as `HERD_CONFIG_INIT` does. `size` is
/// `sizeof(struct herd_config)`: so many bytes are written. Any thread. Since 0.1.
///
/// Returns 0; -EINVAL: `config` is NULL; HERD_EABI: a `size` that is not possible.
#[unsafe(no_mangle)]
pub extern "C" fn herd_config_init(config: *mut herd_config, size: usize) -> c_int {
    code(fence(|| sized::init(config, CONFIG_DEFAULTS, size).map(|()| 0), |_| ()))
}

/// Sets every member of `options` to its default, as `HERD_LISTEN_OPTIONS_INIT` does. `size` is
/// `sizeof(struct herd_listen_options)`: so many bytes are written. Any thread. Since 0.1.
///
/// Returns 0; -EINVAL: `options` is NULL; HERD_EABI: a `size` that is not possible.
#[unsafe(no_mangle)]
pub extern "C" fn herd_listen_options_init(
    options: *mut herd_listen_options,
    size: usize,
) -> c_int {
    code(fence(|| sized::init(options, LISTEN_OPTIONS_DEFAULTS, size).map(|()| 0), |_| ()))
}
