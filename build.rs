//! Gives the shared library that cargo makes its SONAME, which rustc does not, and with the feature
//! `header` writes include/herd.h from the sources.

/// The number in `libherd.so.N`: raised when a program built against an older header would break.
const ABI: u32 = 0;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libherd.so.{ABI}");
    // Why: see the Makefile, which links the library that is installed, with symbol versions.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    #[cfg(feature = "header")]
    header::write();
}

#[cfg(feature = "header")]
mod header {
    use std::path::PathBuf;
    use std::{env, fs};

    /// The modules that are the C face: types and constants, then calls. Nothing else lands in the
    /// header.
    const C_FACE: [&str; 2] = ["src/abi/mod.rs", "src/ffi/mod.rs"];

    /// Writes the header to $HERD_HEADER_OUT, or else to include/herd.h.
    pub fn write() {
        let path = env::var_os("HERD_HEADER_OUT").unwrap_or("include/herd.h".into());
        let path = PathBuf::from(path);
        println!("cargo:rerun-if-env-changed=HERD_HEADER_OUT");
        // The header too: made again after somebody edited or deleted it.
        for input in ["cbindgen.toml", "src", &path.to_string_lossy()] {
            println!("cargo:rerun-if-changed={input}");
        }

        let config = cbindgen::Config::from_file("cbindgen.toml").expect("cbindgen.toml");
        let mut builder = cbindgen::Builder::new().with_config(config);
        for module in C_FACE {
            builder = builder.with_src(module);
        }
        let mut text = Vec::new();
        builder.generate().expect("cbindgen reads the sources").write(&mut text);
        let text = tidy(&String::from_utf8(text).expect("the header is UTF-8"));
        if fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
            fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    /// Puts negative constants in parentheses, so that `3 HERD_X` is an error in C and not 3 - 1;
    /// drops the comments that C89 does not have; leaves one blank line where cbindgen leaves many.
    fn tidy(text: &str) -> String {
        let mut tidied = String::new();
        for line in text.lines() {
            match line.rsplit_once(' ') {
                Some((name, value)) if name.starts_with("#define ") && value.starts_with('-') => {
                    tidied += &format!("{name} ({value})\n");
                }
                Some((directive, "__cplusplus")) if directive.ends_with("//") => {
                    tidied += &format!("{}\n", directive.trim_end_matches("//").trim_end());
                }
                _ if line == "}  // extern \"C\"" => tidied += "}\n",
                _ if line.is_empty() && tidied.ends_with("\n\n") => {}
                _ => tidied += &format!("{line}\n"),
            }
        }
        tidied
    }
}
