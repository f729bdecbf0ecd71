//! Which model plays which role.

use cocoonbox_proto::log::v1::{ModelChoice, ModelRole, ModelRoles};

use super::{state::State, turn::Turn};

/// Tokens that fit one call where the choice says nothing.
const CONTEXT_TOKENS_DEFAULT: u32 = 200_000;
/// Tokens of a reply where the choice says nothing.
const OUTPUT_TOKENS_DEFAULT: u32 = 8_192;
/// Part of a model's room that a conversation may fill, in percent.
const FULL_PERCENT: u64 = 80;

impl State {
    /// Returns the model of the agent's own turns.
    pub fn model(&self) -> &ModelChoice {
        of_role(&self.models, self.role)
    }

    /// Returns the model that a call in this role is made to next: the first of those that the step has
    /// not given up on.
    pub(super) fn candidate(&self, role: ModelRole, turn: &Turn) -> Option<&ModelChoice> {
        let fallbacks = self.models.fallbacks.iter();
        std::iter::once(of_role(&self.models, role))
            .chain(fallbacks)
            .find(|model| !turn.given_up.contains(model))
    }

    /// Returns how many tokens a conversation may have before it is summed up: by the room of the model that
    /// is told it next, which may be a fallback with less.
    pub(super) fn tokens_full(&self) -> u64 {
        let next = self.turn.as_ref();
        let next = next.and_then(|turn| self.candidate(self.role, turn));
        input_tokens_max(next.unwrap_or_else(|| self.model())) * FULL_PERCENT / 100
    }
}

/// Returns how many tokens a model can be told.
pub(super) fn input_tokens_max(model: &ModelChoice) -> u64 {
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    let context = or(model.context_tokens_max, CONTEXT_TOKENS_DEFAULT);
    let output = or(model.output_tokens_max, OUTPUT_TOKENS_DEFAULT);
    // A reserve as large as the room itself is a slip: half of it is for the conversation then.
    let output = output.min(context / 2);
    u64::from(context - output)
}

pub(super) fn of_role(models: &ModelRoles, role: ModelRole) -> &ModelChoice {
    static NONE: ModelChoice = ModelChoice {
        wire: 0,
        model: String::new(),
        output_tokens_max: 0,
        images: false,
        context_tokens_max: 0,
        thinking_tokens_max: 0,
    };
    let own = match role {
        ModelRole::Main => None,
        ModelRole::Computer => models.computer.as_ref(),
        ModelRole::Summarize => models.summarize.as_ref(),
    };
    own.or(models.main.as_ref()).unwrap_or(&NONE)
}
