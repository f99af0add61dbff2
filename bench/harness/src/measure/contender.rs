//! The contenders: libherd in each mode, and what people would pick instead. Each is a server with a
//! parent process, doing the same job.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a name stands for.
///
/// `mode/balance` is libherd; with `-late` it does not hand the right over while its holder is busy,
/// as nginx's mutex does not. `raw-WAY` is bench/peers/raw_server; with `-del` it removes connections
/// from its set before it closes them, as libherd has its hosts do. `libevent-WAY`, `libev-WAY`,
/// `libuv-WAY`, `nginx-WAY` are what they say.
pub const HERD: [&str; 4] = ["exclusive/spread", "exclusive/pack", "mutex/spread", "mutex/pack"];
pub const HERD_OTHERS: [&str; 3] = ["shared/pack", "reuseport/spread", "handoff/spread"];
pub const RAW: [&str; 6] =
    ["raw-shared", "raw-exclusive", "raw-rotate", "raw-mutex", "raw-reuseport", "raw-pass"];
pub const LIBRARIES: [&str; 6] = [
    "libevent-shared",
    "libevent-reuseport",
    "libev-shared",
    "libev-reuseport",
    "libuv-shared",
    "libuv-reuseport",
];
pub const NGINX: [&str; 3] = ["nginx-mutex", "nginx-rotate", "nginx-reuseport"];
/// For single promises only.
pub const VARIANTS: [&str; 5] = [
    "mutex/spread-late",
    "mutex/pack-late",
    "raw-rotate-del",
    "raw-exclusive-del",
    "raw-mutex-del",
];

/// One of libherd's own.
pub fn is_ours(name: &str) -> bool {
    name.contains('/')
}

/// Connections of one worker: more than there are, so that PACK does not step back.
const CONNECTIONS: &str = "8192";

pub struct Places {
    pub build: PathBuf,
    pub scratch: PathBuf,
}

impl Places {
    pub fn program(&self, name: &str) -> PathBuf {
        self.build.join(name)
    }
}

pub struct Server {
    pub name: String,
    pub address: String,
    pub master: u32,
    child: Child,
}

impl Drop for Server {
    /// Ends it, whatever state it is in.
    fn drop(&mut self) {
        signal(self.child.id(), libc::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(pid: u32, number: i32) {
    // SAFETY: kill(2) takes two numbers.
    unsafe { libc::kill(pid as i32, number) };
}

/// Has a child end with this program, however that ends.
pub fn bind_to_parent(command: &mut Command) -> &mut Command {
    // SAFETY: prctl(2) is a system call that takes two numbers, so the child may make it before exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    }
}

/// How a server is started.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub workers: usize,
    /// libherd's server and nginx can have more than one; connections come to the first.
    pub listeners: usize,
    /// For libherd's server.
    pub options: &'a [&'a str],
    pub environment: &'a [(&'a str, &'a str)],
}

impl Setup<'_> {
    pub fn of(workers: usize) -> Self {
        Setup { workers, listeners: 1, options: &[], environment: &[] }
    }
}

