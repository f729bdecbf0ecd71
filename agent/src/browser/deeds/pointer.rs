//! The pointer: clicks, drags, scrolling.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::super::{
    cdp::{Fault, SOON, Sent},
    chromium::Seat,
    element::{Element, Point},
    page::Page,
    refusal::Refusal,
};

/// Steps of the way of a drag: pages look at the way as well.
const DRAG_STEPS: u32 = 8;
/// Looks at an element under the pointer, at one that runs away from it too.
const RESTS_MAX: u32 = 20;
/// Between two looks, so that one that moves by itself is seen to: more than a picture of the display takes.
const REST: Duration = Duration::from_millis(20);
/// For the page to say that it takes a drag over.
const DRAG_TAKEN_MAX: Duration = Duration::from_millis(300);

pub(super) async fn click(
    element: &Element,
    seat: &mut Seat,
    double: bool,
    right: bool,
) -> Result<String, Refusal> {
    let page = &element.page;
    let point = element.point(seat, false).await?;
    let button = if right { "right" } else { "left" };
    let point = rest_on(element, point).await?;
    catch_choosers(page, true).await?;
    // All at once: nothing that ends this call leaves a button down.
    let mut sent = Vec::new();
    for count in 1..=if double { 2 } else { 1 } {
        sent.push(mouse(page, "mousePressed", point, button, count));
        sent.push(mouse(page, "mouseReleased", point, button, count));
    }
    let clicked = page.patiently("clicking", all(sent)).await;
    // One that was asked for says so within the same turn of the page's thread.
    catch_choosers(page, false).await.ok();
    clicked?;
    Ok(String::new())
}

