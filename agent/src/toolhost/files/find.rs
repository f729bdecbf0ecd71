//! `grep`: lines of files that match a regular expression.

use std::{
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use cocoonbox_proto::toolhost::v1::GrepRequest;
use globset::{GlobBuilder, GlobMatcher};
use grep::{
    regex::{RegexMatcher, RegexMatcherBuilder},
    searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkMatch},
};
use ignore::WalkBuilder;
use rustix::fs::{FileType, OFlags};

use super::{Refusal, Roots, path::show};

/// Matching lines in one answer.
const MATCHES_MAX: usize = 300;
/// Bytes of one answer: about 8,000 tokens.
const ANSWER_BYTES_MAX: usize = 30 * 1024;
/// Longest part of a line that is shown.
const LINE_CHARS_MAX: usize = 300;
/// Longest search; what was found until then is the answer.
const SEARCH_MAX: Duration = Duration::from_secs(20);
/// Longest line that is held in memory while searching.
const HEAP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Memory for a compiled pattern; the crate's own default is ten times that.
const PATTERN_BYTES_MAX: usize = 10 * 1024 * 1024;

pub(crate) fn grep(roots: &Roots, request: &GrepRequest) -> Result<String, Refusal> {
    let path = if request.path.is_empty() {
        "."
    } else {
        &request.path
    };
    let place = roots.place(path)?;
    let matcher = matcher(request)?;
    let glob = glob(&request.glob)?;
    let root = place.open(OFlags::PATH)?;
    let stat = rustix::fs::fstat(&root).map_err(|errno| place.failed(errno))?;
    let mut search = Search {
        matcher: &matcher,
        searcher: SearcherBuilder::new()
            .line_number(true)
            .memory_map(MmapChoice::never())
            .heap_limit(Some(HEAP_BYTES_MAX))
            .binary_detection(BinaryDetection::quit(0))
            .build(),
        answer: Answer {
            text: String::new(),
            matches: 0,
            files: 0,
            stopped: None,
        },
        deadline: Instant::now() + SEARCH_MAX,
    };
    // The descriptor is beneath the root already; from here on links are not followed.
    let start = PathBuf::from(format!("/proc/self/fd/{}/", root.as_raw_fd()));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => walk(&mut search, &start, &place.full(), roots, glob.as_ref()),
        FileType::RegularFile => {
            let (file, _) = place.open_file()?;
            search.file(file, &place.shown);
        }
        _ => return Err(Refusal::NotRegular { path: place.shown }),
    }
    Ok(search.answer.finish(&request.pattern))
}

fn walk(
    search: &mut Search<'_>,
    start: &Path,
    full: &Path,
    roots: &Roots,
    glob: Option<&GlobMatcher>,
) {
    let walker = WalkBuilder::new(start)
        .hidden(false)
        .parents(false)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    for entry in walker.flatten() {
        if search.is_over() {
            return;
        }
        let Ok(rest) = entry.path().strip_prefix(start) else {
            continue;
        };
        let wanted = entry.file_type().is_some_and(|kind| kind.is_file())
            && glob.is_none_or(|glob| {
                glob.is_match(rest) || rest.file_name().is_some_and(|name| glob.is_match(name))
            });
        if !wanted {
            continue;
        }
        let shown = full.join(rest);
        let shown = shown.strip_prefix(roots.workspace()).unwrap_or(&shown);
        let shown = shown.strip_prefix(".").unwrap_or(shown);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(entry.path(), flags, rustix::fs::Mode::empty());
        // A file that may not be read or went away has no matches.
        if let Ok(file) = opened {
            search.file(file.into(), &shown.to_string_lossy());
        }
    }
}

fn matcher(request: &GrepRequest) -> Result<RegexMatcher, Refusal> {
    RegexMatcherBuilder::new()
        .case_insensitive(request.ignore_case)
        .size_limit(PATTERN_BYTES_MAX)
        .line_terminator(Some(b'\n'))
        .build(&request.pattern)
        .map_err(|error| Refusal::BadPattern {
            pattern: show(request.pattern.as_bytes()),
            why: error.to_string(),
        })
}

fn glob(glob: &str) -> Result<Option<GlobMatcher>, Refusal> {
    if glob.is_empty() {
        return Ok(None);
    }
    let built = GlobBuilder::new(glob).literal_separator(false).build();
    built
        .map(|glob| Some(glob.compile_matcher()))
        .map_err(|error| Refusal::BadGlob {
            glob: show(glob.as_bytes()),
            why: error.to_string(),
        })
}

struct Search<'a> {
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    answer: Answer,
    deadline: Instant,
}

struct Answer {
    text: String,
    matches: usize,
    files: usize,
    stopped: Option<&'static str>,
}

struct Found<'a> {
    answer: &'a mut Answer,
    name: &'a str,
    deadline: Instant,
}

impl Search<'_> {
    fn file(&mut self, file: std::fs::File, name: &str) {
        let before = self.answer.matches;
        let name = show(name.as_bytes());
        let sink = Found {
            answer: &mut self.answer,
            name: &name,
            deadline: self.deadline,
        };
        // A file that cannot be searched (a line over the limit, a read error) has no matches.
        if self
            .searcher
            .search_file(self.matcher, &file, sink)
            .is_err()
        {
            tracing::debug!("file not searched");
        }
        self.answer.files += usize::from(self.answer.matches > before);
    }

    fn is_over(&mut self) -> bool {
        if Instant::now() > self.deadline {
            self.answer.stopped = Some("the search took too long");
        }
        self.answer.stopped.is_some()
    }
}

impl Sink for Found<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let line = String::from_utf8_lossy(found.bytes());
        let line = line.trim_end_matches(['\n', '\r']);
        let shown: String = line.chars().take(LINE_CHARS_MAX).collect();
        let more = if shown.len() < line.len() {
            " […]"
        } else {
            ""
        };
        let number = found.line_number().unwrap_or_default();
        self.answer
            .text
            .extend([self.name, &format!(":{number}: "), &shown, more, "\n"]);
        self.answer.matches += 1;
        if self.answer.matches >= MATCHES_MAX || self.answer.text.len() >= ANSWER_BYTES_MAX {
            self.answer.stopped = Some("the answer is full; narrow the pattern, path or glob");
        } else if Instant::now() > self.deadline {
            self.answer.stopped = Some("the search took too long");
        }
        Ok(self.answer.stopped.is_none())
    }
}

impl Answer {
    fn finish(mut self, pattern: &str) -> String {
        if let Some(why) = self.stopped {
            self.text
                .extend([format!("[stopped after {} matches: {why}]", self.matches)]);
        } else if self.matches == 0 {
            return format!("[nothing matches `{}`]", show(pattern.as_bytes()));
        } else {
            let summary = format!("[{} matches in {} files]", self.matches, self.files);
            self.text.extend([summary]);
        }
        self.text
    }
}
