//! `glob`: files by their names.

use std::time::{Duration, Instant, SystemTime};

use cocoonbox_proto::toolhost::v1::GlobRequest;
use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::OFlags;

use super::{Files, Refusal, path::show, walk};

/// Names in one answer.
const SHOWN_MAX: usize = 200;
/// Names looked for; the newest of them are shown.
const FOUND_MAX: usize = 20_000;
/// Longest search; what was found until then is the answer.
const SEARCH_MAX: Duration = Duration::from_secs(20);

pub(crate) fn glob(files: &Files, request: &GlobRequest) -> Result<String, Refusal> {
    let path = if request.path.is_empty() {
        "."
    } else {
        &request.path
    };
    let Some(pattern) = matcher(&request.pattern)? else {
        return Err(Refusal::BadGlob {
            glob: String::new(),
            why: "it is empty; `**/*` is every file".to_owned(),
        });
    };
    let place = files.roots.place(path)?;
    let folder = place.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    let deadline = Instant::now() + SEARCH_MAX;
    let mut found: Vec<(SystemTime, String)> = Vec::new();
    let mut is_whole = true;
    walk::files(&files.roots, &place, &folder, |file| {
        if found.len() >= FOUND_MAX || Instant::now() > deadline {
            is_whole = false;
            return false;
        }
        let whole = pattern.is_match(&file.rest);
        let by_name = || {
            file.rest
                .file_name()
                .is_some_and(|name| pattern.is_match(name))
        };
        if whole || (!request.pattern.contains('/') && by_name()) {
            found.push((
                file.changed().unwrap_or(SystemTime::UNIX_EPOCH),
                show(file.shown.as_bytes()),
            ));
        }
        true
    });
    if found.is_empty() {
        return Ok(format!(
            "[no file matches `{}`; what .gitignore names is left out]",
            show(request.pattern.as_bytes())
        ));
    }
    // What was changed last is what is most often meant.
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let total = found.len();
    let names = found
        .into_iter()
        .take(SHOWN_MAX)
        .map(|(_, name)| name + "\n");
    let mut text: String = names.collect();
    let more = if is_whole { "" } else { " or more" };
    text.extend([if total > SHOWN_MAX || !is_whole {
        format!(
            "[{total}{more} files, the {} changed last are shown; narrow the pattern or path]",
            total.min(SHOWN_MAX)
        )
    } else {
        format!("[{total} files, changed last first]")
    }]);
    Ok(text)
}

/// `None` for an empty pattern.
pub(super) fn matcher(glob: &str) -> Result<Option<GlobMatcher>, Refusal> {
    if glob.is_empty() {
        return Ok(None);
    }
    let has_folders = glob.contains('/');
    let built = GlobBuilder::new(glob)
        .literal_separator(has_folders)
        .build();
    built
        .map(|glob| Some(glob.compile_matcher()))
        .map_err(|error| Refusal::BadGlob {
            glob: show(glob.as_bytes()),
            why: error.to_string(),
        })
}
