//! A loop under test, and how its history is told.

use cocoonbox_commands::agent::{Command, Entry, Next, Rejection, State};
use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    AgentCreated, ApprovalPolicy, ApprovalRules, Block, ModelChoice, ModelRole, Risk, RiskRule,
    StopReason, TextBlock, TokenUsage, ToolUseBlock, Verdict, Wire, agent_approval_decided::Scope,
    agent_model_failed::Reason, agent_tool_finished::Outcome, block,
};

use crate::machine::Machine;

/// A loop under test: draws ids, and writes down what happened.
pub(crate) struct Loop {
    pub(crate) machine: Machine<State>,
    drawn: u32,
    told: usize,
    /// What the clock shows; 0 = there is none.
    pub(crate) now_us: i64,
}

impl Loop {
    pub(crate) fn new(approval: ApprovalPolicy, steps_max: u32) -> Self {
        Self::with(AgentCreated {
            approval: approval.into(),
            steps_max,
            ..agent()
        })
    }

    /// With these verdicts, and every other risk as it is without.
    pub(crate) fn ruled(rules: &[(Risk, Verdict)]) -> Self {
        Self::with(AgentCreated {
            rules: Some(ruled(rules)),
            ..agent()
        })
    }

    pub(crate) fn with(created: AgentCreated) -> Self {
        let mut machine = Machine::new();
        machine.send(&Command::Create(Box::new(created))).unwrap();
        Self {
            machine,
            drawn: 0,
            told: 1,
            now_us: 0,
        }
    }

    /// In the middle of a turn: a prompt was taken up, and the first call is out.
    pub(crate) fn going(mut self) -> Self {
        self.prompt("go");
        self.settle();
        self
    }

    pub(crate) fn state(&self) -> &State {
        &self.machine.state
    }

    pub(crate) fn send(&mut self, command: Command) -> Result<Vec<AgentEvent>, Rejection> {
        self.machine.send(&command)
    }

    pub(crate) fn draw(&mut self) -> String {
        self.drawn += 1;
        format!("id{}", self.drawn)
    }

    pub(crate) fn advance(&mut self) -> Vec<AgentEvent> {
        let command = Command::Advance {
            turn_id: self.draw(),
            call_id: self.draw(),
            approval_id: self.draw(),
            now_us: self.now_us,
        };
        self.send(command).unwrap()
    }

    /// Writes every step that is due.
    pub(crate) fn settle(&mut self) -> Next {
        while self.state().next() == Next::Advance {
            assert!(!self.advance().is_empty(), "due, but nothing was written");
        }
        self.state().next()
    }

    pub(crate) fn call_id(&self) -> String {
        match self.state().next() {
            Next::CallModel { call_id, .. } => call_id,
            other => panic!("no call is out: {other:?}"),
        }
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        let prompt_id = self.draw();
        self.send(Command::Prompt {
            prompt_id,
            text: text.into(),
            steer: false,
            images: Vec::new(),
        })
        .unwrap();
    }

    pub(crate) fn reply(&mut self, blocks: Vec<Block>, stop: StopReason) {
        let call_id = self.call_id();
        self.send(replied(&call_id, blocks, stop)).unwrap();
    }

    pub(crate) fn fail(&mut self, reason: Reason, retryable: bool, retry_after_ms: u64) {
        let (call_id, detail) = (self.call_id(), "down".to_owned());
        self.send(Command::ModelFailed {
            call_id,
            reason,
            detail,
            retryable,
            retry_after_ms,
        })
        .unwrap();
    }

    pub(crate) fn finish(&mut self, tool_call_id: &str, content: &str) {
        self.send(finished(tool_call_id, Outcome::Ok, content))
            .unwrap();
    }

    /// Says something to the turn under way.
    pub(crate) fn steer(&mut self, text: &str) -> String {
        let prompt_id = self.draw();
        self.send(Command::Prompt {
            prompt_id: prompt_id.clone(),
            text: text.into(),
            steer: true,
            images: Vec::new(),
        })
        .unwrap();
        prompt_id
    }

