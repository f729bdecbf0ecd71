//! `grep`: lines of files that match a regular expression.

use std::time::{Duration, Instant};

use cocoonbox_proto::toolhost::v1::{GrepRequest, grep_request::Show};
use grep::{
    regex::{RegexMatcher, RegexMatcherBuilder},
    searcher::{
        BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch,
    },
};
use rustix::fs::{FileType, OFlags};

use super::{Files, Refusal, glob, path::show, walk};

/// Matching lines in one answer where nobody says less.
const MATCHES_MAX: usize = 300;
/// Bytes of one answer: about 8,000 tokens.
const ANSWER_BYTES_MAX: usize = 30 * 1024;
/// Longest part of a line that is shown.
const LINE_CHARS_MAX: usize = 300;
/// Lines around a match.
const CONTEXT_MAX: u32 = 20;
/// Longest search; what was found until then is the answer.
const SEARCH_MAX: Duration = Duration::from_secs(20);
/// Longest line that is held in memory while searching.
const HEAP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Memory for a compiled pattern; the crate's own default is ten times that.
const PATTERN_BYTES_MAX: usize = 10 * 1024 * 1024;

pub(crate) fn grep(files: &Files, request: &GrepRequest) -> Result<String, Refusal> {
    let path = if request.path.is_empty() {
        "."
    } else {
        &request.path
    };
    let place = files.roots.place(path)?;
    let matcher = matcher(request)?;
    let glob = glob::matcher(&request.glob)?;
    let root = place.open(OFlags::PATH)?;
    let stat = rustix::fs::fstat(&root).map_err(|errno| place.failed(errno))?;
    let mut search = Search::new(&matcher, request);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => walk::files(&files.roots, &place, &root, |file| {
            if search.is_over() {
                return false;
            }
            let wanted = glob.as_ref().is_none_or(|glob| {
                let name = file.rest.file_name();
                glob.is_match(&file.rest) || name.is_some_and(|name| glob.is_match(name))
            });
            if wanted && let Some(opened) = file.open() {
                search.file(&opened, &file.shown);
            }
            true
        }),
        FileType::RegularFile => {
            let (file, _) = place.open_file()?;
            search.file(&file, &place.shown);
        }
        _ => return Err(Refusal::NotRegular { path: place.shown }),
    }
    Ok(search.answer.finish(&request.pattern))
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

struct Search<'a> {
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    answer: Answer,
}

struct Answer {
    text: String,
    show: Show,
    has_context: bool,
    /// Lines, or files where only those are shown.
    limit: usize,
    matches: usize,
    files: usize,
    deadline: Instant,
    stopped: Option<&'static str>,
}

/// One file's lines on their way into the answer.
struct Found<'a> {
    answer: &'a mut Answer,
    name: &'a str,
    matches: usize,
}

impl<'a> Search<'a> {
    fn new(matcher: &'a RegexMatcher, request: &GrepRequest) -> Self {
        let show = request.show();
        let around = match show {
            Show::Lines => usize::try_from(request.context.min(CONTEXT_MAX)).unwrap_or_default(),
            Show::Files | Show::Counts => 0,
        };
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(around)
            .after_context(around)
            .memory_map(MmapChoice::never())
            .heap_limit(Some(HEAP_BYTES_MAX))
            .binary_detection(BinaryDetection::quit(0))
            .build();
        let limit = match usize::try_from(request.limit) {
            Ok(0) | Err(_) => MATCHES_MAX,
            Ok(limit) => limit.min(MATCHES_MAX),
        };
        Self {
            matcher,
            searcher,
            answer: Answer {
                text: String::new(),
                show,
                has_context: around > 0,
                limit,
                matches: 0,
                files: 0,
                deadline: Instant::now() + SEARCH_MAX,
                stopped: None,
            },
        }
    }

    fn file(&mut self, file: &std::fs::File, name: &str) {
        let name = show(name.as_bytes());
        let mut sink = Found {
            answer: &mut self.answer,
            name: &name,
            matches: 0,
        };
        // A file that cannot be searched (a line over the limit, a read error) has no matches.
        let searched = self
            .searcher
            .search_file(self.matcher, file, &mut sink)
            .is_ok();
        let matches = sink.matches;
        if !searched {
            tracing::debug!("file not searched");
        }
        if matches > 0 {
            self.answer.end_file(&name, matches);
        }
    }

    fn is_over(&mut self) -> bool {
        self.answer.look_at_the_clock();
        self.answer.stopped.is_some()
    }
}

impl Sink for &mut Found<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.matches += 1;
        self.answer.matches += 1;
        self.answer.look_at_the_clock();
        match self.answer.show {
            Show::Lines => {
                let number = found.line_number().unwrap_or_default();
                self.answer.line(self.name, number, ':', found.bytes());
                if self.answer.matches >= self.answer.limit {
                    self.answer.stopped = Some(FULL);
                }
                Ok(self.answer.stopped.is_none())
            }
            Show::Files => Ok(false),
            Show::Counts => Ok(self.answer.stopped.is_none()),
        }
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, Self::Error> {
        let number = around.line_number().unwrap_or_default();
        self.answer.line(self.name, number, '-', around.bytes());
        Ok(self.answer.stopped.is_none())
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.answer.text.push_str("--\n");
        Ok(true)
    }
}

const FULL: &str = "the answer is full; narrow the pattern, path or glob";

impl Answer {
    fn line(&mut self, name: &str, number: u64, mark: char, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        let shown: String = line.chars().take(LINE_CHARS_MAX).collect();
        let more = if shown.len() < line.len() {
            " […]"
        } else {
            ""
        };
        let place = format!("{name}{mark}{number}{mark} ");
        self.text.extend([&place, &shown, more, "\n"]);
        if self.text.len() >= ANSWER_BYTES_MAX {
            self.stopped = Some(FULL);
        }
    }

    fn end_file(&mut self, name: &str, matches: usize) {
        self.files += 1;
        match self.show {
            Show::Lines if self.has_context && self.stopped.is_none() => {
                self.text.push_str("--\n");
            }
            Show::Lines => {}
            Show::Files => self.text.extend([name, "\n"]),
            Show::Counts => self.text.extend([name, &format!(": {matches}\n")]),
        }
        let is_full = self.show != Show::Lines && self.files >= self.limit;
        if self.stopped.is_none() && (is_full || self.text.len() >= ANSWER_BYTES_MAX) {
            self.stopped = Some(FULL);
        }
    }

    fn look_at_the_clock(&mut self) {
        if self.stopped.is_none() && Instant::now() > self.deadline {
            self.stopped = Some("the search took too long");
        }
    }

    fn finish(mut self, pattern: &str) -> String {
        let (matches, files) = (self.matches, self.files);
        let summary = match (self.show, self.stopped) {
            (_, None) if matches == 0 => {
                return format!("[nothing matches `{}`]", show(pattern.as_bytes()));
            }
            (Show::Files, None) => format!("[{files} files]"),
            (_, None) => format!("[{matches} matches in {files} files]"),
            (Show::Files, Some(why)) => format!("[stopped after {files} files: {why}]"),
            (_, Some(why)) => format!("[stopped after {matches} matches: {why}]"),
        };
        self.text.push_str(&summary);
        self.text
    }
}
