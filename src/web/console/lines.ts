/** Owns splitting newline-delimited JSON that arrives in pieces. Pure, knows no network. */

/** A line longer than this is dropped: nothing that the server sends is. In characters. */
const LONGEST = 1_000_000

/**
 * Collects pieces of text and returns the values of the lines that they complete. An empty line is
 * a heartbeat and has no value; a line that is not JSON is skipped, as one that was truncated is.
 */
export function createLineReader<T>(): { push(piece: string): T[]; rest(): T[] } {
  let pending = ''
  const parse = (line: string): T[] => {
    if (line.trim() === '') return []
    try {
      return [JSON.parse(line) as T] // the server's own types, see wire.ts
    } catch {
      return []
    }
  }
  return {
    push(piece) {
      const lines = (pending + piece).split('\n')
      pending = lines.pop() ?? ''
      if (pending.length > LONGEST) pending = ''
      return lines.flatMap(parse)
    },
    /** The last line, which needs no end. */
    rest() {
      const line = pending
      pending = ''
      return parse(line)
    },
  }
}
