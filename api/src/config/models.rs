//! `[model]`: which model plays which role.

use cocoonbox_proto::log::v1::{ModelChoice, ModelRoles, Wire};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ConfigError;
use crate::gateway::GatewayConfig;

/// Enough for any coding turn; a reply that needs more is cut and says so.
const OUTPUT_TOKENS_MAX: u32 = 16_000;
/// The smallest limit of output that every vendor takes.
const OUTPUT_TOKENS_MIN: u32 = 16;
/// The smallest budget for thinking that Anthropic takes.
const THINKING_TOKENS_MIN: u32 = 1_024;
/// Each is tried once in a step that fails; more are minutes of waiting for nothing.
const FALLBACKS_MAX: usize = 8;

const WIRES: [(&str, Wire); 3] = [
    ("anthropic", Wire::AnthropicMessages),
    ("openai", Wire::OpenaiChat),
    ("openai-responses", Wire::OpenaiResponses),
];

/// A model, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `anthropic`, `openai` (chat completions, also for compatible servers) or `openai-responses`: the wire.
    pub wire: String,
    pub model: String,
    #[serde(default = "output_tokens_max")]
    pub output_tokens_max: u32,
    /// Whether the model is shown pictures. Absent: yes, unless it is behind a base URL of the operator's on
    /// OpenAI's wires, where nobody knows.
    pub images: Option<bool>,
    /// Tokens that fit one call, reply included; 0 = 200,000.
    #[serde(default)]
    pub context_tokens_max: u32,
    /// Tokens of a reply that may be thinking; 0 = the model does not think, or as its vendor likes.
    #[serde(default)]
    pub thinking_tokens_max: u32,
}

/// The table `[model]`: the main model, and beneath it those of other roles. The fields of [`Model`] stand here
/// again, since serde takes a flattened struct only where unknown keys are allowed, and a misspelt key has to
/// be an error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    pub wire: String,
    pub model: String,
    #[serde(default = "output_tokens_max")]
    pub output_tokens_max: u32,
    pub images: Option<bool>,
    #[serde(default)]
    pub context_tokens_max: u32,
    #[serde(default)]
    pub thinking_tokens_max: u32,
    /// Turns of the computer subagent.
    pub computer: Option<Model>,
    /// Compaction into a summary.
    pub summarize: Option<Model>,
    /// Tried in order when a call has failed for good.
    #[serde(default)]
    pub fallbacks: Vec<Model>,
}

/// The models of an installation. A role that has none is played by `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Models {
    pub main: Model,
    pub computer: Option<Model>,
    pub summarize: Option<Model>,
    pub fallbacks: Vec<Model>,
}

/// Why the models cannot be used as they are configured.
#[derive(Debug, thiserror::Error)]
pub enum BadModel {
    #[error("wire `{wire}` is none of `anthropic`, `openai` and `openai-responses`")]
    Wire { wire: String },
    #[error("the model has no name")]
    NoName,
    #[error(
        "the wire is `{wire}`, but no such vendor is configured: set `{key}_API_KEY`, or \
         `{key}_BASE_URL` for a server that speaks the same wire"
    )]
    NoVendor { wire: String, key: &'static str },
    #[error("`output_tokens_max` is {given}, and has to be at least {OUTPUT_TOKENS_MIN}")]
    Output { given: u32 },
    #[error("`thinking_tokens_max` is {given}, and has to be 0 or at least {THINKING_TOKENS_MIN}")]
    Thinking { given: u32 },
    #[error(
        "`thinking_tokens_max` ({thinking}) leaves less than {THINKING_TOKENS_MIN} of \
         `output_tokens_max` ({output}) for the answer"
    )]
    ThinkingAll { thinking: u32, output: u32 },
    #[error(
        "`context_tokens_max` ({context}) has to be more than `output_tokens_max` ({output}), which is \
         part of it"
    )]
    Context { context: u32, output: u32 },
    #[error("there are {given} fallbacks, and at most {FALLBACKS_MAX} are tried")]
    Fallbacks { given: usize },
}

impl Model {
    /// Returns a model with what is the default of everything else.
    pub fn named(wire: &str, model: &str) -> Self {
        Self {
            wire: wire.to_owned(),
            model: model.to_owned(),
            output_tokens_max: OUTPUT_TOKENS_MAX,
            images: None,
            context_tokens_max: 0,
            thinking_tokens_max: 0,
        }
    }

