//! What files of the box say about how to work in it: `AGENTS.md`, the agent's memory and skills.
//!
//! All of it is read once a turn and goes before the conversation, so all of it is bounded, and what
//! cannot be used is said instead of missing without a word.

use std::{collections::BTreeMap, io::Read};

use cocoonbox_proto::toolhost::v1::{GuidanceFile, GuidanceResponse, Skill};
use rustix::fs::{Dir, OFlags};

use super::{Refusal, Roots, frontmatter, path::show};

/// In the workspace: what every agent that works there has to know.
const INSTRUCTIONS: &str = "AGENTS.md";
/// In the workspace: what the agent keeps in mind.
const MEMORY: &str = ".cocoonbox/memory.md";
/// Where skills are, in the order of their right to a name.
const SKILLS: [&str; 3] = [".skills", ".cocoonbox/skills", "~/.skills"];
const SKILL_FILE: &str = "SKILL.md";

/// Of a file that goes before every conversation: about 8,000 tokens.
const FILE_BYTES_MAX: u64 = 32 * 1024;
/// In which the frontmatter of a skill has to end.
const FRONTMATTER_BYTES_MAX: u64 = 8 * 1024;
/// Skills listed. Each costs a line before every conversation.
const SKILLS_MAX: usize = 64;
/// Entries of a folder of skills that are looked at.
const ENTRIES_MAX: usize = 1_000;
/// Things that went wrong that are told.
const PROBLEMS_MAX: usize = 8;

/// Reads what is there. Nothing here fails: a turn goes on without what cannot be read.
pub(crate) fn guidance(roots: &Roots) -> GuidanceResponse {
    let mut problems = Vec::new();
    let instructions = file(roots, INSTRUCTIONS, &mut problems);
    let memory = file(roots, MEMORY, &mut problems);
    let mut skills = BTreeMap::new();
    for folder in SKILLS {
        match names(roots, folder) {
            Ok(names) => {
                for name in names {
                    take_skill(roots, folder, &name, &mut skills, &mut problems);
                }
            }
            Err(Refusal::Absent { .. }) => {}
            Err(refusal) => problems.push(refusal.to_string()),
        }
    }
    if skills.len() > SKILLS_MAX {
        let left = skills.len() - SKILLS_MAX;
        problems.push(format!("{left} more skills are not listed"));
    }
    if problems.len() > PROBLEMS_MAX {
        let left = problems.len() - PROBLEMS_MAX;
        problems.truncate(PROBLEMS_MAX);
        problems.push(format!("{left} more problems like these"));
    }
    GuidanceResponse {
        instructions,
        memory,
        skills: skills.into_values().take(SKILLS_MAX).collect(),
        problems,
    }
}

fn file(roots: &Roots, path: &str, problems: &mut Vec<String>) -> Option<GuidanceFile> {
    match beginning(roots, path, FILE_BYTES_MAX) {
        Ok((text, size_bytes)) => Some(GuidanceFile { text, size_bytes }),
        Err(Refusal::Absent { .. }) => None,
        Err(refusal) => {
            problems.push(refusal.to_string());
            None
        }
    }
}

/// Returns the beginning of a text file and its size.
fn beginning(roots: &Roots, path: &str, bytes_max: u64) -> Result<(String, u64), Refusal> {
    let place = roots.place(path)?;
    let (file, stat) = place.open_file()?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max).read_to_end(&mut bytes);
    read.map_err(|why| Refusal::System {
        path: place.shown.clone(),
        why,
    })?;
    let size_bytes = u64::try_from(stat.st_size).unwrap_or_default();
    if bytes.contains(&0) {
        let path = place.shown.clone();
        return Err(Refusal::Binary {
            path,
            bytes: size_bytes,
        });
    }
    let text = String::from_utf8_lossy(&bytes);
    // The piece of a character that was cut.
    let text = if size_bytes > bytes_max {
        text.trim_end_matches('\u{fffd}')
    } else {
        &text
    };
    Ok((text.to_owned(), size_bytes))
}

