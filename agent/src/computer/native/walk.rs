//! The elements of programs, as far as they are shown.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, join, stream};
use tokio::time::Instant;

use super::{
    super::{
        backend::{Element, Token, Tree, Window},
        geometry::Rect,
        refusal::Fault,
    },
    bus::{ACCESSIBLE, APPLICATION, Bus, Reference},
    element::{Dialect, Facts, IN_WINDOW},
};

/// Elements of one tree.
const ELEMENTS_MAX: u32 = 1_500;
const DEPTH_MAX: usize = 64;
/// Children of one element.
const CHILDREN_MAX: usize = 250;
/// For one program. What is not told by then is left out.
const PROGRAM_MAX: Duration = Duration::from_secs(4);
/// Questions that a program has at one time, of each element that is looked into.
const BESIDE: usize = 8;

/// What is left of what may be asked.
struct Budget {
    elements: AtomicU32,
    until: Instant,
}

/// What was found below an element, and how much was not told.
#[derive(Default)]
struct Found {
    elements: Vec<Element>,
    untold: u32,
}

/// The elements of the program that a window belongs to, or of all.
pub(super) async fn tree(
    bus: &Bus,
    window: Option<&Window>,
    windows: &[Window],
    area: Rect,
) -> Result<Tree, Fault> {
    let mut tree = Tree::default();
    let programs = bus.programs().await?;
    let named = |program: Token| async move {
        let pid = bus.pid(&program.program).await.ok()?;
        Some((program, pid))
    };
    let named: Vec<_> = stream::iter(programs)
        .map(named)
        .buffered(BESIDE)
        .collect()
        .await;
    let wanted = named
        .into_iter()
        .flatten()
        .filter(|(_, pid)| window.is_none_or(|window| window.pid == Some(*pid)));
    let wanted: Vec<_> = wanted.collect();
    if let (Some(window), true) = (window, wanted.is_empty()) {
        tree.notes.push(format!(
            "`{}` does not tell its elements; a screenshot shows it, and places in that can be clicked",
            window.program
        ));
    }
    for (program, pid) in wanted {
        let own: Vec<&Window> = windows
            .iter()
            .filter(|window| window.pid == Some(pid))
            .collect();
        let budget = Budget {
            elements: AtomicU32::new(ELEMENTS_MAX),
            until: Instant::now() + PROGRAM_MAX,
        };
        let shown = shown(bus, &program, &own, area, &budget).await;
        let found = match shown {
            Ok(found) => found,
            Err(fault) => {
                let name = own.first().map_or("a program", |window| &window.program);
                tree.notes
                    .push(format!("`{name}` does not tell its elements: {fault}"));
                continue;
            }
        };
        if found.untold > 0 {
            let name = own.first().map_or("a program", |window| &window.program);
            tree.notes.push(format!(
                "{} elements of `{name}` or more are not told",
                found.untold
            ));
        }
        tree.elements.extend(found.elements);
    }
    Ok(tree)
}

/// What a program shows: its windows with what is in them.
async fn shown(
    bus: &Bus,
    program: &Token,
    own: &[&Window],
    area: Rect,
    budget: &Budget,
) -> Result<Found, Fault> {
    let mut all = Found::default();
    for top in bus.children(program).await?.into_iter().take(CHILDREN_MAX) {
        let dialect = dialect(bus, program, &top, own).await;
        let found = walk(bus, top, 0, dialect, area, budget).await;
        all.elements.extend(found.elements);
        all.untold += found.untold;
    }
    Ok(all)
}

fn walk<'a>(
    bus: &'a Bus,
    token: Token,
    depth: usize,
    dialect: Dialect,
    area: Rect,
    budget: &'a Budget,
) -> BoxFuture<'a, Found> {
    async move {
        let is_left = budget
            .elements
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok();
        if !is_left || depth > DEPTH_MAX || Instant::now() >= budget.until {
            return Found {
                untold: 1,
                ..Found::default()
            };
        }
        let facts = match Facts::read(bus, &token, dialect).await {
            Ok(facts) => facts,
            // It went while it was looked at.
            Err(Fault::Gone) => return Found::default(),
            Err(_) => {
                return Found {
                    untold: 1,
                    ..Found::default()
                };
            }
        };
        let is_outside = facts
            .frame
            .is_some_and(|frame| frame.shared(area).is_none());
        if !facts.is_showing(dialect) || is_outside {
            return Found::default();
        }
        let (is_noise, is_endless) = (facts.is_noise(), facts.has_endless_children());
        let children = children(bus, &token, is_endless).await;
        let mut found = Found::default();
        let below = if is_noise {
            depth
        } else {
            found.elements.push(facts.element(bus, token, depth).await);
            depth + 1
        };
        let (children, untold) = match children {
            Ok(children) => children,
            Err(_) => (Vec::new(), 1),
        };
        found.untold = untold;
        if let Some(element) = found.elements.first_mut() {
            element.untold = untold;
        }
        let mut inner = stream::iter(children)
            .map(|child| walk(bus, child, below, dialect, area, budget))
            .buffered(BESIDE);
        while let Some(one) = inner.next().await {
            found.elements.extend(one.elements);
            found.untold += one.untold;
        }
        found
    }
    .boxed()
}