    /// Checks it and settles what was left open.
    fn settle(&mut self, gateway: &GatewayConfig) -> Result<(), BadModel> {
        let wire = self.wire.as_str();
        if !WIRES.iter().any(|(name, _)| *name == wire) {
            let wire = wire.to_owned();
            return Err(BadModel::Wire { wire });
        }
        if self.model.trim().is_empty() {
            return Err(BadModel::NoName);
        }
        let (vendor, key, url) = match wire {
            "anthropic" => (&gateway.anthropic, "ANTHROPIC", super::ANTHROPIC),
            _ => (&gateway.openai, "OPENAI", super::OPENAI),
        };
        let Some(vendor) = vendor else {
            let wire = wire.to_owned();
            return Err(BadModel::NoVendor { wire, key });
        };
        let (output, thinking) = (self.output_tokens_max, self.thinking_tokens_max);
        if output < OUTPUT_TOKENS_MIN {
            return Err(BadModel::Output { given: output });
        }
        if (1..THINKING_TOKENS_MIN).contains(&thinking) {
            return Err(BadModel::Thinking { given: thinking });
        }
        if thinking > 0 && output.saturating_sub(thinking) < THINKING_TOKENS_MIN {
            return Err(BadModel::ThinkingAll { thinking, output });
        }
        let context = self.context_tokens_max;
        if context != 0 && context <= output {
            return Err(BadModel::Context { context, output });
        }
        let is_known = wire == "anthropic" || vendor.base_url == url;
        self.images.get_or_insert(is_known);
        Ok(())
    }

    fn of(choice: &ModelChoice) -> Self {
        Self {
            output_tokens_max: match choice.output_tokens_max {
                0 => OUTPUT_TOKENS_MAX,
                given => given,
            },
            images: Some(choice.images),
            context_tokens_max: choice.context_tokens_max,
            thinking_tokens_max: choice.thinking_tokens_max,
            ..Self::named(wire_name(choice.wire()), &choice.model)
        }
    }

    fn choice(&self) -> ModelChoice {
        let wire = WIRES.iter().find(|(name, _)| *name == self.wire);
        ModelChoice {
            wire: wire.map_or(Wire::Unspecified, |(_, wire)| *wire).into(),
            model: self.model.clone(),
            output_tokens_max: self.output_tokens_max,
            images: self.images.unwrap_or_default(),
            context_tokens_max: self.context_tokens_max,
            thinking_tokens_max: self.thinking_tokens_max,
        }
    }
}

/// Checks models that somebody chose for a box, and settles what was left open.
pub fn settled(mut roles: ModelRoles, gateway: &GatewayConfig) -> Result<ModelRoles, BadModel> {
    let given = roles.fallbacks.len();
    if given > FALLBACKS_MAX {
        return Err(BadModel::Fallbacks { given });
    }
    let named = [&mut roles.main, &mut roles.computer, &mut roles.summarize];
    for choice in named.into_iter().flatten().chain(&mut roles.fallbacks) {
        let mut model = Model::of(choice);
        model.settle(gateway)?;
        *choice = model.choice();
    }
    Ok(roles)
}

/// Returns models as a box is told of them in its identity file.
pub fn to_json(roles: &ModelRoles) -> Value {
    let model = |choice: &ModelChoice| {
        json!({
            "wire": wire_name(choice.wire()),
            "model": choice.model,
            "output_tokens_max": choice.output_tokens_max,
            "images": choice.images,
            "context_tokens_max": choice.context_tokens_max,
            "thinking_tokens_max": choice.thinking_tokens_max,
        })
    };
    let mut told = json!({});
    let named = [
        ("main", &roles.main),
        ("computer", &roles.computer),
        ("summarize", &roles.summarize),
    ];
    for (role, choice) in named {
        if let Some(choice) = choice {
            told[role] = model(choice);
        }
    }
    if !roles.fallbacks.is_empty() {
        told["fallbacks"] = roles.fallbacks.iter().map(model).collect();
    }
    told
}

fn wire_name(wire: Wire) -> &'static str {
    let found = WIRES.iter().find(|(_, known)| *known == wire);
    found.map_or("", |(name, _)| name)
}

impl Models {
    pub(super) fn new(main: Model, file: Option<&ModelFile>) -> Self {
        Self {
            main,
            computer: file.and_then(|file| file.computer.clone()),
            summarize: file.and_then(|file| file.summarize.clone()),
            fallbacks: file.map(|file| file.fallbacks.clone()).unwrap_or_default(),
        }
    }