/// The folders of a folder of skills.
fn names(roots: &Roots, folder: &str) -> Result<Vec<String>, Refusal> {
    let place = roots.place(folder)?;
    let directory = place.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    let entries = Dir::read_from(&directory).map_err(|errno| place.failed(errno))?;
    let mut names = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        let entry = entry.map_err(|errno| place.failed(errno))?;
        match entry.file_name().to_str() {
            Ok(name) if !name.starts_with('.') => names.push(name.to_owned()),
            Ok(_) | Err(_) => {}
        }
    }
    names.sort();
    Ok(names)
}

fn take_skill(
    roots: &Roots,
    folder: &str,
    name: &str,
    skills: &mut BTreeMap<String, Skill>,
    problems: &mut Vec<String>,
) {
    let path = format!("{folder}/{name}/{SKILL_FILE}");
    let text = match beginning(roots, &path, FRONTMATTER_BYTES_MAX) {
        Ok((text, _)) => text,
        // A file beside the skills, or a folder of something else.
        Err(Refusal::Absent { .. } | Refusal::NotDirectory { .. }) => return,
        Err(refusal) => return problems.push(refusal.to_string()),
    };
    let shown = show(path.as_bytes());
    match frontmatter::read(&text) {
        Err(problem) => problems.push(format!("`{shown}`: {problem}")),
        Ok(found) if skills.contains_key(&found.name) => {
            problems.push(format!(
                "`{shown}`: there is another skill `{}`",
                found.name
            ));
        }
        Ok(found) => {
            let path = match roots.place(&path) {
                Ok(place) => place.full().to_string_lossy().into_owned(),
                Err(_) => path,
            };
            let skill = Skill {
                name: found.name.clone(),
                description: found.description,
                path,
            };
            skills.insert(found.name, skill);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::*;

    fn roots(folder: &Path) -> Roots {
        let under = |name: &str| {
            let path = folder.join(name);
            fs::create_dir_all(&path).expect("a folder");
            path.to_string_lossy().into_owned()
        };
        Roots::new(&under("workspace"), &under("home"), &under("tmp"))
    }

    fn put(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn skill(name: &str) -> String {
        format!("---\nname: {name}\ndescription: Does {name}.\n---\n# How\n")
    }

    #[test]
    fn an_empty_box_says_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(guidance(&roots(folder.path())), GuidanceResponse::default());
    }

    #[test]
    fn what_is_there_is_found_and_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = roots(folder.path());
        put(folder.path(), "workspace/AGENTS.md", &"é".repeat(20_000));
        put(folder.path(), "workspace/.cocoonbox/memory.md", "likes tea");
        put(folder.path(), "workspace/.skills/b/SKILL.md", &skill("b"));
        put(folder.path(), "home/.skills/a/SKILL.md", &skill("a"));
        put(folder.path(), "home/.skills/b2/SKILL.md", &skill("b"));
        put(folder.path(), "workspace/.skills/notes.txt", "no skill");
        put(
            folder.path(),
            "workspace/.skills/bad/SKILL.md",
            "# no frontmatter",
        );
        let found = guidance(&roots);
        let instructions = found.instructions.expect("instructions");
        assert_eq!(instructions.size_bytes, 40_000);
        assert_eq!(instructions.text.len() as u64, FILE_BYTES_MAX);
        assert_eq!(found.memory.expect("memory").text, "likes tea");
        let names: Vec<_> = found
            .skills
            .iter()
            .map(|skill| skill.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert!(
            found.skills[1]
                .path
                .ends_with("/workspace/.skills/b/SKILL.md")
        );
        assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    }

    #[test]
    fn no_link_leads_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = roots(folder.path());
        put(folder.path(), "secret", "s3cr3t");
        symlink(
            folder.path().join("secret"),
            folder.path().join("workspace/AGENTS.md"),
        )
        .expect("a link");
        let found = guidance(&roots);
        assert_eq!(found.instructions, None);
        assert_eq!(found.problems.len(), 1);
    }
}
