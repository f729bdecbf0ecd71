//! Writes down which files the console has, so that they become part of the program.
//!
//! `console/dist` is made by `npm run build` (`make` does it). Without it the program is whole but for the console,
//! and says so at its address.

use std::{env, fmt::Write as _, fs, io, path::Path};

fn main() -> io::Result<()> {
    let dist = Path::new("console/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.is_dir() {
        collect(dist, dist, &mut files)?;
    }
    // By the path that is asked for.
    files.sort_by_key(|path| path.strip_suffix(".gz").unwrap_or(path).to_owned());
    // Named from where the crate is compiled, not from where this ran: checkouts may share one build folder.
    let mut list = String::from("const FILES: &[File] = &[\n");
    for path in files {
        let below = format!("/console/dist/{path}");
        let served = path.strip_suffix(".gz").unwrap_or(&path);
        let packed = served.len() < path.len();
        writeln!(
            list,
            "    File {{ path: {served:?}, bytes: include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {below:?})), packed: {packed} }},"
        )
        .expect("a string takes all");
    }
    list.push_str("];\n");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("console.rs"), list)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Some(relative) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            files.push(relative.to_owned());
        }
    }
    Ok(())
}
