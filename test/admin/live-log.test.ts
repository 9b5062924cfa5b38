/** The live log: which lines it keeps, and which ones follow a place. */
import { describe, expect, test } from 'bun:test'
import { createLogTap, LAST_BYTES, LAST_LINES } from '../../src/admin/live-log.ts'

/** A tap on a log that remembers its lines. */
function create(hasLines = true, start = 'abc') {
  const written: string[] = []
  const tap = createLogTap(
    {
      ...{ hasLines, say() {}, sayRepeated() {}, close: async () => {} },
      line: text => void written.push(text),
    },
    start,
  )
  const after = (place = '') => {
    const { lines, ...rest } = tap.after(place)
    return { ...rest, lines: lines.map(({ line }) => line) }
  }
  return { ...tap, after, written }
}

describe('the live log', () => {
  test('has the last 2,000 lines, in their order', () => {
    const { log, after } = create()
    for (let i = 0; i < LAST_LINES + 30; i += 1) log.line(String(i))
    const lines = Array.from({ length: LAST_LINES }, (_, i) => String(i + 30))
    expect(after()).toEqual({ lines, next: 'abc-2030' })
    expect(LAST_LINES).toBe(2000)
  })

  test('keeps fewer lines when they are long, within a limit of bytes', () => {
    const { log, after } = create()
    const long = `http://a/api?city=${'x'.repeat(LAST_BYTES / 10)}`
    for (let i = 0; i < 40; i += 1) log.line(String(i), { url: long })
    log.line('end')
    expect(after().lines).toEqual([
      ...['31', '32', '33', '34', '35', '36', '37', '38', '39', 'end'],
    ])
    log.line('longest', { url: 'x'.repeat(LAST_BYTES + 1) })
    expect(after()).toEqual({ lines: [], next: 'abc-42' })
  })

  test('returns each line after a position once', () => {
    const { log, after, written } = create()
    log.line('one')
    const { next } = after()
    expect(after(next)).toEqual({ lines: [], next })
    log.line('two')
    log.line('three')
    expect(after(next)).toEqual({ lines: ['two', 'three'], next: 'abc-3' })
    expect(written).toEqual(['one', 'two', 'three'])
    for (let i = 0; i < LAST_LINES + 5; i += 1) log.line('x')
    expect(after(next)).toMatchObject({ lines: { length: LAST_LINES } })
  })

  test('starts over after a position of an earlier process', () => {
    const { log, after } = create()
    log.line('one')
    expect(after('old-99')).toEqual({ lines: ['one'], next: 'abc-1' })
    expect(after('abc-99')).toEqual({ lines: [], next: 'abc-1' })
  })

  test.each(['abc', '-1', 'abc-1-2', 'abc-x'])('refuses the invalid position %p', place => {
    expect(() => create().after(place)).toThrow('after must be the next of an answer')
  })

  test('has lines even when the access log is off', () => {
    const { log, after, written } = create(false)
    expect(log.hasLines).toBeTrue()
    log.line('one')
    expect([after().lines, written]).toEqual([['one'], []])
  })
})
