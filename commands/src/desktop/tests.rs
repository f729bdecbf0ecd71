use cocoonbox_proto::log::v1::{DesktopTyped, Image, desktop_part_failed::Reason};

use super::*;

struct Desktop(State);

impl Desktop {
    /// `windows` and `panel` stand on `screen`, `panel` on `windows` too; `bus` stands alone.
    fn begun() -> Self {
        let mut desktop = Self(State::default());
        assert_eq!(desktop.take(&begin("s1")), ["desktop.started"]);
        desktop
    }

    /// Decides, and takes the events in.
    fn take(&mut self, command: &Command) -> Vec<&'static str> {
        let events = self.0.decide(command).unwrap();
        for event in &events {
            self.0 = self.0.clone().evolve(event).unwrap();
        }
        events.iter().map(|event| event.kind().name()).collect()
    }

    fn up(&mut self, report: u64, part: &str) -> Vec<&'static str> {
        self.take(&started("s1", report, part))
    }

    fn all_up(&mut self) {
        for (report, part) in (1..).zip(["bus", "screen", "windows"]) {
            assert_eq!(self.up(report, part), ["desktop.part_started"]);
        }
        let last = self.up(4, "panel");
        assert_eq!(last, ["desktop.part_started", "desktop.ready"]);
    }
}

fn begin(session: &str) -> Command {
    let part = |(name, needs): (&str, &[&str])| DesktopPart {
        name: name.to_owned(),
        needs: needs.iter().map(ToString::to_string).collect(),
        on_demand: false,
    };
    let parts: [(&str, &[&str]); 4] = [
        ("bus", &[]),
        ("screen", &[]),
        ("windows", &["screen"]),
        ("panel", &["windows"]),
    ];
    Command::Begin(DesktopStarted {
        session: session.to_owned(),
        wake_id: "w1".to_owned(),
        parts: parts.into_iter().map(part).collect(),
    })
}

fn started(session: &str, report: u64, part: &str) -> Command {
    Command::PartStarted {
        session: session.to_owned(),
        since_ms: 100 * report,
        started: DesktopPartStarted {
            report,
            part: part.to_owned(),
            took_ms: 5,
        },
    }
}

fn failed(report: u64, part: &str) -> Command {
    Command::PartFailed {
        session: "s1".to_owned(),
        failed: DesktopPartFailed {
            report,
            part: part.to_owned(),
            reason: Reason::Signalled.into(),
            code: 9,
            failures: 1,
            retry_ms: 100,
            ..DesktopPartFailed::default()
        },
    }
}

#[test]
fn it_is_ready_once_every_part_answers() {
    let mut desktop = Desktop::begun();
    assert!(!desktop.0.is_ready());
    desktop.all_up();
    assert!(desktop.0.is_ready());
    assert_eq!(desktop.0.ready_ms, Some(400));
}

#[test]
fn what_runs_on_demand_is_not_waited_for() {
    let mut desktop = Desktop(State::default());
    let Command::Begin(mut asked) = begin("s1") else {
        panic!("it begins");
    };
    asked.parts[3].on_demand = true;
    desktop.take(&Command::Begin(asked));
    desktop.up(1, "bus");
    desktop.up(2, "screen");
    assert_eq!(
        desktop.up(3, "windows"),
        ["desktop.part_started", "desktop.ready"]
    );
    assert_eq!(desktop.up(4, "panel"), ["desktop.part_started"]);
    assert_eq!(desktop.take(&failed(5, "panel")), ["desktop.part_failed"]);
    assert!(desktop.0.is_ready());
    assert_eq!(desktop.0.failing().collect::<Vec<_>>(), ["panel"]);
}

