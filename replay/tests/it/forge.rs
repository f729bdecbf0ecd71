//! What a meddler does who knows how the log works: rows dropped, moved and written anew with all links
//! fitting, tails cut off tidily, logs swapped, keys forged.

use cocoonbox_events::{
    ChainHash, Keyring, LogId, LogKey, PayloadHash, Sealing,
    chain::Link,
    checkpoint::{Note, Signer},
    record::Body,
    seal,
};
use cocoonbox_proto::log::v1 as wire;
use cocoonbox_replay::{Against, AllReport, Break};
use prost::Message;
use rusqlite::{Connection, params};

use crate::{
    evidence::{Evidence, branch, forger, named, of, second_account, second_box_log, statement},
    world::{account, box_log, system},
};

fn first_break(report: &AllReport, log: LogId) -> &Break {
    let found = of(report, log).unwrap().first_break.as_ref();
    found.unwrap_or_else(|| panic!("{log} is whole: {report:#?}"))
}

fn log_no(file: &Connection, log: LogId) -> i64 {
    let sql = "SELECT log_no FROM log WHERE log_id = ?1";
    file.query_row(sql, [log.as_bytes()], |row| row.get(0))
        .unwrap()
}

fn number(file: &Connection, log: LogId, pos: u64) -> i64 {
    (log_no(file, log) << 40) | i64::try_from(pos).unwrap()
}

fn tail(file: &Connection, log: LogId) -> u64 {
    let (from, to) = (number(file, log, 0), number(file, log, 0) + (1 << 40));
    let sql = "SELECT max(event_no) FROM event WHERE event_no > ?1 AND event_no < ?2";
    let last: i64 = file.query_row(sql, [from, to], |row| row.get(0)).unwrap();
    u64::try_from(last - from).unwrap()
}

/// Runs statements, looks, and takes them back.
async fn trying(
    evidence: &Evidence,
    file: &Connection,
    against: &Against,
    meddle: impl FnOnce(&Connection),
) -> AllReport {
    let saved = evidence.folder.path().join("saved.db");
    drop(std::fs::remove_file(&saved));
    file.execute("VACUUM INTO ?1", [saved.to_str().unwrap()])
        .unwrap();
    meddle(file);
    let report = evidence.verify(against).await;
    file.execute_batch(&format!(
        "ATTACH '{}' AS saved; BEGIN;
         DELETE FROM event; DELETE FROM stream; DELETE FROM log; DELETE FROM checkpoint; DELETE FROM command;
         INSERT INTO log SELECT * FROM saved.log; INSERT INTO stream SELECT * FROM saved.stream;
         INSERT INTO event SELECT * FROM saved.event; INSERT INTO command SELECT * FROM saved.command;
         INSERT INTO checkpoint SELECT * FROM saved.checkpoint; COMMIT; DETACH saved;",
        saved.display()
    ))
    .unwrap();
    report
}

/// Gives an event another payload, sealed and hashed as it has to be.
fn replace(evidence: &Evidence, file: &Connection, log: LogId, pos: u64, payload: Vec<u8>) {
    let body = Body {
        salt: [7; 16],
        payload: payload.into(),
    };
    let hash = PayloadHash::of(&body.salt, &body.payload);
    let sealed = seal::seal(Some(&key(evidence, file, log)), log, &hash, &body).unwrap();
    let changed = file
        .execute(
            "UPDATE event SET body = ?2, payload_hash = ?3 WHERE event_no = ?1",
            params![number(file, log, pos), sealed, hash.0],
        )
        .unwrap();
    assert_eq!(changed, 1);
}

fn key(evidence: &Evidence, file: &Connection, log: LogId) -> LogKey {
    let sql = "SELECT owner FROM log WHERE log_id = ?1";
    let owner: String = file
        .query_row(sql, [log.as_bytes()], |row| row.get(0))
        .unwrap();
    match evidence.keys.log_key(log, &owner) {
        Sealing::Key(key) => key,
        other => panic!("{other:?}"),
    }
}

