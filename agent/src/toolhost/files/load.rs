//! `read`: a range of lines, or a picture.

use std::io::{self, BufRead, BufReader, Read, Seek};

use cocoonbox_proto::toolhost::v1::ReadRequest;

use super::{Answer, Files, Refusal, path::Place, picture, save::CONTENT_BYTES_MAX, text::Text};

/// Lines where nobody says otherwise.
const LINES_DEFAULT: u64 = 2_000;
/// Bytes of one answer: about 12,000 tokens.
const ANSWER_BYTES_MAX: usize = 48 * 1024;
/// Longest line shown; a minified file is one line and says nothing past this.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// The beginning tells pictures and PDFs, and a NUL byte in a long file that it is binary.
const SNIFF_BYTES: u64 = 8 * 1024;
/// How much of the rest is counted, so that the model learns how long the file is.
const COUNT_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(crate) fn read(files: &Files, request: &ReadRequest) -> Result<Answer, Refusal> {
    let place = files.roots.place(&request.path)?;
    let failed = |why: io::Error| Refusal::System {
        path: place.shown.clone(),
        why,
    };
    let (mut file, stat) = place.open_file()?;
    let bytes = u64::try_from(stat.st_size).unwrap_or_default();
    let mut sniffed = Vec::new();
    (&mut file)
        .take(SNIFF_BYTES)
        .read_to_end(&mut sniffed)
        .map_err(failed)?;
    if sniffed.is_empty() {
        files.seen.note(&request.reader, &place, &[]);
        return Ok(format!("[`{}` is empty]", place.shown).into());
    }
    file.rewind().map_err(failed)?;
    if picture::is_picture(&sniffed) {
        return picture::read(&place, file, bytes);
    }
    let binary = || Refusal::Binary {
        path: place.shown.clone(),
        bytes,
    };
    let range = Range::of(request);
    if sniffed.starts_with(b"%PDF-") {
        let said = files.convert.pdf(file).map_err(|why| Refusal::Pdf {
            path: place.shown.clone(),
            why,
        })?;
        return range.of_lines(&place, said.as_bytes()).map(Answer::from);
    }
    if bytes > CONTENT_BYTES_MAX {
        if sniffed.contains(&0) {
            return Err(binary());
        }
        return range.of_lines(&place, file).map(Answer::from);
    }
    let mut raw = Vec::new();
    (&mut file)
        .take(CONTENT_BYTES_MAX + 1)
        .read_to_end(&mut raw)
        .map_err(failed)?;
    let text = Text::of(&raw).ok_or_else(binary)?;
    let mut said = range.of_lines(&place, text.bytes.as_slice())?;
    if let Some(encoding) = text.unusual() {
        if !said.ends_with('\n') {
            said.push('\n');
        }
        said.extend([format!(
            "[the file is encoded as {encoding}; `edit` keeps that]"
        )]);
    }
    files.seen.note(&request.reader, &place, &raw);
    Ok(said.into())
}

/// The lines that are asked for.
struct Range {
    first: u64,
    limit: u64,
}

impl Range {
    fn of(request: &ReadRequest) -> Self {
        Self {
            first: request.offset.max(1),
            limit: match request.limit {
                0 => LINES_DEFAULT,
                limit => limit,
            },
        }
    }

    fn of_lines(&self, place: &Place, from: impl Read) -> Result<String, Refusal> {
        let failed = |why: io::Error| Refusal::System {
            path: place.shown.clone(),
            why,
        };
        let Self { first, limit } = *self;
        let mut lines = Lines {
            reader: BufReader::new(from),
            number: 0,
            taken: 0,
        };
        let mut text = String::new();
        let mut line = Vec::new();
        let mut shown = 0;
        let mut full = false;
        while lines.number + 1 < first && lines.next(&mut line).map_err(failed)? {}
        while shown < limit && !full && lines.next(&mut line).map_err(failed)? {
            text.push_str(&String::from_utf8_lossy(&line));
            shown += 1;
            full = text.len() >= ANSWER_BYTES_MAX;
        }
        if shown == 0 {
            let lines = lines.number;
            return Err(Refusal::BehindEnd {
                path: place.shown.clone(),
                offset: first,
                lines,
            });
        }
        let last = lines.number;
        let mut all_counted = true;
        while lines.next(&mut line).map_err(failed)? {
            if lines.taken > COUNT_BYTES_MAX {
                all_counted = false;
                break;
            }
        }
        if lines.number > last {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            let total = if all_counted {
                lines.number.to_string()
            } else {
                format!("over {}", lines.number)
            };
            let next = last + 1;
            text.extend([format!(
                "[lines {first}-{last} of {total}; go on with offset {next}]"
            )]);
        }
        Ok(text)
    }
}

struct Lines<R> {
    reader: R,
    /// Lines read.
    number: u64,
    /// Bytes read.
    taken: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line with its ending, keeping the beginning of a long one. False at the end.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let mut cut = 0_usize;
        let mut any = false;
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                break;
            }
            any = true;
            let end = available.iter().position(|b| *b == b'\n');
            let piece = &available[..end.map_or(available.len(), |at| at + 1)];
            let room = LINE_BYTES_MAX.saturating_sub(line.len()).min(piece.len());
            line.extend_from_slice(&piece[..room]);
            cut += piece.len() - room;
            let used = piece.len();
            self.taken += used as u64;
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        if cut > 0 {
            line.extend_from_slice(format!(" [{cut} bytes of this line left out]\n").as_bytes());
        }
        self.number += u64::from(any);
        Ok(any)
    }
}