#[test]
fn a_part_that_fails_takes_along_what_stands_on_it() {
    let mut desktop = Desktop::begun();
    desktop.all_up();
    assert_eq!(desktop.take(&failed(5, "screen")), ["desktop.part_failed"]);
    let up: Vec<_> = desktop.0.parts.iter().map(|part| part.up).collect();
    assert_eq!(up, [true, false, false, false]);
    assert_eq!(desktop.0.failing().collect::<Vec<_>>(), ["screen"]);
    assert_eq!(desktop.up(6, "screen"), ["desktop.part_started"]);
    assert_eq!(desktop.0.failing().count(), 0);
    assert_eq!(desktop.up(7, "windows"), ["desktop.part_started"]);
    let last = desktop.up(8, "panel");
    assert_eq!(last, ["desktop.part_started", "desktop.ready"]);
    // The first time is what a start of the box took.
    assert_eq!(desktop.0.ready_ms, Some(400));
}

#[test]
fn an_answer_that_came_before_a_loss_was_known_does_not_count() {
    let mut desktop = Desktop::begun();
    desktop.all_up();
    desktop.take(&failed(5, "screen"));
    desktop.up(6, "windows");
    assert_eq!(desktop.up(7, "screen"), ["desktop.part_started"]);
    desktop.up(8, "panel");
    assert!(!desktop.0.is_ready());
    desktop.up(9, "windows");
    let last = desktop.up(10, "panel");
    assert_eq!(last, ["desktop.part_started", "desktop.ready"]);
}

#[test]
fn reports_that_are_repeated_change_nothing() {
    let mut desktop = Desktop::begun();
    desktop.all_up();
    let before = desktop.0.clone();
    assert!(desktop.take(&begin("s1")).is_empty());
    for report in 1..=4 {
        assert!(desktop.up(report, "screen").is_empty());
        assert!(desktop.take(&failed(report, "screen")).is_empty());
    }
    assert_eq!(desktop.0, before);
}

