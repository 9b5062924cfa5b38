/** Tests of the live log: what a stream begins with, slow readers, heartbeats, its end. */
import { afterEach, beforeEach, describe, expect, jest, test } from 'bun:test'
import { AdminError } from '../../src/admin/errors.ts'
import {
  createBacklog,
  createLogTap,
  HEARTBEAT_MS,
  LAST_LINES,
  READERS_MAX,
  WAITING_MAX,
} from '../../src/admin/live-log.ts'

/** A tap on a log that remembers its lines. */
function create(hasLines = true) {
  const lines: string[] = []
  const tap = createLogTap({
    ...{ hasLines, say() {}, sayRepeated() {}, close: async () => {} },
    line: text => void lines.push(text),
  })
  return { ...tap, lines }
}

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

/** Reads a stream chunk by chunk; `null` at its end. */
function readerOf(stream: ReadableStream<Uint8Array>) {
  const reader = stream.getReader()
  return {
    cancel: () => reader.cancel(),
    async next(): Promise<string | null> {
      const { value } = await reader.read()
      return value === undefined ? null : new TextDecoder().decode(value)
    },
  }
}
/** Lets promises go on; timers stand still. */
async function settled(): Promise<void> {
  for (let n = 0; n < 20; n += 1) await Promise.resolve()
}
const signal = () => new AbortController().signal

describe('lines that wait', () => {
  test('are taken together, and then there are none', () => {
    const backlog = createBacklog(['a'])
    backlog.add('b')
    expect(backlog.take()).toBe('a\nb\n')
    expect([backlog.isEmpty(), backlog.take()]).toEqual([true, ''])
  })
  test('are bounded: what does not fit is counted', () => {
    const backlog = createBacklog([])
    for (let i = 0; i < WAITING_MAX + 7; i += 1) backlog.add(String(i))
    const taken = backlog.take().split('\n')
    expect(taken).toHaveLength(WAITING_MAX + 2)
    expect(taken.at(-2)).toBe('{"dropped":7}')
    backlog.add('x')
    expect(backlog.take()).toBe('x\n')
  })
})

describe('the live log', () => {
  test('begins with the last 100 lines, in their order', async () => {
    const { log, open } = create()
    for (let i = 0; i < LAST_LINES + 30; i += 1) log.line(String(i))
    const expected = Array.from({ length: LAST_LINES }, (_, i) => String(i + 30))
    expect(await readerOf(open(signal())).next()).toBe(`${expected.join('\n')}\n`)
  })

  test('goes on with each line as it happens, and the log has all of them', async () => {
    const { log, open, lines } = create()
    log.line('before')
    const reader = readerOf(open(signal()))
    expect(await reader.next()).toBe('before\n')
    const next = reader.next()
    await settled()
    log.line('one')
    log.line('two')
    jest.advanceTimersByTime(100)
    expect(await next).toBe('one\ntwo\n')
    expect(lines).toEqual(['before', 'one', 'two'])
  })

  test('sends an empty line at once when it has none, and when nothing happens for 15 s', async () => {
    const reader = readerOf(create().open(signal()))
    expect(await reader.next()).toBe('\n')
    for (let n = 0; n < 3; n += 1) {
      const next = reader.next()
      await settled()
      jest.advanceTimersByTime(HEARTBEAT_MS)
      expect(await next).toBe('\n')
    }
    expect(HEARTBEAT_MS).toBe(15_000)
  })

  test('drops what a reader that does not read has no room for, and says how many lines', async () => {
    const { log, open } = create()
    const slow = readerOf(open(signal()))
    const quick = readerOf(open(signal()))
    for (let i = 0; i < WAITING_MAX; i += 1) log.line('x')
    expect((await quick.next())?.split('\n')).toHaveLength(WAITING_MAX + 1)
    for (let i = 0; i < 5; i += 1) log.line('y')
    expect((await slow.next())?.endsWith('x\n{"dropped":5}\n')).toBeTrue()
    expect(await quick.next()).toBe('y\n'.repeat(5))
  })
})

describe('watching', () => {
  test('makes lines with a silent log only while somebody watches, and writes none', async () => {
    const { log, open, lines } = create(false)
    expect(log.hasLines).toBeFalse()
    const controller = new AbortController()
    const reader = readerOf(open(controller.signal))
    expect(log.hasLines).toBeTrue()
    log.line('seen')
    expect(await reader.next()).toBe('seen\n')
    controller.abort()
    expect(log.hasLines).toBeFalse()
    expect(lines).toEqual([])
  })

  test('is for so many streams at once; one that ends makes room for another', async () => {
    const { open } = create()
    const readers = Array.from({ length: READERS_MAX }, () => readerOf(open(signal())))
    expect(() => open(signal())).toThrow('32 live logs are open; close one first')
    await readers[7]?.cancel()
    expect(() => open(signal())).not.toThrow()
    expect(() => open(signal())).toThrow(AdminError)
  })

  test('ends when its reader leaves', async () => {
    const { log, open } = create(false)
    const reader = readerOf(open(signal()))
    await reader.cancel()
    expect(log.hasLines).toBeFalse()
  })

  test('ends at once when the server does, for those who come later too', async () => {
    const { open, close } = create()
    const reader = readerOf(open(signal()))
    const next = reader.next()
    close()
    jest.advanceTimersByTime(0)
    expect(await next).toBeNull()
    expect(await readerOf(open(signal())).next()).toBeNull()
  })
})
