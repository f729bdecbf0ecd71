//! Models, as they are written and shown.

use cocoonbox_proto::log::v1::{ModelChoice, ModelRoles, Wire};

use crate::cli::agent::Models;

/// Stands for none.
const NONE: &str = "-";

/// The models with the changes in them; `None` if there are none, and no model at all where they are to be
/// those of the box or the installation.
pub fn changed(args: &Models, mut roles: ModelRoles) -> Result<Option<ModelRoles>, String> {
    let mut is_changed = false;
    if args.main.as_deref() == Some(NONE) {
        let others = args.computer.is_some() || args.summarize.is_some();
        if others || !args.fallback.is_empty() {
            return Err("`--main -` stands for all models: name no others beside it".to_owned());
        }
        return Ok(Some(ModelRoles::default()));
    }
    for (text, role) in [
        (&args.main, &mut roles.main),
        (&args.computer, &mut roles.computer),
        (&args.summarize, &mut roles.summarize),
    ] {
        if let Some(text) = text {
            *role = if text == NONE {
                None
            } else {
                Some(model(text)?)
            };
            is_changed = true;
        }
    }
    if !args.fallback.is_empty() {
        let named = args.fallback.iter().filter(|text| *text != NONE);
        roles.fallbacks = named.map(|text| model(text)).collect::<Result<_, _>>()?;
        is_changed = true;
    }
    Ok(is_changed.then_some(roles))
}

/// Reads `WIRE:NAME` with options behind commas.
fn model(text: &str) -> Result<ModelChoice, String> {
    let bad = |why: &str| format!("`{text}`: {why}");
    let (wire, rest) = text
        .split_once(':')
        .ok_or_else(|| bad("a model is WIRE:NAME"))?;
    let wire = match wire {
        "anthropic" => Wire::AnthropicMessages,
        "openai" => Wire::OpenaiChat,
        "openai-responses" => Wire::OpenaiResponses,
        _ => return Err(bad("the wires are anthropic, openai and openai-responses")),
    };
    let mut parts = rest.split(',');
    let name = parts.next().unwrap_or_default();
    if name.is_empty() {
        return Err(bad("the name of the model is missing"));
    }
    let mut choice = ModelChoice {
        wire: wire.into(),
        model: name.to_owned(),
        ..ModelChoice::default()
    };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let count = || {
            value
                .parse()
                .map_err(|_| bad(&format!("`{part}` has no number")))
        };
        match key {
            "images" if value.is_empty() => choice.images = true,
            "context" => choice.context_tokens_max = count()?,
            "output" => choice.output_tokens_max = count()?,
            "thinking" => choice.thinking_tokens_max = count()?,
            _ => return Err(bad(&format!("`{part}` is not known"))),
        }
    }
    Ok(choice)
}

/// A line for each role that has a model, with what is to be said of it behind it.
pub fn lines(roles: &ModelRoles, of: impl Fn(&ModelChoice) -> &'static str) -> Vec<String> {
    let named = [
        ("main", &roles.main),
        ("computer", &roles.computer),
        ("summarize", &roles.summarize),
    ];
    let named = named
        .into_iter()
        .filter_map(|(role, model)| Some((role, model.as_ref()?)));
    let fallbacks = roles.fallbacks.iter().map(|model| ("fallback", model));
    named
        .chain(fallbacks)
        .map(|(role, model)| format!("{role}: {}{}", model_words(model), of(model)))
        .collect()
}

fn model_words(model: &ModelChoice) -> String {
    let wire = match model.wire() {
        Wire::AnthropicMessages => "anthropic",
        Wire::OpenaiChat => "openai",
        Wire::OpenaiResponses => "openai-responses",
        Wire::Unspecified => "",
    };
    let mut words = format!("{wire}:{}", model.model);
    if model.images {
        words.push_str(",images");
    }
    for (key, count) in [
        ("context", model.context_tokens_max),
        ("output", model.output_tokens_max),
        ("thinking", model.thinking_tokens_max),
    ] {
        if count > 0 {
            words += ",";
            words += key;
            words += "=";
            words += &count.to_string();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Models,
    }

    fn args(words: &[&str]) -> Models {
        Line::parse_from(std::iter::once(&"x").chain(words)).args
    }

    #[test]
    fn models_are_read_and_the_rest_stays() {
        let there = ModelRoles {
            main: Some(model("openai:a").expect("a model")),
            summarize: Some(model("openai:b").expect("a model")),
            ..ModelRoles::default()
        };
        let words = [
            "--computer",
            "anthropic:c-1:latest,images,context=200000,output=9,thinking=5",
            "--summarize",
            "-",
            "--fallback",
            "openai-responses:d",
        ];
        let found = changed(&args(&words), there.clone()).expect("models");
        let found = found.expect("a change");
        assert_eq!(found.main, there.main);
        assert_eq!(found.summarize, None);
        let computer = found.computer.expect("a model");
        assert_eq!(computer.model, "c-1:latest");
        assert!(computer.images);
        assert_eq!(computer.context_tokens_max, 200_000);
        assert_eq!(found.fallbacks[0].wire(), Wire::OpenaiResponses);
        assert_eq!(changed(&args(&[]), there), Ok(None));
        for bad in ["a", "x:a", "openai:", "openai:a,context=b", "openai:a,b"] {
            model(bad).expect_err(bad);
        }
    }

    #[test]
    fn a_line_is_all_models_of_the_box() {
        let there = ModelRoles {
            main: Some(model("openai:a").expect("a model")),
            fallbacks: vec![model("anthropic:b,images").expect("a model")],
            ..ModelRoles::default()
        };
        assert_eq!(
            lines(&there, |_| " (x)"),
            ["main: openai:a (x)", "fallback: anthropic:b,images (x)"]
        );
        let all = changed(&args(&["--main", "-"]), there.clone());
        assert_eq!(all, Ok(Some(ModelRoles::default())));
        changed(&args(&["--main", "-", "--computer", "openai:c"]), there).expect_err("both");
    }
}
