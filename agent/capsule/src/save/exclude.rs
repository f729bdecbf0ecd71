//! What a save leaves out: by `.cocoonboxignore`, and by default what can be made again.

use std::{ffi::OsStr, io::Read as _, os::unix::ffi::OsStrExt as _, path::Path};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::OFlags;

use super::meta::{self, Names};

/// Rules of a folder and everything below it, in the syntax of `.gitignore`.
pub const IGNORE_FILE: &[u8] = b".cocoonboxignore";
/// Longer ones are cut; nobody writes so many rules.
const IGNORE_MAX: u64 = 64 << 10;

const TAG_FILE: &[u8] = b"CACHEDIR.TAG";
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Folders left out by default: a name, and a name beside it that says what it is.
const DEFAULTS: &[(&str, Option<&str>, &str)] = &[
    (".cache", None, "a cache"),
    ("__pycache__", None, "compiled by Python"),
    (".mypy_cache", None, "a cache"),
    (".pytest_cache", None, "a cache"),
    (".ruff_cache", None, "a cache"),
    ("node_modules", Some("package.json"), "installed by npm"),
    ("target", Some("Cargo.toml"), "built by cargo"),
    (".venv", Some("pyproject.toml"), "installed by pip"),
    (".venv", Some("requirements.txt"), "installed by pip"),
    ("Cache", Some("Preferences"), "a browser's cache"),
    ("Code Cache", Some("Preferences"), "a browser's cache"),
    ("GPUCache", Some("Preferences"), "a browser's cache"),
    (
        "DawnGraphiteCache",
        Some("Preferences"),
        "a browser's cache",
    ),
    ("DawnWebGPUCache", Some("Preferences"), "a browser's cache"),
    ("GrShaderCache", Some("Local State"), "a browser's cache"),
    ("ShaderCache", Some("Local State"), "a browser's cache"),
    ("cache2", Some("startupCache"), "a browser's cache"),
];

/// The rules of one folder.
pub(super) struct Rules {
    /// How much of a path from the root leads to the folder.
    prefix: usize,
    matcher: Gitignore,
}

impl Rules {
    /// Reads the folder's own rules, if it has any.
    pub(super) fn read(
        directory: std::os::fd::BorrowedFd<'_>,
        names: &Names,
        prefix: usize,
    ) -> Option<Self> {
        if !names.contains(IGNORE_FILE) {
            return None;
        }
        let file = meta::open(directory, IGNORE_FILE, OFlags::empty()).ok()?;
        let mut text = Vec::new();
        std::fs::File::from(file)
            .take(IGNORE_MAX)
            .read_to_end(&mut text)
            .ok()?;
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(&text).lines() {
            // A line that is no pattern is passed over, as git does.
            drop(builder.add_line(None, line));
        }
        let matcher = builder.build().ok()?;
        Some(Self { prefix, matcher })
    }
}

/// Why a path is left out, if it is. `rules` are those of the folders above it, the root's first; `path` is
/// from the root, without a slash before it; `beside` are the names in its folder.
pub(super) fn reason<'r>(
    rules: impl DoubleEndedIterator<Item = &'r Rules>,
    has_defaults: bool,
    path: &[u8],
    is_directory: bool,
    beside: &Names,
) -> Option<String> {
    for rules in rules.rev() {
        let below = Path::new(OsStr::from_bytes(&path[rules.prefix..]));
        match rules.matcher.matched(below, is_directory) {
            ignore::Match::None => {}
            ignore::Match::Ignore(glob) => {
                return Some(format!(".cocoonboxignore: {}", glob.original()));
            }
            ignore::Match::Whitelist(_) => return None,
        }
    }
    if !has_defaults || !is_directory {
        return None;
    }
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    DEFAULTS
        .iter()
        .find(|(folder, marker, _)| {
            folder.as_bytes() == name
                && marker.is_none_or(|marker| beside.contains(marker.as_bytes()))
        })
        .map(|(_, _, why)| (*why).to_owned())
}

/// Whether a folder is tagged as a cache: its content is left out, the tag stays.
pub(super) fn is_tagged(directory: std::os::fd::BorrowedFd<'_>, names: &Names) -> bool {
    if !names.contains(TAG_FILE) {
        return false;
    }
    let Ok(file) = meta::open(directory, TAG_FILE, OFlags::empty()) else {
        return false;
    };
    let mut head = [0; TAG.len()];
    std::fs::File::from(file).read_exact(&mut head).is_ok() && head == *TAG
}
