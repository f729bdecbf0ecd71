//! What is asked of a choice of models, wherever it is made.

use cocoonbox_proto::log::v1::{ModelChoice, ModelRoles, Wire};

/// Longest name of a model.
const MODEL_BYTES_MAX: usize = 256;
/// Each is tried once in a step that fails; more are minutes of waiting for nothing.
const FALLBACKS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadModels {
    #[error("field `{field}` is empty")]
    Empty { field: &'static str },
    #[error("`{field}` has size {size}; {max} fits")]
    TooLarge {
        field: &'static str,
        size: usize,
        max: usize,
    },
}

/// Checks every model that is there.
pub fn check(models: &ModelRoles) -> Result<(), BadModels> {
    let size = models.fallbacks.len();
    if size > FALLBACKS_MAX {
        return Err(BadModels::TooLarge {
            field: "models.fallbacks",
            size,
            max: FALLBACKS_MAX,
        });
    }
    let roles = [&models.main, &models.computer, &models.summarize];
    let roles = roles.into_iter().flatten();
    roles.chain(&models.fallbacks).try_for_each(check_model)
}

/// Returns a choice with what it leaves open taken from another, role by role.
pub fn inherited(own: &ModelRoles, from: &ModelRoles) -> ModelRoles {
    ModelRoles {
        main: own.main.as_ref().or(from.main.as_ref()).cloned(),
        computer: own.computer.as_ref().or(from.computer.as_ref()).cloned(),
        summarize: own.summarize.as_ref().or(from.summarize.as_ref()).cloned(),
        fallbacks: if own.fallbacks.is_empty() {
            from.fallbacks.clone()
        } else {
            own.fallbacks.clone()
        },
    }
}

/// Checks one model.
pub fn check_model(model: &ModelChoice) -> Result<(), BadModels> {
    let size = model.model.len();
    if size > MODEL_BYTES_MAX {
        return Err(BadModels::TooLarge {
            field: "model",
            size,
            max: MODEL_BYTES_MAX,
        });
    }
    if model.model.is_empty() {
        return Err(BadModels::Empty { field: "model" });
    }
    if model.wire() == Wire::Unspecified {
        let field = "model.wire";
        return Err(BadModels::Empty { field });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> ModelChoice {
        ModelChoice {
            wire: Wire::OpenaiChat.into(),
            model: name.to_owned(),
            ..ModelChoice::default()
        }
    }

    #[test]
    fn a_role_that_is_open_is_inherited() {
        let installation = ModelRoles {
            main: Some(model("a")),
            summarize: Some(model("b")),
            fallbacks: vec![model("c")],
            ..ModelRoles::default()
        };
        let own = ModelRoles {
            main: Some(model("x")),
            computer: Some(model("y")),
            ..ModelRoles::default()
        };
        let expected = ModelRoles {
            main: Some(model("x")),
            computer: Some(model("y")),
            summarize: Some(model("b")),
            fallbacks: vec![model("c")],
        };
        assert_eq!(inherited(&own, &installation), expected);
        assert_eq!(
            inherited(&ModelRoles::default(), &installation),
            installation
        );
        assert_eq!(inherited(&own, &ModelRoles::default()), own);
    }

    #[test]
    fn every_model_is_looked_at() {
        let bad = ModelChoice::default();
        let of = |change: fn(&mut ModelRoles, ModelChoice)| {
            let mut models = ModelRoles::default();
            change(&mut models, bad.clone());
            check(&models)
        };
        let empty = Err(BadModels::Empty { field: "model" });
        assert_eq!(of(|models, bad| models.main = Some(bad)), empty);
        assert_eq!(of(|models, bad| models.computer = Some(bad)), empty);
        assert_eq!(of(|models, bad| models.summarize = Some(bad)), empty);
        assert_eq!(of(|models, bad| models.fallbacks = vec![bad]), empty);
        let many = ModelRoles {
            fallbacks: vec![model("a"); 9],
            ..ModelRoles::default()
        };
        assert!(check(&many).is_err() && check(&ModelRoles::default()).is_ok());
        let long = ModelRoles {
            main: Some(model(&"x".repeat(257))),
            ..ModelRoles::default()
        };
        assert!(matches!(check(&long), Err(BadModels::TooLarge { .. })));
    }
}
