//! Files that go into a page and come out of it.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::{
        chromium::Seat, element::Element, outline::plain, page::Page, refusal::Refusal,
        tabs::Chooser,
    },
    pointer,
};

const FILES_MAX: usize = 20;
/// For a page to ask for files after it was clicked.
const ASK_MAX: Duration = Duration::from_secs(2);
/// Of numbers behind a name that is taken.
const NAMES_MAX: u32 = 1_000;

const IS_FILE: &str = "function () { return this.localName === 'input' && this.type === 'file' \
    ? { takes: true, many: this.multiple } : { takes: false, many: false } }";

#[derive(Debug, Deserialize)]
struct Takes {
    takes: bool,
    many: bool,
}

#[derive(Debug, Deserialize)]
struct Printed {
    data: String,
}

/// Gives files to a field, to what a click on an element asks for them, or to what was asked for last.
pub(super) async fn upload(
    page: &Page,
    element: Option<&Element>,
    seat: &mut Seat,
    files: &[String],
) -> Result<String, Refusal> {
    let files = checked(files)?;
    let chooser = match element {
        None => asked(page),
        Some(element) => {
            let takes: Takes = element.call(IS_FILE, &[]).await?;
            if takes.takes {
                Some(Chooser {
                    session: element.entry.place.session.clone(),
                    backend: Some(element.entry.backend),
                    is_multiple: takes.many,
                })
            } else {
                click_and_wait(element, seat).await?
            }
        }
    };
    let Some(Chooser {
        session,
        backend: Some(backend),
        is_multiple,
    }) = chooser
    else {
        let why = "the page asks for no files there".to_owned();
        return Err(Refusal::BadFile {
            path: files.join(", "),
            why,
        });
    };
    if files.len() > 1 && !is_multiple {
        let path = files.join(", ");
        let why = "the page takes one file only".to_owned();
        return Err(Refusal::BadFile { path, why });
    }
    let set = json!({ "files": files, "backendNodeId": backend });
    let set = page
        .cdp()
        .tell(Some(&session), "DOM.setFileInputFiles", set);
    page.patiently("giving the files", set).await?;
    if let Some(tab) = page.chromium.tabs().by_number.get_mut(&page.number) {
        tab.chooser = None;
    }
    Ok(format!("given: {}", files.join(", ")))
}

async fn click_and_wait(element: &Element, seat: &mut Seat) -> Result<Option<Chooser>, Refusal> {
    let page = &element.page;
    pointer::click(element, seat, false, false).await?;
    let asked = page
        .chromium
        .until(|tabs| tabs.by_number.get(&page.number)?.chooser.clone());
    match timeout(ASK_MAX, asked).await {
        Ok(chooser) => Ok(Some(chooser?)),
        Err(_) => Ok(None),
    }
}

fn asked(page: &Page) -> Option<Chooser> {
    page.chromium
        .tabs()
        .by_number
        .get(&page.number)?
        .chooser
        .clone()
}

/// Whole paths of files that are there.
fn checked(files: &[String]) -> Result<Vec<String>, Refusal> {
    if files.is_empty() || files.len() > FILES_MAX {
        return Err(Refusal::Arguments(format!("give 1 to {FILES_MAX} files")));
    }
    let check = |path: &String| {
        let bad = |why: &str| Refusal::BadFile {
            path: plain(path, 200),
            why: why.to_owned(),
        };
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(bad("write its whole path"));
        }
        match path.metadata() {
            Ok(facts) if facts.is_file() => Ok(path.to_string_lossy().into_owned()),
            Ok(_) => Err(bad("it is no file")),
            Err(error) => Err(bad(&error.to_string())),
        }
    };
    files.iter().map(check).collect()
}

/// Prints the page into the folder of downloads.
pub(super) async fn pdf(page: &Page, home: &Path) -> Result<String, Refusal> {
    let print = json!({ "printBackground": true, "transferMode": "ReturnAsBase64" });
    let asked = page
        .cdp()
        .send(Some(&page.session), "Page.printToPDF", print);
    let printed: Printed = page
        .patiently("printing", asked.within(Duration::from_mins(1)))
        .await?;
    let bytes = BASE64_STANDARD.decode(printed.data).unwrap_or_default();
    let title = {
        let tabs = page.chromium.tabs();
        tabs.by_number
            .get(&page.number)
            .map(|tab| tab.title.clone())
            .unwrap_or_default()
    };
    let folder = home.join("Downloads");
    let written = write_new(&folder, &file_name(&title), &bytes);
    let path = written.map_err(|error| Refusal::BadFile {
        path: folder.to_string_lossy().into_owned(),
        why: error.to_string(),
    })?;
    Ok(format!(
        "printed to {} ({} bytes)",
        path.display(),
        bytes.len()
    ))
}

/// Writes a file that was not there.
fn write_new(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    for number in 0..NAMES_MAX {
        let path = match number {
            0 => folder.join(format!("{name}.pdf")),
            number => folder.join(format!("{name} ({number}).pdf")),
        };
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// A page's title as the name of a file: of one folder, and visible.
fn file_name(title: &str) -> String {
    let usual = |c: char| {
        if c.is_alphanumeric() || " -_.,()".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = title.trim().chars().map(usual).take(80).collect();
    let name = name.trim_start_matches('.').trim().to_owned();
    if name.is_empty() {
        "page".to_owned()
    } else {
        name
    }
}

/// What was downloaded, newest last.
pub(in super::super) fn downloads(
    page_files: &mut std::collections::VecDeque<(String, super::super::tabs::File)>,
    only_new: bool,
) -> Vec<String> {
    let mut told = Vec::new();
    for (_, file) in page_files.iter_mut() {
        if only_new && file.is_told {
            continue;
        }
        let state = match file.state.as_str() {
            "completed" => {
                file.is_told = true;
                format!("is there ({} bytes)", file.bytes)
            }
            "canceled" => {
                file.is_told = true;
                "was cancelled".to_owned()
            }
            _ => format!("is under way ({} bytes so far)", file.bytes),
        };
        let name = if file.path.is_empty() {
            &file.asked_name
        } else {
            &file.path
        };
        told.push(format!("download {name} from {} {state}", file.url));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        assert_eq!(
            file_name("../../.ssh/authorized_keys"),
            "_.._.ssh_authorized_keys"
        );
        assert_eq!(file_name(" Häuser: 1/2 "), "Häuser_ 1_2");
        assert_eq!(file_name(".."), "page");
        let folder = tempfile::tempdir().unwrap();
        let first = write_new(folder.path(), "a", b"1").unwrap();
        let second = write_new(folder.path(), "a", b"2").unwrap();
        assert!(first.ends_with("a.pdf") && second.ends_with("a (1).pdf"));
    }

    #[test]
    fn only_files_are_given() {
        for path in ["a.txt", "/", "/nowhere/at/all"] {
            assert!(checked(&[path.to_owned()]).is_err(), "{path}");
        }
        assert!(checked(&[]).is_err());
    }
}