/// Makes every link from `pos` on fit the one before it. For logs without a parent.
fn relink(file: &Connection, log: LogId, pos: u64) {
    let mut chain = match pos {
        1 => ChainHash::genesis(log, None),
        _ => link(file, log, pos - 1),
    };
    for pos in pos..=tail(file, log) {
        let at = number(file, log, pos);
        let sql = "SELECT s.name, e.seq, e.kind, e.version, e.recorded_us, e.header, e.payload_hash
                   FROM event e JOIN stream s USING (stream_id) WHERE event_no = ?1";
        chain = file
            .query_row(sql, [at], |row| {
                let (name, header): (String, Vec<u8>) = (row.get(0)?, row.get(5)?);
                Ok(chain.next(&Link {
                    pos,
                    stream: &name,
                    seq: u64::try_from(row.get::<_, i64>(1)?).unwrap(),
                    kind: row.get(2)?,
                    version: row.get(3)?,
                    recorded_us: row.get(4)?,
                    header: &header,
                    payload_hash: PayloadHash(row.get(6)?),
                }))
            })
            .unwrap();
        let sql = "UPDATE event SET chain = ?2 WHERE event_no = ?1";
        file.execute(sql, params![at, chain.0]).unwrap();
    }
}

fn link(file: &Connection, log: LogId, pos: u64) -> ChainHash {
    let sql = "SELECT chain FROM event WHERE event_no = ?1";
    let at = number(file, log, pos);
    ChainHash(file.query_row(sql, [at], |row| row.get(0)).unwrap())
}

/// Signs what a log is with another key, at all sizes at which it was signed.
fn sign_anew(file: &Connection, log: LogId, signer: &Signer) {
    let no = log_no(file, log);
    let mut sizes = file
        .prepare("SELECT size FROM checkpoint WHERE log_no = ?1")
        .unwrap();
    let sizes: Vec<u64> = sizes
        .query_map([no], |row| row.get::<_, i64>(0))
        .unwrap()
        .map(|size| u64::try_from(size.unwrap()).unwrap())
        .collect();
    for size in sizes {
        let chain = link(file, log, size);
        let note = statement(log, size, chain).sign([signer]).to_string();
        let sql = "UPDATE checkpoint SET chain = ?3, note = ?4 WHERE log_no = ?1 AND size = ?2";
        let size = i64::try_from(size).unwrap();
        file.execute(sql, params![no, size, chain.0, note]).unwrap();
    }
}

fn mallory() -> Vec<u8> {
    let name = "mallory".to_owned();
    wire::AgentRenamed { name }.encode_to_vec()
}

#[tokio::test]
async fn any_row_that_is_dropped() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    let against = evidence.trust();
    for log in [
        system(),
        account(),
        box_log(),
        second_account(),
        second_box_log(),
        branch(),
    ] {
        let base = if log == branch() {
            tail(&file, box_log()) - 2
        } else {
            0
        };
        for pos in base + 1..=tail(&file, log) {
            let report = trying(&evidence, &file, &against, |file| {
                let sql = "DELETE FROM event WHERE event_no = ?1";
                file.execute(sql, [number(file, log, pos)]).unwrap();
            })
            .await;
            assert_eq!(first_break(&report, log).pos, pos, "{report:#?}");
        }
    }
    for (sql, what) in [
        (
            "DELETE FROM command WHERE rowid_of IS first",
            "could happen again",
        ),
        ("DELETE FROM stream WHERE name = 'exec/e1'", ""),
    ] {
        let sql = sql.replace(
            "rowid_of IS first",
            "(log_no, first_pos) = (SELECT log_no, max(first_pos) FROM command GROUP BY log_no LIMIT 1)",
        );
        let report = trying(&evidence, &file, &against, |file| {
            assert_eq!(file.execute(&sql, []).unwrap(), 1);
        })
        .await;
        assert!(!report.is_good(), "{sql}");
        let told = report.logs.iter().flat_map(|log| log.findings.iter());
        assert!(what.is_empty() || told.into_iter().any(|found| found.what.contains(what)));
    }
}

#[tokio::test]
async fn two_rows_that_changed_places() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    for pos in 1..tail(&file, box_log()) {
        let report = trying(&evidence, &file, &evidence.trust(), |file| {
            let (a, b) = (
                number(file, box_log(), pos),
                number(file, box_log(), pos + 1),
            );
            let sql = "UPDATE event SET event_no = ?2 WHERE event_no = ?1";
            for (from, to) in [(a, -1), (b, a), (-1, b)] {
                file.execute(sql, [from, to]).unwrap();
            }
        })
        .await;
        assert_eq!(first_break(&report, box_log()).pos, pos, "{report:#?}");
    }
}