    /// Checks every model and settles what was left open.
    pub(super) fn settled(mut self, gateway: &GatewayConfig) -> Result<Self, ConfigError> {
        let given = self.fallbacks.len();
        if given > FALLBACKS_MAX {
            return Err(ConfigError::Model {
                table: "model.fallbacks".to_owned(),
                source: BadModel::Fallbacks { given },
            });
        }
        let named = [
            ("model", Some(&mut self.main)),
            ("model.computer", self.computer.as_mut()),
            ("model.summarize", self.summarize.as_mut()),
        ];
        let named = named
            .into_iter()
            .filter_map(|(table, model)| Some((table.to_owned(), model?)));
        let fallbacks = (1..).zip(&mut self.fallbacks);
        let fallbacks = fallbacks
            .map(|(number, model): (usize, _)| (format!("model.fallbacks {number}"), model));
        for (table, model) in named.chain(fallbacks) {
            model
                .settle(gateway)
                .map_err(|source| ConfigError::Model { table, source })?;
        }
        Ok(self)
    }

    pub fn roles(&self) -> ModelRoles {
        ModelRoles {
            main: Some(self.main.choice()),
            computer: self.computer.as_ref().map(Model::choice),
            summarize: self.summarize.as_ref().map(Model::choice),
            fallbacks: self.fallbacks.iter().map(Model::choice).collect(),
        }
    }
}

impl ModelFile {
    /// Returns the main model.
    pub(super) fn main(&self) -> Model {
        Model {
            wire: self.wire.clone(),
            model: self.model.clone(),
            output_tokens_max: self.output_tokens_max,
            images: self.images,
            context_tokens_max: self.context_tokens_max,
            thinking_tokens_max: self.thinking_tokens_max,
        }
    }
}

