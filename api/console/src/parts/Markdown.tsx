/** Markdown that a model wrote: hostile until cleaned. */

import DOMPurify from "dompurify";
import { Marked } from "marked";
import { useMemo } from "preact/hooks";

const marked = new Marked({ gfm: true, breaks: true });

// A link leaves the console in another tab, and tells nobody where it was; pictures of other hosts would call home.
DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
});

const ALLOWED = {
  ALLOWED_TAGS: [
    "p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "input",
  ],
  ALLOWED_ATTR: ["href", "title", "align", "start", "type", "checked", "disabled"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};

export function clean(text: string): string {
  return DOMPurify.sanitize(marked.parse(text, { async: false }), ALLOWED);
}

export function Markdown({ text }: { text: string }) {
  const html = useMemo(() => clean(text), [text]);
  return <div class="markdown" dangerouslySetInnerHTML={{ __html: html }} />;
}
