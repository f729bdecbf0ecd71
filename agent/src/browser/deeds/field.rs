//! Fields and the keyboard.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{
        cdp::Sent, chromium::Seat, element::Element, keys::Press, outline::plain, page::Page,
        refusal::Refusal,
    },
    pointer::all,
};

/// Characters that are typed key by key; more are for `fill`.
const TYPED_MAX: usize = 2_000;

/// Marks all that a field holds, or sets one that is not written in. Says what kind it is.
const CLEAR: &str = r"function (text) {
  const element = this.nodeType === 1 ? this : this.parentElement;
  const set = (value) => {
    const kind = element.localName === 'textarea' ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, 'value').set.call(element, value);
    element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    element.dispatchEvent(new Event('change', { bubbles: true }));
  };
  if (element.matches('input, textarea')) {
    if (element.readOnly) return { kind: 'readonly' };
    const picked = ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'];
    if (picked.includes(element.type)) {
      element.focus();
      set(text);
      return { kind: 'set', value: element.value };
    }
    const unwritten = ['checkbox', 'radio', 'file', 'button', 'submit', 'reset', 'image', 'hidden'];
    if (unwritten.includes(element.type)) return { kind: element.type };
    element.focus();
    element.select();
    return { kind: 'text', isEmpty: element.value === '' };
  }
  if (element.isContentEditable) {
    element.focus();
    const range = element.ownerDocument.createRange();
    range.selectNodeContents(element);
    const marked = element.ownerDocument.getSelection();
    marked.removeAllRanges();
    marked.addRange(range);
    return { kind: 'text', isEmpty: element.innerText.trim() === '' };
  }
  return { kind: element.localName };
}";

const VALUE: &str = r"function () {
  const element = this.nodeType === 1 ? this : this.parentElement;
  return element.type === 'password' ? null : element.value ?? element.innerText;
}";

/// Puts the caret behind what a field holds.
const TO_END: &str = r"function () {
  const element = this.nodeType === 1 ? this : this.parentElement;
  if (element.matches('input, textarea')) {
    element.focus();
    try { element.setSelectionRange(element.value.length, element.value.length); } catch {}
    return true;
  }
  if (element.isContentEditable) {
    element.focus();
    const marked = element.ownerDocument.getSelection();
    marked.selectAllChildren(element);
    marked.collapseToEnd();
    return true;
  }
  return false;
}";

const SELECT: &str = r"function (values) {
  const element = this.nodeType === 1 ? this : this.parentElement;
  const list = element.localName === 'option' ? element.closest('select') : element;
  if (!list || list.localName !== 'select') return { kind: element.localName };
  if (list.disabled) return { kind: 'disabled' };
  if (!list.multiple && values.length !== 1) return { kind: 'one' };
  const same = (a, b) => a.trim().replace(/\s+/g, ' ') === b.trim().replace(/\s+/g, ' ');
  const found = [];
  for (const value of values) {
    const option = [...list.options].find((one) => same(one.label, value) || same(one.text, value))
      || [...list.options].find((one) => one.value === value);
    if (!option) return { kind: 'missing', value };
    if (option.disabled) return { kind: 'off', value };
    found.push(option);
  }
  for (const option of list.options) option.selected = found.includes(option);
  list.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  list.dispatchEvent(new Event('change', { bubbles: true }));
  return { kind: 'done', value: [...list.selectedOptions].map((one) => one.label).join(', ') };
}";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Did {
    kind: String,
    value: String,
    is_empty: bool,
}

pub(super) async fn fill(
    element: &Element,
    seat: &mut Seat,
    text: &str,
    enter: bool,
) -> Result<String, Refusal> {
    let page = &element.page;
    // A field that nobody could reach with a pointer is not filled either.
    element.point(seat, false).await?;
    let did: Did = element.call(CLEAR, &[text.into()]).await?;
    match did.kind.as_str() {
        "text" => {
            if !text.is_empty() {
                let insert = page.cdp().send(
                    Some(&page.session),
                    "Input.insertText",
                    json!({ "text": text }),
                );
                page.patiently("writing", all(vec![insert])).await?;
            } else if !did.is_empty {
                press(page, "Delete").await?;
            }
        }
        "set" => {}
        "readonly" => return Err(element.not_fit("can only be read")),
        "checkbox" | "radio" | "button" | "submit" | "reset" | "image" => {
            return Err(element.not_fit("is clicked on, not written in"));
        }
        "file" => return Err(element.not_fit("takes files: use action `upload`")),
        "select" => return Err(element.not_fit("is a list: use action `select`")),
        _ => return Err(element.not_fit("is nothing that can be written in")),
    }
    let value: Option<String> = element.call(VALUE, &[]).await?;
    if enter {
        press(page, "Enter").await?;
    }
    Ok(match value {
        Some(value) if plain(&value, 10_000) != plain(text, 10_000) => {
            format!(
                "the field holds \"{}\" now, which is not what was written",
                plain(&value, 200)
            )
        }
        _ => String::new(),
    })
}

pub(super) async fn go_to_end(element: &Element, seat: &mut Seat) -> Result<(), Refusal> {
    element.point(seat, false).await?;
    let is_field: bool = element.call(TO_END, &[]).await?;
    if is_field {
        Ok(())
    } else {
        element.focus().await
    }
}

pub(super) async fn typed(page: &Page, text: &str, enter: bool) -> Result<String, Refusal> {
    if text.chars().count() > TYPED_MAX {
        let why =
            format!("`type` writes at most {TYPED_MAX} characters; `fill` writes more at once");
        return Err(Refusal::Arguments(why));
    }
    for c in text.chars() {
        let sent = match Press::of(c) {
            Some(press) => strike(page, &press),
            // What no key writes comes as from an input method.
            None => {
                let text = json!({ "text": c.to_string() });
                vec![
                    page.cdp()
                        .send(Some(&page.session), "Input.insertText", text),
                ]
            }
        };
        page.patiently("typing", all(sent)).await?;
    }
    if enter {
        press(page, "Enter").await?;
    }
    Ok(String::new())
}

pub(super) async fn press(page: &Page, key: &str) -> Result<String, Refusal> {
    let press = Press::parse(key).ok_or_else(|| Refusal::NoKey(plain(key, 40)))?;
    page.patiently("pressing a key", all(strike(page, &press)))
        .await?;
    Ok(String::new())
}

/// Sends all of it at once, so that no key stays down.
fn strike(page: &Page, press: &Press) -> Vec<Sent> {
    let events = press.events().into_iter();
    let send = |event: Value| {
        page.cdp()
            .send(Some(&page.session), "Input.dispatchKeyEvent", event)
    };
    events.map(send).collect()
}

pub(super) async fn select(element: &Element, values: &[String]) -> Result<String, Refusal> {
    let did: Did = element.call(SELECT, &[json!(values)]).await?;
    match did.kind.as_str() {
        "done" => Ok(format!("selected: {}", plain(&did.value, 500))),
        "disabled" => Err(Refusal::Disabled {
            reference: element.reference.clone(),
            was: element.said(),
        }),
        "one" => Err(element.not_fit("takes exactly one value")),
        "missing" => Err(element.not_fit(format!("has no option `{}`", plain(&did.value, 100)))),
        "off" => Err(element.not_fit(format!("has option `{}` disabled", plain(&did.value, 100)))),
        _ => Err(element
            .not_fit("is no list of the browser's own: click on it, and then on what it shows")),
    }
}