fn output_tokens_max() -> u32 {
    OUTPUT_TOKENS_MAX
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::*;

    fn resolve(text: &str, env: &[(&str, &str)]) -> Result<Option<Models>, String> {
        let env = |key: &str| {
            let pair = env.iter().find(|(name, _)| *name == key);
            pair.map(|(_, value)| (*value).to_owned())
        };
        let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let resolved = file.resolve(&env).map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error}: {}", source.unwrap_or_default())
        });
        resolved.map(|(_, models)| models)
    }

    const KEYS: [(&str, &str); 2] = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")];

    #[test]
    fn every_role_has_its_model() {
        let text = "
            [model]
            wire = 'anthropic'
            model = 'a'
            thinking_tokens_max = 4000
            [model.computer]
            wire = 'openai-responses'
            model = 'b'
            context_tokens_max = 400000
            [model.summarize]
            wire = 'openai'
            model = 'c'
            output_tokens_max = 4000
            images = false
            [[model.fallbacks]]
            wire = 'openai'
            model = 'd'
            [[model.fallbacks]]
            wire = 'anthropic'
            model = 'e'";
        let models = resolve(text, &KEYS).unwrap().unwrap();
        let told =
            |wire: &str, model: &str, output: u32, images: bool, context: u32, thinking: u32| {
                json!({
                    "wire": wire, "model": model, "output_tokens_max": output, "images": images,
                    "context_tokens_max": context, "thinking_tokens_max": thinking,
                })
            };
        let expected = json!({
            "main": told("anthropic", "a", 16_000, true, 0, 4_000),
            "computer": told("openai-responses", "b", 16_000, true, 400_000, 0),
            "summarize": told("openai", "c", 4_000, false, 0, 0),
            "fallbacks": [
                told("openai", "d", 16_000, true, 0, 0),
                told("anthropic", "e", 16_000, true, 0, 0),
            ],
        });
        assert_eq!(to_json(&models.roles()), expected);
    }

    #[test]
    fn a_server_of_the_operators_is_not_shown_pictures_by_itself() {
        let env = [
            ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"),
        ];
        let images = |wire: &str, more: &str| {
            let text = format!("[model]\nwire = '{wire}'\nmodel = 'm'\n{more}");
            resolve(&text, &env).unwrap().unwrap().main.images
        };
        assert_eq!(images("openai", ""), Some(false));
        assert_eq!(images("openai", "images = true"), Some(true));
        assert_eq!(images("anthropic", ""), Some(true));
    }

    #[test]
    fn models_of_a_box_are_held_to_the_same() {
        let vendor = |base_url: &str| crate::gateway::Vendor {
            base_url: base_url.to_owned(),
            key: crate::gateway::Secret::new(String::new()),
        };
        let gateway = GatewayConfig {
            anthropic: Some(vendor("http://127.0.0.1:1")),
            openai: None,
        };
        let choice = |wire: Wire, model: &str| ModelChoice {
            wire: wire.into(),
            model: model.to_owned(),
            ..ModelChoice::default()
        };
        let roles = |main: ModelChoice| ModelRoles {
            main: Some(main),
            ..ModelRoles::default()
        };
        let good = roles(choice(Wire::AnthropicMessages, "a"));
        let main = settled(good, &gateway).unwrap().main.unwrap();
        assert_eq!(main.output_tokens_max, OUTPUT_TOKENS_MAX);
        assert!(!main.images, "what was not said is not put in");
        for bad in [
            choice(Wire::OpenaiChat, "a"),
            choice(Wire::Unspecified, "a"),
            choice(Wire::AnthropicMessages, " "),
        ] {
            let fallback = ModelRoles {
                fallbacks: vec![bad.clone()],
                ..ModelRoles::default()
            };
            settled(fallback, &gateway).unwrap_err();
            settled(roles(bad), &gateway).unwrap_err();
        }
        let none = ModelRoles::default();
        assert_eq!(settled(none.clone(), &gateway).unwrap(), none);
        assert_eq!(to_json(&none), json!({}));
    }

    #[test]
    fn the_environment_names_the_main_model() {
        let env = [
            ("OPENAI_API_KEY", "k"),
            ("COCOONBOX_MODEL_WIRE", "openai-responses"),
            ("COCOONBOX_MODEL", "x"),
        ];
        let text = "[model]\nwire = 'openai'\nmodel = 'm'\n[model.summarize]\nwire = 'openai'\nmodel = 's'";
        let models = resolve(text, &env).unwrap().unwrap();
        assert_eq!(
            (models.main.wire.as_str(), models.main.model.as_str()),
            ("openai-responses", "x")
        );
        assert_eq!(models.summarize.unwrap().model, "s");
    }

    #[test]
    fn what_cannot_be_used_is_said_with_its_place() {
        let main = "[model]\nwire = 'anthropic'\nmodel = 'm'\n";
        let cases = [
            (
                "[model]\nwire = 'telex'\nmodel = 'm'".to_owned(),
                "`[model]` is not usable: wire `telex` is none",
            ),
            (
                format!("{main}output_tokens_max = 3"),
                "`[model]` is not usable: `output_tokens_max` is 3",
            ),
            (
                format!("{main}thinking_tokens_max = 3"),
                "`[model]` is not usable: `thinking_tokens_max` is 3",
            ),
            (
                format!("{main}thinking_tokens_max = 16000"),
                "`[model]` is not usable: `thinking_tokens_max` (16000) leaves",
            ),
            (
                format!("{main}context_tokens_max = 16000"),
                "`[model]` is not usable: `context_tokens_max` (16000) has to",
            ),
            (
                format!("{main}[model.computer]\nwire = 'openai'\nmodel = ' '"),
                "`[model.computer]` is not usable: the model has no name",
            ),
            (
                format!(
                    "{main}{}",
                    "[[model.fallbacks]]\nwire = 'openai'\nmodel = 'm'\n".repeat(9)
                ),
                "`[model.fallbacks]` is not usable: there are 9",
            ),
            (
                format!("{main}[[model.fallbacks]]\nwire = 'x'\nmodel = 'm'"),
                "`[model.fallbacks 1]` is not usable: wire `x`",
            ),
            (
                format!("{main}[model.compter]\nwire = 'openai'\nmodel = 'm'"),
                "unknown field `compter`",
            ),
            (format!("{main}imagse = true"), "unknown field `imagse`"),
        ];
        for (text, expected) in cases {
            let error = resolve(&text, &KEYS).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = resolve(
            &format!("{main}[model.summarize]\nwire = 'openai'\nmodel = 'm'"),
            &KEYS[..1],
        );
        let expected = "`[model.summarize]` is not usable: the wire is `openai`, but no such vendor is configured";
        assert!(error.unwrap_err().starts_with(expected));
    }
}