/// The error says why there is none.
pub fn start(places: &Places, name: &str, setup: Setup) -> Result<Server, String> {
    let Setup { workers, listeners, options, environment } = setup;
    let workers_text = workers.to_string();
    let mut nginx_address = None;
    let mut command = if let Some((mode, balance)) = name.split_once('/') {
        let mut command = Command::new(places.program("examples/hello_prefork"));
        let late = balance.strip_suffix("-late");
        command.args(["--mode", mode, "--balance", late.unwrap_or(balance)]);
        command.args(["--connections", CONNECTIONS]);
        for _ in 0..listeners {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if late.is_some() {
            command.args(["--handover-delay-us", "1000000"]);
        }
        command.args(["--workers", &workers_text]).args(options);
        command
    } else {
        let (family, way) = name.split_once('-').ok_or_else(|| format!("{name}: not known"))?;
        if family == "nginx" {
            let address = free_address()?;
            let config = nginx_config(places, name, way, setup, &address)?;
            nginx_address = Some(address);
            let mut command = Command::new(nginx().ok_or("nginx is not installed")?);
            command.arg("-c").arg(config).arg("-e").arg(places.scratch.join("nginx.log"));
            command
        } else {
            let program = places.program(&format!("peers/{family}_server"));
            if !program.exists() {
                return Err(format!("{family} is not installed (its headers were not found)"));
            }
            let mut command = Command::new(program);
            command.args(["--way", way.strip_suffix("-del").unwrap_or(way)]);
            command.args(["--workers", &workers_text]);
            if way.ends_with("-del") {
                command.arg("--remove");
            }
            command
        }
    };
    let file_name = name.replace('/', "_");
    let ready = places.scratch.join(format!("{file_name}.ready"));
    let log = places.scratch.join(format!("{file_name}.log"));
    let file = |path: &Path| File::create(path).map_err(|e| format!("{}: {e}", path.display()));
    command.stdin(Stdio::null()).stdout(file(&ready)?).stderr(file(&log)?);
    command.envs(environment.iter().copied());
    let child = bind_to_parent(&mut command).spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let mut server =
        Server { name: name.to_owned(), address: String::new(), master: child.id(), child };
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let is_up = match &nginx_address {
            Some(address) => {
                server.address.clone_from(address);
                super::proc::tree(server.master).len() > workers
            }
            None => {
                let text = fs::read_to_string(&ready).unwrap_or_default();
                let address = text.split(": ready on ").nth(1).and_then(|t| t.split(',').next());
                server.address = address.unwrap_or_default().to_owned();
                text.ends_with('\n') && !server.address.is_empty()
            }
        };
        if is_up {
            // Workers have made their sets and wait.
            sleep(Duration::from_millis(if workers > 16 { 150 } else { 20 }));
            return Ok(server);
        }
        if matches!(server.child.try_wait(), Ok(Some(_))) || Instant::now() > deadline {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(said.lines().last().unwrap_or("it did not get ready").to_owned());
        }
        sleep(Duration::from_millis(5));
    }
}

// --- nginx ---

pub fn nginx() -> Option<PathBuf> {
    let places = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx"];
    places.map(PathBuf::from).into_iter().find(|path| path.exists())
}

/// nginx cannot be asked for any port and tell it.
fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("a free port: {e}"))?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.to_string())
}

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

const NGINX_PERL: &str = "/usr/lib/nginx/modules/ngx_http_perl_module.so";

/// Whether nginx can block a worker: its perl module sleeps in the handler.
pub fn nginx_can_block() -> bool {
    Path::new(NGINX_PERL).exists()
}

fn nginx_config(
    places: &Places,
    name: &str,
    way: &str,
    setup: Setup,
    address: &str,
) -> Result<PathBuf, String> {
    let scratch = places.scratch.join(name);
    fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let directory = scratch.display();
    let accept_mutex = if way == "mutex" { "on" } else { "off" };
    let reuseport = if way == "reuseport" { " reuseport" } else { "" };
    let (module, slow) = if nginx_can_block() {
        let slow = "location = /slow { perl 'sub { my $r = shift; my ($ms) = $r->args =~ /^ms=(\\d+)$/; \
             select(undef, undef, undef, $ms / 1000); $r->send_http_header(\"text/plain\"); \
             $r->print(\"slow\\n\"); return OK; }'; }";
        (format!("load_module {NGINX_PERL};"), slow)
    } else {
        (String::new(), "")
    };
    let Setup { workers, listeners, .. } = setup;
    let address_of = |number| match number {
        0 => address.to_owned(),
        // The same port on other loopback addresses: nobody else's.
        _ => format!("127.1.{}.{}:{}", number / 250, 1 + number % 250, port_of(address)),
    };
    let listen = |number| format!("    listen {} backlog=511{reuseport};\n", address_of(number));
    let listen: String = (0..listeners).map(listen).collect();
    let user = if is_root() { "user root root;" } else { "" };
    let text = format!(
        "{module}\n{user}\ndaemon off;\nworker_processes {workers};\npid {directory}/pid;\n\
         worker_rlimit_nofile 65536;\nerror_log {directory}/error.log warn;\n\
         events {{ worker_connections {CONNECTIONS}; accept_mutex {accept_mutex}; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 3600s;\n\
         \x20 client_body_temp_path {directory}/body;\n  proxy_temp_path {directory}/proxy;\n\
         \x20 fastcgi_temp_path {directory}/fastcgi;\n  uwsgi_temp_path {directory}/uwsgi;\n\
         \x20 scgi_temp_path {directory}/scgi;\n  default_type text/plain;\n\
         \x20 server {{\n{listen}\
         \x20   location = / {{ add_header X-Herd-Pid $pid; return 200 \"hello\\n\"; }}\n    {slow}\n  }}\n}}\n"
    );
    let path = scratch.join("nginx.conf");
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

fn is_root() -> bool {
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