/// Moves the pointer onto an element and returns its middle once it stays where it is: what a page shows under a
/// pointer can be loaded only then, or have another size.
async fn rest_on(element: &Element, point: Point) -> Result<Point, Refusal> {
    let page = &element.page;
    let mut point = point;
    for _ in 0..RESTS_MAX {
        let moved = all(vec![mouse(page, "mouseMoved", point, "none", 0)]);
        page.patiently("moving the pointer", moved).await?;
        sleep(REST).await;
        match element.point_as_it_is().await {
            Ok(now) if (now.x - point.x).abs() < 1.0 && (now.y - point.y).abs() < 1.0 => {
                return Ok(now);
            }
            Ok(now) => point = now,
            // For a moment, perhaps.
            Err(Refusal::Hidden { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(point)
}

pub(super) async fn hover(element: &Element, seat: &mut Seat) -> Result<String, Refusal> {
    let page = &element.page;
    let point = element.point(seat, true).await?;
    let moved = all(vec![mouse(page, "mouseMoved", point, "none", 0)]);
    page.patiently("moving the pointer", moved).await?;
    Ok(String::new())
}

pub(super) async fn drag(from: &Element, to: &Element, seat: &mut Seat) -> Result<String, Refusal> {
    let page = &from.page;
    // What is seen last stays in view; where both do not fit, the first is seen to be hidden.
    to.point(seat, true).await?;
    let start = from.point(seat, false).await?;
    let end = to.point_as_it_is().await?;
    page.chromium.tabs().drag = None;
    let catch = |enabled: bool| json!({ "enabled": enabled });
    page.cdp()
        .tell(Some(&page.session), "Input.setInterceptDrags", catch(true))
        .await?;
    let held = Held { page, point: start };
    let dragged = async {
        let begin = vec![
            mouse(page, "mouseMoved", start, "none", 0),
            mouse(page, "mousePressed", start, "left", 1),
            mouse(page, "mouseMoved", between(start, end, 1), "left", 0),
        ];
        page.patiently("dragging", all(begin)).await?;
        let taken = page.chromium.until(|tabs| tabs.drag.clone());
        match timeout(DRAG_TAKEN_MAX, taken).await {
            Ok(data) => drop_data(page, end, &data?).await?,
            Err(_) => {
                // There it rests: what makes room on the way often takes its last place at a second look.
                let steps = (2..=DRAG_STEPS).chain([DRAG_STEPS]);
                let way = steps
                    .map(|step| mouse(page, "mouseMoved", between(start, end, step), "left", 0));
                page.patiently("dragging", all(way.collect())).await?;
            }
        }
        Ok(())
    };
    let dragged: Result<(), Refusal> = dragged.await;
    let released = held.release(end);
    let told = page.patiently("letting go", all(vec![released])).await;
    page.cdp()
        .tell(Some(&page.session), "Input.setInterceptDrags", catch(false))
        .await
        .ok();
    page.chromium.tabs().drag = None;
    dragged?;
    told?;
    Ok(String::new())
}

pub(super) async fn scroll(
    page: &Page,
    element: Option<&Element>,
    seat: &mut Seat,
    down: i32,
    right_by: i32,
) -> Result<String, Refusal> {
    let point = match element {
        Some(element) => element.point(seat, true).await?,
        None => Point { x: 300.0, y: 300.0 },
    };
    if (down, right_by) != (0, 0) {
        let wheel = json!({
            "type": "mouseWheel", "x": point.x, "y": point.y, "deltaX": right_by, "deltaY": down,
        });
        let sent = page
            .cdp()
            .send(Some(&page.session), "Input.dispatchMouseEvent", wheel);
        page.patiently("scrolling", all(vec![sent])).await?;
    }
    Ok(String::new())
}

/// A button that is down. Dropped, it comes up where it was.
struct Held<'a> {
    page: &'a Page,
    point: Point,
}

impl Held<'_> {
    fn release(self, at: Point) -> Sent {
        let sent = mouse(self.page, "mouseReleased", at, "left", 1);
        std::mem::forget(self);
        sent
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(mouse(self.page, "mouseReleased", self.point, "left", 1));
    }
}

async fn drop_data(page: &Page, end: Point, data: &Value) -> Result<(), Refusal> {
    let steps = ["dragEnter", "dragOver", "drop"].map(|kind| {
        let event = json!({ "type": kind, "x": end.x, "y": end.y, "data": data });
        page.cdp()
            .send(Some(&page.session), "Input.dispatchDragEvent", event)
    });
    page.patiently("dropping", all(steps.into())).await
}

/// While it is on, a page that asks for files is told of to us, and no window opens.
pub(super) async fn catch_choosers(page: &Page, enabled: bool) -> Result<(), Refusal> {
    let sessions: Vec<String> = {
        let mut tabs = page.chromium.tabs();
        let Some(tab) = tabs.by_number.get_mut(&page.number) else {
            return Err(Refusal::NoSuchTab(page.number));
        };
        if enabled {
            tab.chooser = None;
        }
        tab.sessions.iter().map(|one| one.id.clone()).collect()
    };
    let sent = sessions.iter().map(|session| {
        let catch = json!({ "enabled": enabled });
        page.cdp()
            .send(Some(session), "Page.setInterceptFileChooserDialog", catch)
    });
    for one in sent.collect::<Vec<_>>() {
        // A frame that went away asks for nothing.
        one.within::<Value>(SOON).await.ok();
    }
    Ok(())
}

fn mouse(page: &Page, kind: &str, point: Point, button: &str, count: u32) -> Sent {
    let is_held = kind == "mousePressed" || (kind == "mouseMoved" && button == "left");
    let event = json!({
        "type": kind, "x": point.x, "y": point.y, "button": button, "clickCount": count,
        "buttons": u8::from(is_held),
    });
    page.cdp()
        .send(Some(&page.session), "Input.dispatchMouseEvent", event)
}

pub(super) async fn all(sent: Vec<Sent>) -> Result<(), Fault> {
    for one in sent {
        let _: serde::de::IgnoredAny = one.within(SOON).await?;
    }
    Ok(())
}

fn between(start: Point, end: Point, step: u32) -> Point {
    let part = f64::from(step) / f64::from(DRAG_STEPS);
    Point {
        x: start.x + (end.x - start.x) * part,
        y: start.y + (end.y - start.y) * part,
    }
}
