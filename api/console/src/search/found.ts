/** Where in a text the words of a query are. The api finds them in the same way (`projections/src/views/search`). */

/** Words that all have to be there; what is in double quotes is one. */
export function wordsOf(query: string): string[] {
  const found = query.split('"').flatMap((piece, at) => (at % 2 === 1 ? [piece] : piece.split(/\s+/)));
  return found.map((word) => word.toLowerCase()).filter((word) => word.trim() !== "");
}

export interface Piece {
  text: string;
  hit: boolean;
}

/** Cuts a text into what was found and what is between. */
export function pieces(text: string, query: string): Piece[] {
  const lower = text.toLowerCase();
  const hits = new Uint8Array(text.length);
  // Letters of another length in lower case are rare; then nothing is marked, rather than something else.
  if (lower.length === text.length) {
    for (const word of wordsOf(query)) {
      for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) hits.fill(1, at, at + word.length);
    }
  }
  const found: Piece[] = [];
  for (let from = 0; from < text.length; ) {
    let to = from;
    while (to < text.length && hits[to] === hits[from]) to += 1;
    found.push({ text: text.slice(from, to), hit: hits[from] === 1 });
    from = to;
  }
  return found;
}
