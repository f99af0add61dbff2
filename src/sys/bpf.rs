//! bpf(2), as far as a program needs it that picks a socket of a SO_REUSEPORT group: a map that
//! processes can map, a loaded program, and its place at a group. Raw, since a loader of object
//! files would be larger than all that is loaded here. It knows nothing of what a program does.

use super::check;
use super::error::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const MAP_TYPE_ARRAY: u32 = 2;
/// mmap(2) of the map gives its memory (Linux 5.5).
const MAP_FLAG_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_SOCKET_FILTER: u32 = 1;

/// As many as libbpf makes.
const LOAD_TRIES: u32 = 5;

/// asm-generic/socket.h; parisc and sparc number their socket options differently.
#[cfg(not(any(target_arch = "sparc", target_arch = "sparc64")))]
const SO_ATTACH_REUSEPORT_EBPF: libc::c_int = 52;
#[cfg(any(target_arch = "sparc", target_arch = "sparc64"))]
const SO_ATTACH_REUSEPORT_EBPF: libc::c_int = 0x35;

/// The part of `union bpf_attr` (linux/bpf.h) that BPF_MAP_CREATE reads. The kernel takes what a shorter
/// struct leaves out as zero; valgrind looks at members that came later all the same, hence the rest.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    max_entries: u32,
    flags: u32,
    rest: [u32; 15],
}

/// The same for BPF_PROG_LOAD.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    rest: [u64; 8],
}

/// An instruction (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    code: u8,
    /// Destination and source: two bit-fields, laid out as the machine's byte order has it.
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    pub const fn new(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
        let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
        Instruction { code, registers, offset, immediate }
    }
}

/// An array map with one value of `bytes`, and its memory.
pub fn map_array(bytes: usize) -> Result<(OwnedFd, MmapRaw)> {
    let attributes = MapCreate {
        map_type: MAP_TYPE_ARRAY,
        key_bytes: 4,
        value_bytes: u32::try_from(bytes).map_err(|_| Error::NO_MEMORY)?,
        max_entries: 1,
        flags: MAP_FLAG_MMAPABLE,
        ..MapCreate::default()
    };
    let map = bpf(MAP_CREATE, &attributes)?;
    let memory = MmapOptions::new().len(bytes).map_raw(&map);
    let memory =
        memory.map_err(|error| error.raw_os_error().map_or(Error::NO_MEMORY, Error::errno))?;
    Ok((map, memory))
}

/// Loads a program that answers with the index of a socket in its group. When the kernel's verifier
/// refuses it, `complaint` gets what it says.
pub fn load_selector(program: &[Instruction], complaint: &mut String) -> Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        program_type: PROG_TYPE_SOCKET_FILTER,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        ..ProgramLoad::default()
    };
    // What is not allowed at all is not looked at.
    // The verifier gives up with EAGAIN when a signal is pending (do_check in kernel/bpf/verifier.c).
    let results = (0..LOAD_TRIES).map(|_| bpf(PROG_LOAD, &attributes));
    let mut results =
        results.skip_while(|result| matches!(result, Err(error) if *error == Error::AGAIN));
    let refused = match results.next().unwrap_or(Err(Error::AGAIN)) {
        Err(error) if error != Error::errno(libc::EPERM) => error,
        result => return result,
    };
    let mut log = vec![0_u8; 1 << 16];
    attributes.log_level = 1;
    attributes.log_bytes = log.len() as u32;
    attributes.log = log.as_mut_ptr() as u64;
    let _ = bpf(PROG_LOAD, &attributes);
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    // The reason is at the end: the lines before it are the program as far as it was followed.
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    complaint.push_str(&lines[lines.len().saturating_sub(3)..].join("; "));
    Err(refused)
}

/// Has `program` pick the socket of every new connection to the group that `member` belongs to.
/// Needs no privilege once the program is loaded.
pub fn attach_selector(member: &OwnedFd, program: &OwnedFd) -> Result<()> {
    let program: RawFd = program.as_raw_fd();
    // SAFETY: the option's value is the descriptor's number, valid during the call.
    check(unsafe {
        libc::setsockopt(
            member.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_ATTACH_REUSEPORT_EBPF,
            (&raw const program).cast(),
            size_of::<RawFd>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Both commands used here answer with a new descriptor, close-on-exec.
fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<OwnedFd> {
    // SAFETY: the kernel reads `attributes`, whose own pointers are valid with their lengths; it writes
    // to the log's memory only.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of_val(attributes),
        )
    };
    let fd = check(fd as i32)?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