#[test]
fn another_session_begins_with_nothing_up() {
    let mut desktop = Desktop::begun();
    desktop.all_up();
    assert_eq!(desktop.take(&begin("s2")), ["desktop.started"]);
    assert!(!desktop.0.is_ready());
    assert_eq!(
        desktop.0.decide(&started("s1", 9, "bus")),
        Err(Rejection::OtherSession {
            session: "s1".to_owned()
        })
    );
    assert_eq!(
        desktop.take(&started("s2", 1, "bus")),
        ["desktop.part_started"]
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let desktop = Desktop::begun().0;
    let unknown = Rejection::UnknownPart {
        part: "nothing".to_owned(),
    };
    assert_eq!(desktop.decide(&failed(1, "nothing")), Err(unknown));
    let Command::Begin(asked) = begin("s2") else {
        panic!("it begins");
    };
    let with = |change: fn(&mut DesktopStarted)| {
        let mut asked = asked.clone();
        change(&mut asked);
        desktop.decide(&Command::Begin(asked)).unwrap_err()
    };
    assert_eq!(
        with(|asked| asked.parts.reverse()),
        Rejection::UnknownPart {
            part: "windows".to_owned()
        }
    );
    let bad = Rejection::BadName { field: "session" };
    assert_eq!(with(|asked| asked.session.clear()), bad);
    let bad = Rejection::BadName { field: "part" };
    assert_eq!(with(|asked| asked.parts[0].name = "x".repeat(65)), bad);
    let many = Rejection::TooManyParts { parts: 40 };
    assert_eq!(
        with(|asked| asked.parts.resize(40, DesktopPart::default())),
        many
    );
    // An event of a desktop that never began is no history.
    let event = DesktopEvent::Ready(DesktopReady::default());
    assert!(State::default().evolve(&event).is_err());
}

#[test]
fn long_words_are_cut_to_their_end() {
    let mut desktop = Desktop::begun();
    let Command::PartFailed { session, failed } = failed(1, "bus") else {
        panic!("it fails");
    };
    let output = format!("{}é the end", "x".repeat(OUTPUT_BYTES_MAX));
    let failed = DesktopPartFailed { output, ..failed };
    let events = desktop.0.decide(&Command::PartFailed { session, failed });
    let Ok([DesktopEvent::PartFailed(kept)]) = events.as_deref() else {
        panic!("{events:?}");
    };
    assert_eq!(kept.output.len(), OUTPUT_BYTES_MAX);
    assert!(kept.output.ends_with("xé the end"));
    desktop.up(1, "bus");
}

#[test]
fn a_picture_is_written_once_and_outlives_its_session() {
    let picture = |blob: &str| {
        let image = Image {
            blob: blob.to_owned(),
            ..Image::default()
        };
        Command::Picture(DesktopPictured {
            display: 0,
            image: Some(image),
        })
    };
    let nothing = State::default().decide(&picture("a"));
    assert_eq!(nothing, Err(Rejection::NotBegun));
    let mut desktop = Desktop::begun();
    assert_eq!(desktop.0.decide(&picture("")), Err(Rejection::NoImage));
    assert_eq!(desktop.take(&picture("a")), ["desktop.pictured"]);
    assert!(desktop.take(&picture("a")).is_empty());
    desktop.take(&begin("s2"));
    assert!(desktop.take(&picture("a")).is_empty());
    assert_eq!(desktop.take(&picture("b")), ["desktop.pictured"]);
}

#[test]
fn what_was_left_behind_is_written_once_and_bounded() {
    let typed = DesktopTyped {
        role: "entry".to_owned(),
        name: "\u{e4}".repeat(TITLE_BYTES_MAX),
        text: "x".repeat(TYPED_BYTES_MAX + 1),
    };
    let back = Command::HandBack(DesktopHandedBack {
        fence: 3,
        label: "Anna".to_owned(),
        windows_after: vec![DesktopWindow::default(); WINDOWS_MAX + 1],
        typed: vec![typed; TYPED_MAX + 1],
        ..DesktopHandedBack::default()
    });
    let nothing = State::default().decide(&back);
    assert_eq!(nothing, Err(Rejection::NotBegun));
    let mut desktop = Desktop::begun();
    assert_eq!(desktop.take(&back), ["desktop.handed_back"]);
    assert!(desktop.take(&back).is_empty());
    let kept = &desktop.0.handed_back[&SHARED_DISPLAY];
    assert_eq!(
        (kept.windows_after.len(), kept.typed.len()),
        (WINDOWS_MAX, TYPED_MAX)
    );
    let typed = &kept.typed[0];
    assert_eq!(
        (typed.name.len(), typed.text.len()),
        (TITLE_BYTES_MAX, TYPED_BYTES_MAX)
    );
    // It outlives its session.
    desktop.take(&begin("s2"));
    assert!(desktop.take(&back).is_empty());
}

#[test]
fn a_display_is_one_agents_until_it_is_closed_or_the_box_sleeps() {
    let open = |display, agent_id: &str| {
        Command::OpenDisplay(DesktopDisplayOpened {
            display,
            agent_id: agent_id.to_owned(),
        })
    };
    let close = Command::CloseDisplay(DesktopDisplayClosed { display: 1 });
    let nothing = State::default().decide(&open(1, "a"));
    assert_eq!(nothing, Err(Rejection::NotBegun));
    let mut desktop = Desktop::begun();
    assert!(desktop.take(&close).is_empty());
    for display in [SHARED_DISPLAY, DISPLAY_MAX + 1] {
        let refused = desktop.0.decide(&open(display, "a"));
        assert_eq!(refused, Err(Rejection::NoSuchDisplay { display }));
    }
    assert_eq!(desktop.take(&open(1, "a")), ["desktop.display_opened"]);
    assert!(desktop.take(&open(1, "a")).is_empty());
    let taken = Err(Rejection::DisplayTaken {
        display: 1,
        agent_id: "a".to_owned(),
    });
    assert_eq!(desktop.0.decide(&open(1, "b")), taken);
    assert_eq!(desktop.take(&close), ["desktop.display_closed"]);
    assert_eq!(desktop.take(&open(1, "b")), ["desktop.display_opened"]);
    // Who gives them out does not end with the parts, and ends with the wake.
    desktop.take(&begin("s2"));
    assert!(desktop.take(&open(1, "b")).is_empty());
    let Command::Begin(mut next) = begin("s3") else {
        unreachable!("it begins");
    };
    next.wake_id = "w2".to_owned();
    desktop.take(&Command::Begin(next));
    assert_eq!(desktop.take(&open(1, "a")), ["desktop.display_opened"]);
}
