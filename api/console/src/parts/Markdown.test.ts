// @vitest-environment jsdom
import { expect, test } from "vitest";
import { clean } from "./Markdown";

/** After the OWASP list of ways past filters, and what is peculiar to Markdown. */
const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg/onload=alert(1)>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<a href='javascript:alert(1)'>x</a>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt&#58;alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "![x](https://evil.example/pixel.gif)",
  "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
  "<form action=https://evil.example><button>send</button></form>",
  "<style>*{background:url(https://evil.example)}</style>",
  "<input autofocus onfocus=alert(1)>",
  "<details open ontoggle=alert(1)>",
  "`<img src=x onerror=alert(1)>`",
  "<p style='position:fixed;inset:0'>over all</p>",
  "<base href=https://evil.example>",
  "<x id=console>",
];

test.each(HOSTILE)("no script, picture or form comes out of %s", (text) => {
  const place = document.createElement("div");
  place.innerHTML = clean(text);
  for (const element of place.querySelectorAll("*")) {
    expect(["P", "CODE", "A", "INPUT", "PRE", "TABLE", "TBODY", "TR", "TD"]).toContain(element.tagName);
    for (const { name, value } of element.attributes) {
      expect(["href", "target", "rel", "title", "type", "checked", "disabled"]).toContain(name);
      if (name === "href") expect(value).toMatch(/^(https?|mailto):/);
    }
  }
});

test("a link opens elsewhere and tells nothing of here", () => {
  expect(clean("[x](https://a.example/)")).toContain('target="_blank"');
  expect(clean("[x](https://a.example/)")).toContain("noreferrer");
});

test("what people write stays what it is", () => {
  expect(clean("**a** `b` ~~c~~")).toContain("<strong>a</strong> <code>b</code> <del>c</del>");
});