#[tokio::test]
async fn a_tail_cut_off_tidily_is_missed_by_who_kept_a_checkpoint() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    let end = tail(&file, second_box_log());
    for left in 1..end {
        let cut = |file: &Connection| {
            let no = log_no(file, second_box_log());
            let (at, size) = (
                number(file, second_box_log(), left),
                i64::try_from(left).unwrap(),
            );
            file.execute_batch(&format!(
                "DELETE FROM event WHERE event_no > {at} AND event_no < {no} + 1 << 40;
                 DELETE FROM command WHERE log_no = {no} AND first_pos > {size};
                 DELETE FROM checkpoint WHERE log_no = {no} AND size > {size};
                 UPDATE stream SET head_seq = {size}, head_pos = {size} WHERE log_no = {no};"
            ))
            .unwrap();
        };
        // The file itself cannot tell.
        let report = trying(&evidence, &file, &evidence.trust(), cut).await;
        assert!(report.is_good(), "{report:#?}");
        let report = trying(&evidence, &file, &evidence.kept(), cut).await;
        assert_eq!(first_break(&report, second_box_log()).pos, left + 1);
    }
}

#[tokio::test]
async fn a_log_taken_away_with_all_that_is_its() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    for log in [second_account(), second_box_log(), branch()] {
        let report = trying(&evidence, &file, &evidence.trust(), |file| {
            let no = log_no(file, log);
            file.execute_batch(&format!(
                "DELETE FROM event WHERE event_no >> 40 = {no}; DELETE FROM stream WHERE log_no = {no};
                 DELETE FROM command WHERE log_no = {no}; DELETE FROM checkpoint WHERE log_no = {no};
                 DELETE FROM log WHERE log_no = {no};"
            ))
            .unwrap();
        })
        .await;
        assert!(!report.is_good(), "{report:#?}");
        // The branch is missed by the log that goes on in it.
        let missed = if log == branch() { box_log() } else { log };
        assert!(!named(&report, missed).is_empty(), "{report:#?}");
    }
}

#[tokio::test]
async fn logs_that_changed_places() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    let pairs = [
        (box_log(), second_box_log()),
        (account(), second_account()),
        (system(), account()),
    ];
    for (a, b) in pairs {
        let report = trying(&evidence, &file, &evidence.trust(), |file| {
            let (no, other) = (log_no(file, a), log_no(file, b));
            file.execute_batch(&format!(
                "UPDATE log SET log_no = -1 WHERE log_no = {no};
                 UPDATE log SET log_no = {no} WHERE log_no = {other};
                 UPDATE log SET log_no = {other} WHERE log_no = -1;"
            ))
            .unwrap();
        })
        .await;
        for log in [a, b] {
            assert_eq!(first_break(&report, log).pos, 1, "{report:#?}");
        }
    }
}

#[tokio::test]
async fn a_payload_that_was_replaced_or_erased_in_silence() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    let (log, pos) = (second_box_log(), 3);
    let report = trying(&evidence, &file, &evidence.trust(), |file| {
        replace(&evidence, file, log, pos, mallory());
    })
    .await;
    assert_eq!(first_break(&report, log).pos, pos);
    let report = trying(&evidence, &file, &evidence.trust(), |file| {
        let sql = "UPDATE event SET body = NULL WHERE event_no = ?1";
        file.execute(sql, [number(file, log, pos)]).unwrap();
    })
    .await;
    assert!(of(&report, log).unwrap().first_break.is_none());
    assert_eq!(named(&report, log), [pos].into(), "{report:#?}");
}

