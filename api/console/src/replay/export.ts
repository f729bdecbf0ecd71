/**
 * A replay as one file that shows itself in any browser: no script, nothing loaded from anywhere, and nothing in it that
 * looks like a secret.
 */

import { flat } from "../conversation/family";
import { changes, plain } from "../conversation/handover";
import type { Item } from "../conversation/items";
import { summary } from "../conversation/summary";
import { moment } from "../parts/time";
import { outcomes, w } from "../words";
import { redact, secretsIn } from "./redact";

export interface Options {
  /** What commands printed and tools answered. */
  outputs: boolean;
  pictures: boolean;
  /** Words to be blacked out. */
  words: string[];
}

const OUTPUT_MAX = 4_000;
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
const STYLE = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{max-width:50rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
article{display:grid;grid-template-columns:5rem 1fr;gap:1rem;padding:.5rem 0;border-bottom:1px solid #8884}time{color:#888;font-variant-numeric:tabular-nums}
pre{white-space:pre-wrap;background:#8882;padding:.6rem;border-radius:8px;margin:.3rem 0;max-height:30rem;overflow:auto}section{border-left:3px solid #8884;padding-left:.8rem}img{max-width:100%;border-radius:8px}p{margin:0;white-space:pre-wrap}b{font-weight:600}`;

/** Writes it. `pictures` gives the bytes of those that are in it, as data URLs by name. */
export function page(title: string, items: readonly Item[], fromMs: number, options: Options, pictures: ReadonlyMap<string, string>): string {
  const secrets = flat(items).flatMap((item) => textsOf(item).flatMap(secretsIn));
  const words = [...new Set([...options.words, ...secrets])];
  const say = (text: string) => escape(redact(text, words));
  const told = (item: Item): string => {
    const at = `<time>${offset(item.atMs - fromMs)}</time>`;
    const rows = parts(item, say, options, pictures);
    const below = item.type === "tool" && item.child ? `<section>${item.child.items.map(told).join("\n")}</section>` : "";
    return rows ? `<article>${at}<div>${rows}${below}</div></article>` : "";
  };
  const body = items.map(told);
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="content-security-policy" content="${POLICY}">
<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer"><title>${say(title)}</title><style>${STYLE}</style></head>
<body><h1>${say(title)}</h1><p>${escape(w.replay.exported(moment(fromMs)))}</p>${body.join("\n")}</body></html>\n`;
}

function textsOf(item: Item): string[] {
  switch (item.type) {
    case "prompt":
    case "reply":
    case "thinking":
      return [item.text];
    case "question":
      return [item.question, item.answer ?? ""];
    case "tool":
      return [item.args, item.output, item.content, item.approval?.comment ?? ""];
    case "handover":
      return [item.back.note, ...changes(item.back).flatMap(({ window, before }) => [window.title, before])];
    case "note":
      return [];
  }
}

function parts(item: Item, say: (text: string) => string, options: Options, pictures: ReadonlyMap<string, string>): string {
  const images = (all: readonly { blob: string }[]) =>
    options.pictures ? all.map((image) => (pictures.has(image.blob) ? `<img alt="" src="${escape(pictures.get(image.blob) ?? "")}">` : "")).join("") : "";
  switch (item.type) {
    case "prompt":
      return `<p><b>${escape(w.replay.person)}</b></p><p>${say(item.text)}</p>${images(item.images)}`;
    case "reply":
      return `<p>${say(item.text)}</p>`;
    case "thinking":
      return "";
    case "question":
      return `<p><b>${escape(w.question.title)}</b></p><p>${say(item.question)}</p>${item.answer === undefined ? "" : `<p>${say(item.answer)}</p>`}`;
    case "handover": {
      const { label, note, before, after } = item.back;
      const windows = changes(item.back).map((one) => `<p>${escape(w.handover.changes[one.what])} ${one.before ? `${say(plain(one.before))} → ` : ""}${say(plain(one.window.title)) || escape(w.handover.untitled)}</p>`);
      // What a person typed by themselves is theirs, and nobody would look for it in here.
      return `<p><b>${escape(w.handover.title)}</b> ${say(plain(label))}</p>${note && `<p>${say(plain(note))}</p>`}${windows.join("")}${images([before, after].flatMap((image) => image ?? []))}`;
    }
    case "note":
      return "";
    case "tool": {
      const printed = item.output || item.content;
      const output = options.outputs && printed ? `<pre>${say(printed.slice(0, OUTPUT_MAX))}</pre>` : "";
      const approval = item.approval && item.approval.answer !== "none" ? `<p>${escape(w.approval[item.approval.answer])} ${say(item.approval.comment)}</p>` : "";
      const state = item.outcome === undefined ? "" : ` · ${escape(outcomes[item.outcome])}`;
      return `<p><b>${say(item.name)}</b>${state}</p><pre>${say(summary(item))}</pre>${approval}${output}${images(item.images)}`;
    }
  }
}

/** Since the beginning, as `1:05`. */
export function offset(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const two = (n: number) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
