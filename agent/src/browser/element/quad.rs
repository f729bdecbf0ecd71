//! Where an element is drawn: four corners, as Chromium tells them.

use serde::Deserialize;
use serde_json::json;

use crate::browser::{cdp::Fault, page::Page, refusal::Refusal};

#[derive(Debug, Deserialize)]
struct Quads {
    quads: Vec<[f64; 8]>,
}

pub(super) async fn quad(
    page: &Page,
    to: Option<&str>,
    backend: i64,
) -> Result<Option<[f64; 8]>, Refusal> {
    let of = json!({ "backendNodeId": backend });
    let asked = page.cdp().ask(to, "DOM.getContentQuads", of);
    let quads: Result<Quads, Refusal> = page.patiently("looking where the element is", asked).await;
    match quads {
        Ok(quads) => Ok(quads.quads.into_iter().find(has_area)),
        Err(Refusal::Fault(Fault::Refused { .. })) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

fn has_area(quad: &[f64; 8]) -> bool {
    let (mut area, mut before) = (0.0, [quad[6], quad[7]]);
    for corner in quad.chunks_exact(2) {
        area += before[0] * corner[1] - corner[0] * before[1];
        before = [corner[0], corner[1]];
    }
    (area / 2.0).abs() > 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quad_without_area_is_nowhere() {
        assert!(has_area(&[0., 0., 10., 0., 10., 5., 0., 5.]));
        assert!(!has_area(&[0., 0., 10., 0., 10., 0., 0., 0.]));
    }
}
