//! From the opaque pointers of C to the herd and its workers, with the checks that every call makes.

use super::fence::{code, fence};
use crate::abi;
use crate::herd::Herd;
use crate::shm::Source;
use crate::shm::observed::Observed;
use crate::sys::{Error, Result};
use crate::worker::Worker;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

/// What `struct herd *` points to.
pub enum AnyHerd {
    /// From `herd_create`: of this process or inherited by it.
    Own(HerdHandle),
    /// From `herd_open`.
    Observed(Box<Observed>),
}

pub struct HerdHandle {
    pub herd: Arc<Herd>,
    /// One for each slot, and as long-lived as the herd, so that a call on a destroyed worker finds
    /// out instead of reading freed memory.
    workers: Box<[WorkerHandle]>,
}

/// What `struct herd_worker *` points to.
#[derive(Default)]
pub struct WorkerHandle {
    /// Changed only by whoever has claimed the slot.
    worker: UnsafeCell<Option<Box<Worker>>>,
}

impl HerdHandle {
    pub fn new(herd: Herd) -> HerdHandle {
        let slots = herd.settings.max_workers;
        HerdHandle {
            herd: Arc::new(herd),
            workers: (0..slots).map(|_| WorkerHandle::default()).collect(),
        }
    }

    fn worker_handle(&self, slot: u16) -> *mut abi::herd_worker {
        (&raw const self.workers[usize::from(slot)]).cast_mut().cast()
    }

    pub fn create_worker(&self, slot: Option<u16>) -> Result<*mut abi::herd_worker> {
        let worker = Worker::new(&self.herd, slot, |slot| self.worker_handle(slot))?;
        let slot = worker.slot_number();
        let place = self.workers[usize::from(slot)].worker.get();
        // SAFETY: this thread has just claimed the slot, so nobody else changes its place.
        let former = unsafe { (*place).replace(Box::new(worker)) };
        // A parent's, which this process inherited: freed when nobody can find it there any more.
        drop(former);
        Ok(self.worker_handle(slot))
    }

    /// Workers of this process would not see a change of the herd.
    pub fn refuse_with_workers(&self) -> Result<()> {
        let has_workers =
            self.workers.iter().any(|handle| handle.worker().is_ok_and(Worker::is_of_this_process));
        if has_workers { Err(Error::BUSY) } else { Ok(()) }
    }
}

impl WorkerHandle {
    fn worker(&self) -> Result<&Worker> {
        // SAFETY: the place changes only when its worker is made or destroyed, which the header
        // forbids while other calls on it run.
        unsafe { (*self.worker.get()).as_deref() }.ok_or(Error::DESTROYED)
    }

    fn destroy(&self) -> Result<()> {
        if self.worker()?.is_in_loop() {
            return Err(Error::REENTERED);
        }
        // SAFETY: as above; no callback of the worker is running.
        let taken = unsafe { (*self.worker.get()).take() };
        // Dropped here.
        taken.map_or(Ok(()), |mut worker| worker.adopt())
    }
}

/// The herd behind a pointer.
fn herd_ref<'a>(herd: *const abi::herd) -> Result<&'a AnyHerd> {
    // SAFETY: null is told apart; otherwise a pointer that herd_create or herd_open gave.
    unsafe { herd.cast::<AnyHerd>().as_ref() }.ok_or(Error::INVALID)
}

fn handle_ref<'a>(worker: *const abi::herd_worker) -> Result<&'a WorkerHandle> {
    // SAFETY: null is told apart; otherwise a pointer that herd_worker_create gave.
    unsafe { worker.cast::<WorkerHandle>().as_ref() }.ok_or(Error::INVALID)
}

/// The body of an export that works on a herd.
pub fn with_herd(herd: *const abi::herd, body: impl FnOnce(&HerdHandle) -> Result<usize>) -> c_int {
    with_any_herd(herd, |herd| match herd {
        AnyHerd::Own(handle) => body(handle),
        AnyHerd::Observed(_) => Err(Error::OBSERVER),
    })
}

/// The body of an export that only reads a herd's figures: one of this process, or one that is
/// observed.
pub fn with_source(
    herd: *const abi::herd,
    body: impl FnOnce(&dyn Source) -> Result<usize>,
) -> c_int {
    with_any_herd(herd, |herd| match herd {
        AnyHerd::Own(handle) => body(&*handle.herd.region),
        AnyHerd::Observed(observed) => body(&**observed),
    })
}