    /// Ends the call that is out with words, counted by the vendor.
    pub(crate) fn say(&mut self, words: &str, tokens: u64) {
        let mut command = replied(&self.call_id(), vec![text(words)], StopReason::EndTurn);
        if let Command::Replied { usage, .. } = &mut command {
            usage.input = tokens;
        }
        self.send(command).unwrap();
    }

    /// Asks for a tool and lets it finish.
    pub(crate) fn use_tool(&mut self, id: &str, content: &str) {
        self.reply(vec![tool_with(id, "read", "{}")], StopReason::ToolUse);
        self.settle();
        self.finish(id, content);
    }

    /// Returns the results of the last tools.
    pub(crate) fn results(&self) -> Vec<String> {
        let last = self.state().conversation().into_iter().rev();
        let mut results = last.filter_map(|entry| match &*entry {
            Entry::ToolResults(results) => Some(results.clone()),
            Entry::User { .. } | Entry::Assistant { .. } => None,
        });
        let results = results.next().unwrap_or_default();
        results.into_iter().map(|result| result.content).collect()
    }

    /// Returns the conversation with a word for each entry.
    pub(crate) fn conversation(&self) -> Vec<String> {
        self.state()
            .conversation()
            .iter()
            .map(|entry| word(entry))
            .collect()
    }

    /// What was written since the last time, one line an event.
    pub(crate) fn told(&mut self) -> String {
        let lines: Vec<String> = self.machine.history[self.told..].iter().map(line).collect();
        self.told = self.machine.history.len();
        lines.join("\n")
    }
}

pub(crate) fn replied(call_id: &str, blocks: Vec<Block>, stop: StopReason) -> Command {
    Command::Replied {
        call_id: call_id.into(),
        blocks,
        stop,
        vendor_stop: "v".into(),
        usage: TokenUsage::default(),
        vendor_request_id: String::new(),
    }
}

pub(crate) fn finished(tool_call_id: &str, outcome: Outcome, content: &str) -> Command {
    Command::ToolFinished {
        tool_call_id: tool_call_id.into(),
        outcome,
        content: content.into(),
        exec_id: String::new(),
        images: Vec::new(),
        blob: String::new(),
    }
}

pub(crate) fn text(text: &str) -> Block {
    Block {
        block: Some(block::Block::Text(TextBlock { text: text.into() })),
    }
}

pub(crate) fn tool(id: &str, name: &str) -> Block {
    let args_json = format!("{{\"of\":\"{id}\"}}");
    let tool = ToolUseBlock {
        tool_call_id: id.into(),
        name: name.into(),
        args_json,
        ..ToolUseBlock::default()
    };
    Block {
        block: Some(block::Block::ToolUse(tool)),
    }
}

pub(crate) fn tool_with(id: &str, name: &str, args_json: &str) -> Block {
    let tool = ToolUseBlock {
        tool_call_id: id.into(),
        name: name.into(),
        args_json: args_json.into(),
        ..ToolUseBlock::default()
    };
    Block {
        block: Some(block::Block::ToolUse(tool)),
    }
}

pub(crate) fn model(name: &str) -> ModelChoice {
    ModelChoice {
        wire: Wire::AnthropicMessages.into(),
        model: name.into(),
        output_tokens_max: 9,
        ..ModelChoice::default()
    }
}

pub(crate) fn agent() -> AgentCreated {
    AgentCreated {
        agent_id: "a".into(),
        name: "main".into(),
        model: Some(model("m")),
        ..AgentCreated::default()
    }
}

pub(crate) fn ruled(rules: &[(Risk, Verdict)]) -> ApprovalRules {
    let rule = |(risk, verdict): &(Risk, Verdict)| RiskRule {
        risk: (*risk).into(),
        verdict: (*verdict).into(),
    };
    ApprovalRules {
        rules: rules.iter().map(rule).collect(),
        ttl_s: 60,
    }
}

