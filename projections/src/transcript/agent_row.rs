//! One agent of a box.

use cocoonbox_proto::{
    agent::v1::{self as wire, PendingApproval, PendingQuestion},
    log::v1 as log,
};
use prost::Message;
use serde::{Deserialize, Serialize, Serializer};

use super::OpenCall;

/// Of what waits, and of branches, so many are listed: as many prompts as an agent takes. A box may write more,
/// and the row is written anew with each event.
const LISTED_MAX: usize = 64;

/// One agent of a box.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow {
    pub id: String,
    pub name: String,
    /// Number of [`log::Wire`].
    pub wire: i32,
    pub model: String,
    pub output_tokens_max: u32,
    /// `idle`, `working`, `waiting`, `waiting for budget` or `closed`.
    pub state: AgentState,
    /// Text form of the offset key of the last event, streamed output left out.
    pub offset_key: String,
    /// Approvals and questions that wait for a person.
    pub approvals_waiting: u32,
    /// The model call that is out.
    pub call: Option<OpenCall>,
    /// What else there is to say of it: a [`wire::Agent`] without the fields above.
    #[serde(serialize_with = "readable")]
    pub(super) more: Vec<u8>,
}

/// People who compare rows are shown fields, not bytes.
fn readable<S: Serializer>(more: &Vec<u8>, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable()
        && let Some(fields) = cocoonbox_proto::json::render("cocoonbox.agent.v1.Agent", more)
    {
        return fields.serialize(serializer);
    }
    more.serialize(serializer)
}

/// Adds to a list that is bounded.
fn list<T>(listed: &mut Vec<T>, one: T) {
    if listed.len() < LISTED_MAX {
        listed.push(one);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentState {
    #[default]
    Idle,
    Working,
    /// For a person.
    Waiting,
    WaitingForBudget,
    Closed,
}

impl AgentState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::WaitingForBudget => "waiting for budget",
            Self::Closed => "closed",
        }
    }
}

impl AgentRow {
    /// Returns what else there is to say of it.
    pub fn more(&self) -> wire::Agent {
        // Written by this build, or it would not be in these rows.
        wire::Agent::decode(self.more.as_slice()).unwrap_or_default()
    }

    /// Changes what else there is to say of it.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut wire::Agent)) {
        let mut more = self.more();
        change(&mut more);
        self.more = more.encode_to_vec();
    }

    pub(super) fn set_models(&mut self, models: log::ModelRoles, of_box: bool) {
        let main = models.main.clone().unwrap_or_default();
        self.wire = main.wire;
        self.output_tokens_max = main.output_tokens_max;
        self.model.clone_from(&main.model);
        self.change(|more| {
            more.model = Some(main);
            more.models = Some(models);
            more.models_of_box = of_box;
        });
    }

    pub(super) fn asks(&mut self, approval: PendingApproval) {
        self.change(|more| list(&mut more.approvals, approval));
        self.waits();
    }

    pub(super) fn questions(&mut self, question: PendingQuestion) {
        self.change(|more| list(&mut more.questions, question));
        self.waits();
    }

    fn waits(&mut self) {
        self.approvals_waiting = self.approvals_waiting.saturating_add(1);
        self.state = AgentState::Waiting;
    }

    /// An approval or a question waits no longer.
    pub(super) fn answered(&mut self, request_id: &str) {
        self.change(|more| {
            more.approvals.retain(|one| one.approval_id != request_id);
            more.questions.retain(|one| one.question_id != request_id);
        });
        self.approvals_waiting = self.approvals_waiting.saturating_sub(1);
        if self.approvals_waiting == 0 && self.state == AgentState::Waiting {
            self.state = AgentState::Working;
        }
    }

    /// Nothing waits any more.
    pub(super) fn rests(&mut self) {
        self.change(|more| {
            more.approvals.clear();
            more.questions.clear();
        });
        self.approvals_waiting = 0;
        if self.state != AgentState::Closed {
            self.state = AgentState::Idle;
        }
    }

    /// A prompt waits.
    pub(super) fn queues(&mut self, prompt_id: String) {
        self.change(|more| list(&mut more.queued_prompt_ids, prompt_id));
    }

    /// The conversation goes on in a branch.
    pub(super) fn branches(&mut self, branch_id: &str) {
        self.change(|more| {
            if more.branch_ids.is_empty() {
                // The first one has no name.
                more.branch_ids.push(String::new());
            }
            list(&mut more.branch_ids, branch_id.to_owned());
            branch_id.clone_into(&mut more.branch_id);
        });
    }

    /// A prompt waits no longer.
    pub(super) fn takes_up(&mut self, prompt_ids: &[String]) {
        self.change(|more| more.queued_prompt_ids.retain(|id| !prompt_ids.contains(id)));
    }
}

impl From<AgentRow> for wire::Agent {
    fn from(row: AgentRow) -> Self {
        let more = row.more();
        Self {
            id: row.id,
            name: row.name,
            model: Some(log::ModelChoice {
                wire: row.wire,
                model: row.model,
                output_tokens_max: row.output_tokens_max,
                ..more.model.clone().unwrap_or_default()
            }),
            state: row.state.as_str().to_owned(),
            offset_key: row.offset_key,
            ..more
        }
    }
}
