//! Which events somebody wants to see.

use cocoonbox_events::{Kind, Recorded};

use crate::line::Line;

/// What is to be shown. Everything empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Streams that begin with one of these.
    pub streams: Vec<String>,
    /// Kinds that are one of these or begin with one and a dot: `box` and `box.` show `box.running`.
    pub kinds: Vec<String>,
    /// The actor as a [`Line`] has it, or only its kind: `user:7f`, `system`.
    pub actor: Option<String>,
    /// Not before, microseconds since the epoch.
    pub from_us: Option<i64>,
    /// Before, microseconds since the epoch.
    pub to_us: Option<i64>,
    /// Somewhere in the payload's JSON, whatever the case.
    pub text: Option<String>,
}

impl Filter {
    /// Returns the event as a line, if it is wanted.
    pub fn line(&self, event: &Recorded) -> Option<Line> {
        self.wants(event)
            .then(|| Line::of(event))
            .filter(|line| self.wants_line(line))
    }

    fn wants(&self, event: &Recorded) -> bool {
        let kind = Kind::from_number(event.kind).map_or("", Kind::name);
        let one_of = |list: &[String], matches: &dyn Fn(&str) -> bool| {
            list.is_empty() || list.iter().any(|wanted| matches(wanted))
        };
        one_of(&self.streams, &|wanted| {
            event.stream.as_str().starts_with(wanted)
        }) && one_of(&self.kinds, &|wanted| {
            let wanted = wanted.strip_suffix('.').unwrap_or(wanted);
            kind.strip_prefix(wanted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }) && self.from_us.is_none_or(|from| event.recorded_us >= from)
            && self.to_us.is_none_or(|to| event.recorded_us < to)
    }

    /// What can only be said of a rendered event.
    fn wants_line(&self, line: &Line) -> bool {
        let actor = self.actor.as_ref().is_none_or(|wanted| {
            line.actor
                .strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        });
        let text = self.text.as_ref().is_none_or(|wanted| {
            !line.payload.is_null()
                && line
                    .payload
                    .to_string()
                    .to_lowercase()
                    .contains(&wanted.to_lowercase())
        });
        actor && text
    }
}