pub fn with_any_herd(
    herd: *const abi::herd,
    body: impl FnOnce(&AnyHerd) -> Result<usize>,
) -> c_int {
    let herd = match herd_ref(herd) {
        Ok(herd) => herd,
        Err(error) => return error.code(),
    };
    let log = |panic: &str| {
        if let AnyHerd::Own(handle) = herd {
            handle.herd.log.error(format_args!("{panic}"));
        }
    };
    code(fence(|| body(herd), log))
}

/// What a call does when nothing is unusual: a few loads and a compare-and-swap, which cannot panic and
/// leave errno alone, so that it needs no fence. None: nothing was done, and the call is made in full.
#[inline(always)]
pub fn quickly(
    worker: *mut abi::herd_worker,
    body: impl FnOnce(&Worker) -> Option<bool>,
) -> Option<c_int> {
    let worker = handle_ref(worker).and_then(WorkerHandle::worker).ok()?;
    let may_run = worker.is_of_this_process() && !worker.is_in_loop();
    if may_run { body(worker).map(c_int::from) } else { None }
}

/// The body of an export that works on a worker of the calling process.
#[inline(never)]
pub fn with_worker(
    worker: *mut abi::herd_worker,
    body: impl FnOnce(&Worker) -> Result<usize>,
) -> c_int {
    let worker = match handle_ref(worker).and_then(WorkerHandle::worker) {
        Ok(worker) => worker,
        Err(error) => return error.code(),
    };
    if let Err(error) = worker.check_usable() {
        return error.code();
    }
    let poison = |panic: &str| {
        worker.herd().log.error(format_args!("slot {}: {panic}", worker.slot_number()));
        worker.poison();
    };
    code(fence(|| body(worker), poison))
}

/// The body of an export that runs the loop: not from inside a callback.
#[inline(never)]
pub fn with_loop(
    worker: *mut abi::herd_worker,
    body: impl FnOnce(&Worker) -> Result<usize>,
) -> c_int {
    with_worker(worker, |worker| {
        let _in_loop = worker.enter()?;
        body(worker)
    })
}

pub fn destroy_worker(worker: *mut abi::herd_worker) -> c_int {
    code(fence(|| handle_ref(worker)?.destroy().map(|()| 0), |_| ()))
}

pub fn into_herd_pointer(herd: AnyHerd) -> *mut abi::herd {
    Box::into_raw(Box::new(herd)).cast()
}

pub fn destroy_herd(herd: *mut abi::herd) -> c_int {
    let refused = with_any_herd(herd, |any| match any {
        AnyHerd::Own(handle) => handle.refuse_with_workers().map(|()| 0),
        AnyHerd::Observed(_) => Ok(0),
    });
    if refused < 0 {
        return refused;
    }
    // Not above, where the herd is borrowed, also by who would log a panic.
    let drop_herd = || {
        // SAFETY: made by into_herd_pointer; no worker of this process uses it.
        let herd = unsafe { Box::from_raw(herd.cast::<AnyHerd>()) };
        if matches!(&*herd, AnyHerd::Own(handle) if !handle.herd.has_its_descriptors()) {
            // Descriptors of the host's have their numbers, or will.
            std::mem::forget(herd);
        }
        Ok(0)
    };
    code(fence(drop_herd, |_| ()))
}

/// Text that C passed in.
pub fn text<'a>(text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::INVALID);
    }
    // SAFETY: the host passes NUL-terminated text that lives during the call.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Error::INVALID)
}

/// Writes text with its NUL into the host's buffer. Returns its length without it; -ENOSPC: it does
/// not fit, and nothing was written.
pub fn write_text(text: &str, buffer: *mut c_char, buffer_bytes: usize) -> Result<usize> {
    if buffer.is_null() {
        return Err(Error::INVALID);
    }
    if text.len() >= buffer_bytes {
        return Err(Error::errno(libc::ENOSPC));
    }
    // SAFETY: the host's buffer has `buffer_bytes`, more than the text.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(text.len())
}

/// Where an output parameter goes: checked for null before the work is done, written after it.
pub struct Output<T>(NonNull<T>);

impl<T> Output<T> {
    pub fn new(place: *mut T) -> Result<Output<T>> {
        NonNull::new(place).map(Output).ok_or(Error::INVALID)
    }

    pub fn store(self, value: T) {
        // SAFETY: the host's memory for a value, of any content.
        unsafe { self.0.write(value) }
    }
}
