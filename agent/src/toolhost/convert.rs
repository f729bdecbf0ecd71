//! PDFs and web pages as text, in a process of their own: what they are made of comes from anywhere, and
//! a parser that runs out of stack, memory or time ends nothing but itself.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
};

use rustix::process::{Resource, Rlimit};

use super::strays::Strays;

/// The name (argument zero) under which the binary converts.
pub const NAME: &str = "cocoonbox-convert";

/// Largest source. Its text is held in memory as well.
const SOURCE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest text of one source.
const TEXT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Memory and processor time of the process.
const MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;
const CPU_S_MAX: u64 = 20;
/// Deeply nested pages are walked by recursion.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// Starts conversions.
#[derive(Clone, Debug)]
pub(crate) struct Converter {
    program: PathBuf,
    strays: Arc<Strays>,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Refused(String),
    #[error("it took too much time or memory, or is too damaged")]
    Died,
    #[error("the reader could not be started ({0})")]
    System(io::Error),
}

impl Converter {
    pub(crate) fn new(program: PathBuf, strays: Arc<Strays>) -> Self {
        Self { program, strays }
    }

    /// Returns the text of a PDF, page by page. Blocks.
    pub(crate) fn pdf(&self, file: File) -> Result<String, Error> {
        self.run("pdf", Stdio::from(file), &[])
    }

    pub(crate) fn pdf_bytes(&self, bytes: &[u8]) -> Result<String, Error> {
        self.run("pdf", Stdio::piped(), bytes)
    }

    /// Returns a page as Markdown. Blocks.
    pub(crate) fn html(&self, html: &str) -> Result<String, Error> {
        self.run("html", Stdio::piped(), html.as_bytes())
    }

    fn run(&self, kind: &str, stdin: Stdio, source: &[u8]) -> Result<String, Error> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&self.program);
        command
            .arg0(NAME)
            .arg(kind)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let spawned = self.strays.start(|| {
            let child = command.spawn()?;
            let pid = i32::try_from(child.id()).unwrap_or_default();
            Ok((child, pid))
        });
        let (mut child, pid) = spawned.map_err(Error::System)?;
        if let Some(mut stdin) = child.stdin.take() {
            // It reads everything before it writes; if it died, its status says so.
            stdin.write_all(source).ok();
        }
        let mut text = Vec::new();
        let read = match child.stdout.take() {
            Some(stdout) => stdout.take(TEXT_BYTES_MAX).read_to_end(&mut text),
            None => Ok(0),
        };
        let status = child.wait();
        self.strays.ended(pid);
        read.map_err(Error::System)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        match status.map_err(Error::System)?.code() {
            Some(0) => Ok(text),
            Some(REFUSED) => Err(Error::Refused(text)),
            _ => Err(Error::Died),
        }
    }
}

/// The exit code beside which standard output says why.
const REFUSED: i32 = 2;

/// Converts standard input to standard output.
pub fn main() -> ExitCode {
    match convert() {
        Ok(code) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

fn convert() -> io::Result<ExitCode> {
    limit(Resource::As, MEMORY_BYTES_MAX)?;
    limit(Resource::Cpu, CPU_S_MAX)?;
    limit(Resource::Core, 0)?;
    // What a library prints must not get among the text.
    let mut answer = File::from(rustix::stdio::stdout().try_clone_to_owned()?);
    let nothing = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    let mut source = Vec::new();
    io::stdin()
        .take(SOURCE_BYTES_MAX + 1)
        .read_to_end(&mut source)?;
    let converted = if source.len() as u64 > SOURCE_BYTES_MAX {
        Err("it has over 64 MiB".to_owned())
    } else {
        let kind = std::env::args().nth(1).unwrap_or_default();
        let work = move || match kind.as_str() {
            "pdf" => pdf(&source),
            _ => html(&source),
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let worked = thread.spawn(work)?.join();
        worked.unwrap_or_else(|_| Err("it is too damaged".to_owned()))
    };
    Ok(match converted {
        Ok(text) => {
            answer.write_all(text.as_bytes())?;
            ExitCode::SUCCESS
        }
        Err(why) => {
            answer.write_all(why.as_bytes())?;
            ExitCode::from(2)
        }
    })
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let most = Some(most);
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

fn pdf(source: &[u8]) -> Result<String, String> {
    let own = std::panic::catch_unwind(|| pdf_extract::extract_text_from_mem_by_pages(source));
    let (pages, why) = match own {
        Ok(Ok(pages)) => (pages, None),
        Ok(Err(error)) => (Vec::new(), Some(error.to_string())),
        Err(_) => (Vec::new(), Some("it is damaged".to_owned())),
    };
    let says_something = |pages: &[String]| pages.iter().any(|page| !page.trim().is_empty());
    let pages = if says_something(&pages) {
        pages
    } else {
        poppler(source).unwrap_or(pages)
    };
    if says_something(&pages) {
        return Ok(paged(&pages));
    }
    Err(match why {
        Some(why) => why,
        None => format!(
            "its {} pages have no text; they may be pictures. Make one a picture with `shell`, as in \
             `pdftoppm -png -r 80 -f 1 -l 1`, and read that",
            pages.len()
        ),
    })
}

/// The box may have a reader that knows more fonts than ours.
fn poppler(source: &[u8]) -> Option<Vec<String>> {
    let mut child = Command::new("pdftotext")
        .args(["-q", "-layout", "-enc", "UTF-8", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let stdout = child.stdout.take()?;
    let text = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(source).ok());
        let mut text = Vec::new();
        let read = stdout.take(TEXT_BYTES_MAX).read_to_end(&mut text);
        read.ok().map(|_| text)
    });
    let status = child.wait().ok()?;
    let text = String::from_utf8_lossy(&text?).into_owned();
    let pages = text.trim_end_matches('\u{c}').split('\u{c}');
    status
        .success()
        .then(|| pages.map(ToOwned::to_owned).collect())
}

fn paged(pages: &[String]) -> String {
    let mut text = String::new();
    for (at, page) in pages.iter().enumerate() {
        text.extend([format!("[page {} of {}]\n", at + 1, pages.len())]);
        let mut empty = false;
        for line in page.trim().lines().map(str::trim_end) {
            // Fonts without a line height leave many of them.
            if !(line.is_empty() && empty) {
                text.extend([line, "\n"]);
            }
            empty = line.is_empty();
        }
    }
    text
}

fn html(source: &[u8]) -> Result<String, String> {
    let source = String::from_utf8_lossy(source);
    let unread = vec![
        "head", "script", "style", "noscript", "svg", "iframe", "template",
    ];
    let reader = htmd::HtmlToMarkdown::builder().skip_tags(unread).build();
    let text = reader.convert(&source).map_err(|error| error.to_string())?;
    let title = title(&source);
    Ok(match title {
        Some(title) => format!("# {title}\n\n{}", text.trim()),
        None => text.trim().to_owned(),
    })
}

fn title(source: &str) -> Option<String> {
    let pattern = regex::Regex::new("(?is)<title[^>]*>(.*?)</title>").ok()?;
    let title = pattern.captures(source)?.get(1)?.as_str();
    // The entities in it are told apart as those of any other text.
    let title = htmd::convert(title).ok()?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}
