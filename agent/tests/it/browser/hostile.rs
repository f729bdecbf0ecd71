//! Pages that do not let go, and ends that nobody asked for.

use serde_json::json;

use super::{Browser, pages::Pages, reference};
use crate::world::{eventually, processes_with};

const PAGES: &[(&str, &str)] = &[
    (
        "/",
        "<!doctype html><title>Bad</title><p id=said>fine</p>
        <button onclick='while (true) {}'>Spin</button>
        <button onclick='said.textContent = confirm(\"Sure?\") + prompt(\"Name?\", \"x\")'>Ask</button>
        <button onclick='for (;;) alert(\"again\")'>Nag</button>
        <a href=/download>Get it</a>
        <input type=file aria-label=Plain onchange='said.textContent = this.files[0].name'>
        <button onclick='document.getElementById(\"hidden\").click()'>Choose</button><input type=file id=hidden multiple hidden
          onchange='said.textContent = [...this.files].map((f) => f.name).join()'>",
    ),
    ("/download", "ssh-ed25519 nobody"),
];

#[tokio::test]
async fn a_page_that_spins_or_nags_ends_with_a_reason() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    let shown = browser.open(&pages.url("/")).await;
    let of = |words: &str| reference(&shown, words);
    let asked = browser
        .act(json!({ "action": "click", "ref": of("\"Ask\"") }))
        .await;
    assert!(
        asked.contains("shows a dialog (confirm: \"Sure?\")"),
        "{asked}"
    );
    let said = browser
        .refused(json!({ "action": "click", "ref": of("\"Spin\"") }))
        .await;
    assert!(said.contains("shows a dialog (confirm"), "{said}");
    let next = browser
        .act(json!({ "action": "dialog", "accept": true }))
        .await;
    assert!(
        next.contains("shows a dialog (prompt: \"Name?\")"),
        "{next}"
    );
    let done = browser
        .act(json!({ "action": "dialog", "accept": true, "text": "Ada" }))
        .await;
    assert!(done.contains("trueAda"), "{done}");

    let click = json!({ "action": "click", "ref": of("\"Spin\"") });
    let spun = browser.asked("main", false, &click).await;
    assert!(spun.text.contains("did not let go"), "{}", spun.text);
    // Either it was stopped, and the page is usable, or it has to be loaded again.
    let shown = browser.open(&pages.url("/")).await;
    let nag = reference(&shown, "\"Nag\"");
    browser.act(json!({ "action": "click", "ref": nag })).await;
    let mut nagged = 0;
    let why = loop {
        let dialog = json!({ "action": "dialog", "accept": true });
        let answer = browser.asked("main", false, &dialog).await;
        if !answer.ok {
            break answer.text;
        }
        nagged += 1;
        assert!(nagged < 50, "it never ends");
    };
    assert!(
        why.contains("dialogs without anything between them"),
        "{why}"
    );
    let shown = browser.open(&pages.url("/")).await;
    assert!(shown.contains("fine"), "{shown}");
}

#[tokio::test]
async fn files_go_in_and_out_by_their_own_folder() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    let shown = browser.open(&pages.url("/")).await;
    let of = |words: &str| reference(&shown, words);
    browser
        .act(json!({ "action": "click", "ref": of("Get it") }))
        .await;
    let downloads = browser.home().join("Downloads");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&downloads)
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    eventually("it is there", || {
        names().iter().any(|name| name.contains("authorized_keys"))
    })
    .await;
    assert!(!browser.home().join(".ssh").exists());
    let told = browser.look(json!({ "action": "downloads" })).await;
    assert!(told.contains("authorized_keys"), "{told}");
    let printed = browser.act(json!({ "action": "pdf" })).await;
    assert!(printed.contains("Downloads/Bad.pdf"), "{printed}");
    let pdf = std::fs::read(downloads.join("Bad.pdf")).expect("a file");
    assert!(pdf.starts_with(b"%PDF-"));

    let (one, two) = (
        browser.home().join("one.txt"),
        browser.home().join("two.txt"),
    );
    for path in [&one, &two] {
        std::fs::write(path, "x").expect("a write");
    }
    let upload = |of: String, files: &[&std::path::PathBuf]| json!({ "action": "upload", "ref": of, "files": files });
    let told = browser.act(upload(of("\"Plain\""), &[&one])).await;
    assert!(
        told.contains("+ - text \"one.txt\"") || told.contains("one.txt"),
        "{told}"
    );
    let told = browser.act(upload(of("\"Choose\""), &[&one, &two])).await;
    assert!(told.contains("one.txt,two.txt"), "{told}");
    let said = browser
        .refused(upload(of("\"Plain\""), &[&one, &two]))
        .await;
    assert!(said.contains("takes one file only"), "{said}");
    let said = browser
        .refused(upload(of("\"Plain\""), &[&browser.home().join("none")]))
        .await;
    assert!(said.contains("cannot be given"), "{said}");
    // A click that leads there opens no window that nobody can close.
    let told = browser
        .act(json!({ "action": "click", "ref": of("\"Choose\"") }))
        .await;
    assert!(told.contains("the page asks for files"), "{told}");
    let answer = json!({ "action": "upload", "files": [two] });
    assert!(browser.act(answer).await.contains("two.txt"));
}

#[tokio::test]
async fn a_browser_that_is_killed_is_told_of_and_an_idle_one_ends() {
    let Some(mut browser) = Browser::start().await else {
        return;
    };
    let pages = Pages::serve(PAGES).await;
    browser.open(&pages.url("/")).await;
    let profile = browser.home().join("profile");
    let main = format!("--user-data-dir={}", profile.display());
    let pids = processes_with(&main);
    for pid in pids {
        std::process::Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status()
            .ok();
    }
    let status = browser.holder.wait().await.expect("a status");
    assert_eq!(
        status.code(),
        Some(1),
        "whoever keeps it learns that it failed"
    );

    let Some(mut idle) = Browser::start_with(&["--idle-s", "1"]).await else {
        return;
    };
    idle.open(&pages.url("/")).await;
    let status = idle.holder.wait().await.expect("a status");
    assert!(status.success(), "{status}");
    let profile = idle.home().join("profile");
    eventually("nothing of it is left", || {
        processes_with(&profile.display().to_string()).is_empty()
    })
    .await;
}
