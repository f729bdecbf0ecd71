//! A script of the model's own, in the page's world.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{element::Element, outline::plain, page::Page, refusal::Refusal};

/// Of a result that is told.
const RESULT_CHARS_MAX: usize = 8_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evaluated {
    result: Remote,
    exception_details: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Remote {
    value: Option<Value>,
    description: String,
}

pub(super) async fn evaluate(
    page: &Page,
    element: Option<&Element>,
    script: &str,
) -> Result<String, Refusal> {
    let evaluated: Evaluated = if let Some(element) = element {
        // As the page has it, not as our world does.
        let object = element.in_page().await?;
        let call = json!({
            "objectId": object, "functionDeclaration": format!("function (element) {{ {script} }}"),
            "arguments": [{ "objectId": object }], "returnByValue": true, "awaitPromise": true,
            "userGesture": true,
        });
        let asked = page
            .cdp()
            .ask(Some(element.session()), "Runtime.callFunctionOn", call);
        page.patiently("running the script", asked).await?
    } else {
        let call = json!({
            "expression": script, "returnByValue": true, "awaitPromise": true, "replMode": true,
            "userGesture": true,
        });
        let asked = page
            .cdp()
            .ask(Some(&page.session), "Runtime.evaluate", call);
        page.patiently("running the script", asked).await?
    };
    if let Some(details) = evaluated.exception_details {
        let said = details["exception"]["description"].as_str();
        let said = said.or(details["text"].as_str()).unwrap_or_default();
        return Err(Refusal::Script(plain(said, 1_000)));
    }
    let Remote { value, description } = evaluated.result;
    let told = match value {
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
        None if description.is_empty() => "undefined".to_owned(),
        None => description,
    };
    let told: String = told.chars().take(RESULT_CHARS_MAX).collect();
    Ok(format!("result: {told}"))
}