#[tokio::test]
async fn a_history_written_anew_with_all_links() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    let log = second_box_log();
    // Signed at 3 and at the end, which is 4.
    for (pos, signed) in [(2, 1..=3), (3, 1..=3), (4, 4..=4)] {
        let anew = |file: &Connection| {
            replace(&evidence, file, log, pos, mallory());
            relink(file, log, pos);
        };
        let report = trying(&evidence, &file, &evidence.trust(), anew).await;
        assert!(
            signed.contains(&first_break(&report, log).pos),
            "{report:#?}"
        );
        // With the store's own checkpoints gone it is what auditors kept that tells.
        let tidy = |file: &Connection| {
            anew(file);
            let sql = "DELETE FROM checkpoint WHERE log_no = ?1";
            file.execute(sql, [log_no(file, log)]).unwrap();
        };
        let report = trying(&evidence, &file, &evidence.kept(), tidy).await;
        let found = first_break(&report, log);
        assert!(signed.contains(&found.pos), "{report:#?}");
        assert!(found.what.contains("in `kept`"), "{}", found.what);
    }
    // Below a branch, the branch tells as well; the box log is anchored in its account.
    let report = trying(&evidence, &file, &evidence.trust(), |file| {
        let sql = "UPDATE event SET recorded_us = recorded_us + 1 WHERE event_no = ?1";
        file.execute(sql, [number(file, box_log(), 3)]).unwrap();
        relink(file, box_log(), 3);
        let sql = "DELETE FROM checkpoint WHERE log_no = ?1";
        file.execute(sql, [log_no(file, box_log())]).unwrap();
    })
    .await;
    for (log, word) in [(branch(), "its parent"), (account(), "the anchor says")] {
        let told = report
            .findings
            .iter()
            .any(|one| one.log == log && one.what.contains(word));
        assert!(told, "{report:#?}");
    }
}

#[tokio::test]
async fn a_history_signed_with_another_key() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    let log = second_box_log();
    let anew = |file: &Connection| {
        replace(&evidence, file, log, 2, mallory());
        relink(file, log, 2);
        sign_anew(file, log, &forger());
    };
    for against in [Against::default(), evidence.trust()] {
        let report = trying(&evidence, &file, &against, anew).await;
        assert_eq!(named(&report, log), [3, 4].into(), "{report:#?}");
        assert_eq!(of(&report, log).unwrap().proved, 0);
    }
    // The forger can name their key in the system log, too, and sign all of it.
    let whole = |file: &Connection| {
        anew(file);
        let key = forger().verifier();
        let issued = wire::LogCheckpointKeyIssued {
            name: key.name().to_string(),
            public_key: key.public().to_vec(),
        };
        replace(&evidence, file, system(), 2, issued.encode_to_vec());
        relink(file, system(), 2);
        for log in [system(), account(), box_log(), second_account()] {
            sign_anew(file, log, &forger());
        }
        file.execute(
            "DELETE FROM checkpoint WHERE log_no = ?1",
            [log_no(file, branch())],
        )
        .unwrap();
    };
    // Only who knows a key from elsewhere sees that.
    let report = trying(&evidence, &file, &Against::default(), whole).await;
    assert!(report.is_good(), "{report:#?}");
    let report = trying(&evidence, &file, &evidence.trust(), whole).await;
    assert!(!report.is_good());
    assert!(report.logs.iter().all(|log| log.proved == 0), "{report:#?}");
    let report = trying(&evidence, &file, &evidence.kept(), whole).await;
    assert!(first_break(&report, log).pos <= 3, "{report:#?}");
}

#[tokio::test]
async fn files_that_are_no_checkpoints_are_named() {
    let evidence = Evidence::laid_down().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join(second_box_log().to_string());
    std::fs::create_dir(&log).unwrap();
    for note in evidence
        .notes
        .iter()
        .filter(|note| note.statement.log == second_box_log())
    {
        let path = log.join(format!("{:016}", note.statement.size));
        std::fs::write(path, note.to_string()).unwrap();
    }
    let mut against = evidence.trust();
    against.outside.add_folder(folder.path()).unwrap();
    assert!(evidence.verify(&against).await.is_good());
    assert_eq!(against.outside.all().len(), 2);

    let note: &Note = &evidence.notes[0];
    std::fs::write(log.join("damaged"), note.to_string().replace("log", "lug")).unwrap();
    std::fs::write(log.join(".half"), "on its way").unwrap();
    against = evidence.trust();
    against.outside.add_folder(folder.path()).unwrap();
    let report = evidence.verify(&against).await;
    let told: Vec<_> = report.findings.iter().map(|found| &found.what).collect();
    assert!(told.len() == 1 && told[0].contains("damaged"), "{told:?}");
}
