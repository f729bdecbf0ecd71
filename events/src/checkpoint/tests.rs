use proptest::prelude::*;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::*;

fn name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

fn signer(host: &str, byte: u8) -> Signer {
    Signer::new(name(host), &Zeroizing::new([byte; 32]))
}

fn statement() -> Statement {
    Statement {
        host: name("logs.example"),
        log: LogId(Uuid::from_u128(0x0123)),
        size: 1_024,
        chain: ChainHash([7; 32]),
    }
}

/// Auditors keep these. A change here makes every checkpoint out there unreadable.
#[test]
fn the_form_is_for_ever() {
    let key = signer("logs.example", 1);
    let note = statement().sign([&key]).to_string();
    insta::assert_snapshot!(format!("{}\n{note}", key.verifier()), @r"
    logs.example+d1d86495+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c
    logs.example/log/00000000000000000000000000000123
    1024
    BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=

    — logs.example 0dhklTkrlmmNYeyraolPqrZfIJbMHvQTVrDOIyWstVoBFZsAvTpHQKM2un8OLZ0hVbRy1SvEZ9Lv51eoCaNEI9hMJw8=
    ");
}

/// From the reference implementation's documentation (golang.org/x/mod/sumdb/note).
#[test]
fn keys_and_signatures_are_those_of_others() {
    let seed = BASE64
        .decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")
        .unwrap();
    let seed = Zeroizing::new(<[u8; 32]>::try_from(&seed[1..]).unwrap());
    let key = Signer::new(name("PeterNeumann"), &seed);
    let vkey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    assert_eq!(key.verifier().to_string(), vkey);
    assert_eq!(vkey.parse::<VerifierKey>().unwrap(), key.verifier());
    let text = "If you think cryptography is the answer to your problem,\n\
                then you don't know what your problem is.\n";
    assert_eq!(
        key.sign(text).to_string(),
        "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdng\
         otpRZb6KE6RyyBwJnAM="
    );
}

#[test]
fn only_trusted_signatures_count() {
    let (old, new, other) = (
        signer("logs.example", 1),
        signer("logs.example", 2),
        signer("other.example", 1),
    );
    let [of_old, of_new, of_other] = [&old, &new, &other].map(Signer::verifier);
    let note = Note::parse(&statement().sign([&new, &old]).to_string()).unwrap();
    assert_eq!(note.statement, statement());
    assert_eq!(note.signers([&of_old]), Ok(vec![&of_old]));
    assert_eq!(note.signers([&of_old, &of_new]).unwrap().len(), 2);
    // The same key under another name is another key.
    let names = "logs.example, logs.example".to_owned();
    assert_eq!(
        note.signers([&of_other]),
        Err(Untrusted::Stranger { names })
    );
}

#[test]
fn a_known_key_that_did_not_sign_spoils_the_note() {
    let (key, forger) = (signer("logs.example", 1), signer("logs.example", 2));
    let mut note = statement().sign([&forger]);
    note.signatures[0].key_id = key.verifier().id();
    let note = Note::parse(&note.to_string()).unwrap();
    let name = name("logs.example");
    assert_eq!(
        note.signers([&key.verifier(), &forger.verifier()]),
        Err(Untrusted::BadSignature { name })
    );
}

#[test]
fn lines_that_are_not_understood_are_signed() {
    let key = signer("logs.example", 1);
    let text = format!("{}extension\n", statement());
    let note = format!("{text}\n{}\n", key.sign(&text));
    let parsed = Note::parse(&note).unwrap();
    assert_eq!(parsed.statement, statement());
    assert!(parsed.signers([&key.verifier()]).is_ok());
    assert_eq!(parsed.to_string(), note);
    let other = Note::parse(&note.replace("extension", "extensions")).unwrap();
    assert!(other.signers([&key.verifier()]).is_err());
}

#[test]
fn other_forms_are_refused() {
    let good = statement().sign([&signer("h", 1)]).to_string();
    assert!(Note::parse(&good).is_ok());
    let line = good.lines().last().unwrap();
    let cases = [
        (good.replace("1024", "01024"), NoteError::Statement),
        (good.replace("1024", "+1024"), NoteError::Statement),
        (good.replace("1024", "-1"), NoteError::Statement),
        (good.replace("/log/", "/box/"), NoteError::Statement),
        (good.replace("logs.example/", "/"), NoteError::Statement),
        (good.replace("logs.example", "a b"), NoteError::Statement),
        (good.replace("0123", "0123\n"), NoteError::Statement),
        (good.replace("\n\n", "\n"), NoteError::NoSignatures),
        (good.trim_end().to_owned(), NoteError::NoSignatures),
        (
            good.replace('\u{2014}', "--"),
            NoteError::Signature { number: 1 },
        ),
        (
            good.replace(" h ", " h+h "),
            NoteError::Signature { number: 1 },
        ),
        (format!("{good}\n"), NoteError::NoSignatures),
        (good.replace("1024", "1024\r"), NoteError::Control),
        (
            format!("{good}{}", format!("{line}\n").repeat(SIGNATURES_MAX)),
            NoteError::TooManySignatures,
        ),
        (
            "x".repeat(NOTE_BYTES_MAX + 1),
            NoteError::TooLarge {
                bytes: NOTE_BYTES_MAX + 1,
            },
        ),
        (String::new(), NoteError::NoSignatures),
    ];
    for (note, expected) in cases {
        assert_eq!(Note::parse(&note), Err(expected), "{note:.200}");
    }
    for vkey in [
        "",
        "a+b",
        "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeuman+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3+AhpcXQcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10T",
    ] {
        assert!(vkey.parse::<VerifierKey>().is_err(), "`{vkey}` was read");
    }
    // The neutral point has "signed" everything.
    let mut weak = [0; 32];
    weak[0] = 1;
    assert_eq!(VerifierKey::new(name("a"), &weak), None);
}

#[test]
fn every_byte_counts() {
    let keys = [signer("a", 1), signer("b", 2)];
    let trusted = [keys[0].verifier(), keys[1].verifier()];
    let note = statement().sign(&keys).to_string().into_bytes();
    for at in 0..note.len() {
        for flip in [1, 4, 0x20, 0x80] {
            let mut changed = note.clone();
            changed[at] ^= flip;
            let Ok(text) = String::from_utf8(changed) else {
                continue;
            };
            // Both must have signed: a signature that turned into a stranger's is one too few.
            let all = Note::parse(&text).is_ok_and(|note| {
                note.signatures().len() == 2
                    && note.signers(&trusted).is_ok_and(|found| found.len() == 2)
            });
            assert!(!all, "byte {at} by {flip}: {text}");
        }
    }
}

#[test]
fn secrets_do_not_show() {
    let shown = format!("{:?}", signer("a", 42));
    assert!(shown.ends_with(", ***)"), "{shown}");
    assert!(!shown.contains("2a2a") && !shown.contains("42, 42"));
}

proptest! {
    #[test]
    fn notes_survive(log: u128, size: u64, chain: [u8; 32], host in "[a-z.:/0-9-]{1,40}", keys in 1..5_u8) {
        let statement = Statement {
            host: KeyName::new(host).unwrap(),
            log: LogId(Uuid::from_u128(log)),
            size,
            chain: ChainHash(chain),
        };
        let signers: Vec<_> = (0..keys).map(|byte| signer("k", byte)).collect();
        let note = statement.sign(&signers);
        let parsed = Note::parse(&note.to_string()).unwrap();
        prop_assert_eq!(&parsed, &note);
        let trusted: Vec<_> = signers.iter().map(Signer::verifier).collect();
        prop_assert_eq!(parsed.signers(&trusted).unwrap().len(), usize::from(keys));
    }

    #[test]
    fn garbage_never_panics(text in "(?s).{0,200}") {
        prop_assert!(Note::parse(&text).is_err());
        prop_assert!(text.parse::<VerifierKey>().is_err());
    }

    /// What is read is what is written: one text for one note.
    #[test]
    fn nearly_notes_never_panic(at in 0..160_usize, c: char) {
        let mut text: Vec<char> = statement().sign([&signer("h", 1)]).to_string().chars().collect();
        let last = text.len() - 1;
        text[at.min(last)] = c;
        let text: String = text.into_iter().collect();
        if let Ok(read) = Note::parse(&text) {
            prop_assert_eq!(read.to_string(), text);
        }
    }
}
