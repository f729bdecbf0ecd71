//! Which routine an agent works for.

use std::collections::HashMap;

use cocoonbox_projections::RoutineRow;

/// The routines of a user by the agents that have their conversations.
pub struct Callers(HashMap<(String, String), String>);

impl Callers {
    pub fn new(routines: Vec<RoutineRow>) -> Self {
        let by_agent = |row: RoutineRow| ((row.box_id, row.agent_id), row.id);
        Self(routines.into_iter().map(by_agent).collect())
    }

    /// Returns the routine of an agent, or of the agent whose subagent it is; empty if it has none.
    pub fn of(&self, box_id: &str, agent_id: &str) -> String {
        // The ids of subagents begin with those of their agents.
        let first = agent_id.split('.').next().unwrap_or_default();
        let key = (box_id.to_owned(), first.to_owned());
        self.0.get(&key).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subagents_count_for_their_agent() {
        let callers = Callers::new(vec![RoutineRow {
            id: "r1".into(),
            box_id: "b1".into(),
            agent_id: "a1".into(),
            ..RoutineRow::default()
        }]);
        assert_eq!(callers.of("b1", "a1"), "r1");
        assert_eq!(callers.of("b1", "a1.2.1"), "r1");
        assert_eq!(callers.of("b1", "a12"), "");
        assert_eq!(callers.of("b2", "a1"), "");
    }
}