pub(crate) fn answer(approval_id: &str, allowed: bool) -> Command {
    Command::Approve {
        approval_id: approval_id.into(),
        allowed,
        comment: "not that".into(),
        scope: Scope::Once,
        now_us: 0,
    }
}

/// Returns the approval that is asked for.
#[track_caller]
pub(crate) fn asked(next: &Next) -> String {
    match next {
        Next::Wait(waiting) => waiting.approvals[0].approval_id.clone(),
        other => panic!("nobody is asked: {other:?}"),
    }
}

fn word(entry: &Entry) -> String {
    match entry {
        Entry::User { text, .. } => format!("user {text}"),
        Entry::Assistant { blocks } => {
            let block = |block: &Block| match block.block.as_ref().unwrap() {
                block::Block::Text(text) => text.text.clone(),
                block::Block::ToolUse(tool) => format!("+{}", tool.tool_call_id),
                block::Block::Thinking(_) => "thinking".to_owned(),
                block::Block::Vendor(_) => "vendor".to_owned(),
            };
            format!("agent {}", blocks.iter().map(block).collect::<String>())
        }
        Entry::ToolResults(results) => {
            let content = |result: &cocoonbox_commands::agent::ToolResult| result.content.clone();
            format!(
                "results {}",
                results.iter().map(content).collect::<String>()
            )
        }
    }
}

pub(crate) fn line(event: &AgentEvent) -> String {
    let name = event.kind().name().trim_start_matches("agent.");
    let rest = match event {
        AgentEvent::ModelCalled(e) => {
            let role = match e.role() {
                ModelRole::Main => "",
                ModelRole::Computer => " computer",
                ModelRole::Summarize => " summarize",
            };
            let model = e.model.as_ref().unwrap().model.as_str();
            let model = if model == "m" {
                String::new()
            } else {
                format!(" {model}")
            };
            let steers = if e.prompt_ids.is_empty() {
                ""
            } else {
                " steered"
            };
            format!("#{}{role}{model}{steers}", e.attempt)
        }
        AgentEvent::Compacted(e) => format!("{} entries", e.entries),
        AgentEvent::QuestionAsked(e) => e.question.clone(),
        AgentEvent::QuestionAnswered(e) => e.answer.clone(),
        AgentEvent::TodoSet(e) => format!("{} items", e.items.len()),
        AgentEvent::ModelReplied(e) => e.stop().as_str_name().to_owned(),
        AgentEvent::ModelFailed(e) => e.reason().as_str_name().to_owned(),
        AgentEvent::ToolCalled(e) => format!("{} {}", e.tool_call_id, e.name),
        AgentEvent::ToolFinished(e) => {
            format!("{} {}", e.tool_call_id, e.outcome().as_str_name())
        }
        AgentEvent::ApprovalRequested(e) => e.tool_call_id.clone(),
        AgentEvent::ApprovalDecided(e) => e.allowed.to_string(),
        AgentEvent::TurnStarted(e) => format!("{} prompts", e.prompt_ids.len()),
        AgentEvent::TurnEnded(e) => e.outcome().as_str_name().to_owned(),
        AgentEvent::Created(_)
        | AgentEvent::Renamed(_)
        | AgentEvent::Closed(_)
        | AgentEvent::PromptReceived(_)
        | AgentEvent::PromptWithdrawn(_)
        | AgentEvent::ModelsSet(_)
        | AgentEvent::RulesSet(_)
        | AgentEvent::Branched(_)
        | AgentEvent::BranchSelected(_)
        | AgentEvent::Instructed(_)
        | AgentEvent::ApprovalExpired(_)
        | AgentEvent::OutputStreamed(_)
        | AgentEvent::CancelRequested(_) => String::new(),
    };
    format!("{name} {rest}").trim_end().to_owned()
}

pub(crate) fn ids(next: &Next) -> Vec<&str> {
    match next {
        Next::RunTools(calls) => calls
            .iter()
            .map(|call| call.tool_call_id.as_str())
            .collect(),
        other => panic!("no tools: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn story(told: &str, expected: &[&str]) {
    assert_eq!(told, expected.join("\n"), "\n{told}\n");
}
