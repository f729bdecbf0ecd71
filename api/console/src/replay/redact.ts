/** What must not leave with a replay that is handed to others. */

/** Things that open something, by the look that their makers gave them. */
const SECRETS: RegExp[] = [
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
  /\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])*[A-Za-z0-9_-]{16,}/g,
  /\bgh[pousr]_[A-Za-z0-9]{20,}\b/g,
  /\bgithub_pat_[A-Za-z0-9_]{20,}\b/g,
  /\bglpat-[A-Za-z0-9_-]{16,}/g,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,}/g,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  /\bcbx_[A-Za-z0-9_-]{8,}/g,
  /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g,
  /(?<=\b(?:bearer|basic)\s)[A-Za-z0-9+/=_.~-]{8,}/gi,
  /(?<=:\/\/[^\s:/@]{1,100}:)[^\s@/]{1,200}(?=@)/g,
];
/** The value beside a name that says what it is; names may be quoted, as in JSON. */
const NAMED = /((?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|access[_-]?key|credential|cookie)s?[\\"']*\s*[:=]\s*[\\"']*)([^\s"'\\,;&<>{}]{3,})/gi;
const MAIL = /\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+\b/g;
const GONE = "█████";
/** Shorter ones are words of every text. */
const SECRET_LENGTH_MIN = 5;

/** What a text holds of secrets: where it is said again, without its name, it is one as well. */
export function secretsIn(text: string): string[] {
  const found = SECRETS.flatMap((pattern) => text.match(pattern) ?? []);
  for (const [, , value = ""] of text.matchAll(NAMED)) found.push(value);
  return found.filter((secret) => secret.length >= SECRET_LENGTH_MIN);
}

/** Blacks out what looks like a secret or a mail address, and words that a person names. */
export function redact(text: string, words: readonly string[] = []): string {
  let clean = text;
  // The longest first: a part that is gone would hide the whole.
  for (const word of [...words].sort((a, b) => b.length - a.length)) if (word.trim()) clean = clean.replace(new RegExp(escaped(word.trim()), "gi"), GONE);
  for (const pattern of SECRETS) clean = clean.replace(pattern, GONE);
  return clean.replace(NAMED, (_, name: string) => name + GONE).replace(MAIL, GONE);
}

function escaped(word: string): string {
  return word.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}
