/** Owns reading ahead in a text, as far as recognising its format needs. */
import type { Chunks } from '../sink.ts'

/** How many characters of a file are needed to recognise its format. */
export const HEAD_LENGTH = 64 * 1024

/** The beginning of a text, whether that is all of it, and the complete text, head included. */
export async function peek(chunks: Chunks) {
  const iterator = chunks[Symbol.asyncIterator]()
  let head = ''
  let isComplete = false
  while (head.length < HEAD_LENGTH && !isComplete) {
    const { value, done } = await iterator.next()
    if (done) isComplete = true
    else head += value
  }
  async function* all(): Chunks {
    yield head
    if (!isComplete) yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return { head, isComplete, all: all() }
}