/// The first children, and how many more there are.
async fn children(bus: &Bus, token: &Token, is_endless: bool) -> Result<(Vec<Token>, u32), Fault> {
    if is_endless {
        // Of a million rows.
        let count: i32 = bus.property(token, ACCESSIBLE, "ChildCount").await?;
        let count = usize::try_from(count).unwrap_or_default();
        let asked = (0..count.min(CHILDREN_MAX)).filter_map(|at| i32::try_from(at).ok());
        let one = |at: i32| async move {
            let child: Result<Reference, Fault> =
                bus.ask(token, ACCESSIBLE, "GetChildAtIndex", &(at,)).await;
            child.map(Token::from)
        };
        let found: Vec<_> = stream::iter(asked)
            .map(one)
            .buffered(BESIDE)
            .collect()
            .await;
        let found: Vec<Token> = found.into_iter().filter_map(Result::ok).collect();
        let untold = u32::try_from(count.saturating_sub(found.len())).unwrap_or(u32::MAX);
        return Ok((found, untold));
    }
    let mut children = bus.children(token).await?;
    let untold = u32::try_from(children.len().saturating_sub(CHILDREN_MAX)).unwrap_or(u32::MAX);
    children.truncate(CHILDREN_MAX);
    Ok((children, untold))
}

/// How a program speaks of what is in one of its windows: some do not know where they are.
async fn dialect(bus: &Bus, program: &Token, top: &Token, own: &[&Window]) -> Dialect {
    let (kit, version) = join!(
        bus.property::<String>(program, APPLICATION, "ToolkitName"),
        bus.property::<String>(program, APPLICATION, "Version"),
    );
    let is_gtk_4 = kit.is_ok_and(|kit| kit.eq_ignore_ascii_case("gtk"))
        && version.is_ok_and(|version| version.starts_with("4."));
    let usual = Dialect {
        tells_showing: !is_gtk_4,
        ..Dialect::USUAL
    };
    let Ok(told) = Facts::read(bus, top, usual).await else {
        return usual;
    };
    let same_title = own.iter().find(|window| window.title == told.name);
    let Some(window) = same_title.or(own.first().filter(|_| own.len() == 1)) else {
        return usual;
    };
    let is_placed = told
        .frame
        .and_then(|frame| frame.shared(window.frame))
        .is_some_and(|shared| {
            // A window manager's frame and shadows stand out over it.
            shared.width * 10 >= window.frame.width * 9
                && shared.height * 10 >= window.frame.height * 9
        });
    if is_placed && !is_gtk_4 {
        return usual;
    }
    Dialect {
        kind: IN_WINDOW,
        right: window.frame.x,
        down: window.frame.y,
        ..usual
    }
}

/// The same for an element somewhere in a window.
pub(super) async fn dialect_of(bus: &Bus, token: &Token, windows: &[Window]) -> Dialect {
    let Ok(pid) = bus.pid(&token.program).await else {
        return Dialect::USUAL;
    };
    let own: Vec<&Window> = windows
        .iter()
        .filter(|window| window.pid == Some(pid))
        .collect();
    let mut at = token.clone();
    for _ in 0..DEPTH_MAX {
        let Ok(above) = bus.parent(&at).await else {
            return Dialect::USUAL;
        };
        let role: Result<String, Fault> = bus.ask(&above, ACCESSIBLE, "GetRoleName", &()).await;
        if role.is_ok_and(|role| role == "application") {
            return dialect(bus, &above, &at, &own).await;
        }
        at = above;
    }
    Dialect::USUAL
}
