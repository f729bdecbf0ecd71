/** What is different between two texts, line by line (E. Myers, "An O(ND) Difference Algorithm", 1986). */

export interface Line {
  sign: " " | "+" | "-";
  text: string;
}

/** Of edits; texts that have less in common are shown as one taken out and one put in. */
const EDITS_MAX = 400;

export function lines(before: string, after: string): Line[] {
  const a = cut(before);
  const b = cut(after);
  const traces = walk(a, b);
  if (!traces) return [...a.map((text): Line => ({ sign: "-", text })), ...b.map((text): Line => ({ sign: "+", text }))];
  const found: Line[] = [];
  let [x, y] = [a.length, b.length];
  for (let edits = traces.length - 1; edits > 0; edits -= 1) {
    const reached = traces[edits - 1] as Map<number, number>;
    const k = x - y;
    const down = k === -edits || (k !== edits && at(reached, k - 1) < at(reached, k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = at(reached, fromK);
    const fromY = fromX - fromK;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      found.push({ sign: " ", text: a[x] ?? "" });
    }
    if (down) found.push({ sign: "+", text: b[fromY] ?? "" });
    else found.push({ sign: "-", text: a[fromX] ?? "" });
    [x, y] = [fromX, fromY];
  }
  while (x > 0) {
    x -= 1;
    found.push({ sign: " ", text: a[x] ?? "" });
  }
  return found.reverse();
}

/** Leaves out what is the same, but for some lines around. An empty place is where something was left out. */
export function hunks(all: readonly Line[], around = 3): (Line | undefined)[] {
  const near = new Set<number>();
  all.forEach((line, at) => {
    if (line.sign === " ") return;
    for (let n = at - around; n <= at + around; n += 1) near.add(n);
  });
  const found: (Line | undefined)[] = [];
  all.forEach((line, at) => {
    if (near.has(at)) found.push(line);
    else if (found.length > 0 && found.at(-1) !== undefined) found.push(undefined);
  });
  if (found.at(-1) === undefined) found.pop();
  return found;
}

function cut(text: string): string[] {
  if (text === "") return [];
  return text.replace(/\n$/, "").split("\n");
}

function at(reached: Map<number, number>, k: number): number {
  return reached.get(k) ?? -1;
}

/** For each number of edits, how far one gets on every diagonal; nothing if that is too many. */
function walk(a: readonly string[], b: readonly string[]): Map<number, number>[] | undefined {
  let reached = new Map<number, number>([[1, 0]]);
  const traces: Map<number, number>[] = [];
  for (let edits = 0; edits <= EDITS_MAX; edits += 1) {
    const next = new Map(reached);
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && at(reached, k - 1) < at(reached, k + 1));
      let x = down ? at(reached, k + 1) : at(reached, k - 1) + 1;
      while (x < a.length && x - k < b.length && x - k >= 0 && a[x] === b[x - k]) x += 1;
      next.set(k, x);
      if (x >= a.length && x - k >= b.length) {
        traces.push(next);
        return traces;
      }
    }
    traces.push(next);
    reached = next;
  }
  return undefined;
}
