/** Tests of the live log: what a stream begins with, slow readers, heartbeats, its end. */
import { afterEach, beforeEach, describe, expect, jest, test } from 'bun:test'
import { AdminError } from '../../src/admin/errors.ts'
import {
  createBacklog,
  createLogTap,
  HEARTBEAT_MS,
  LAST_BYTES,
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
  const open = (signal: AbortSignal) => tap.open(signal, async all => all.map(({ line }) => line))
  return { ...tap, open, lines }
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

const logged = (line: string) => ({ line, url: '', error: undefined })

describe('lines that wait', () => {
  test('are taken together, and then there are none', () => {
    const backlog = createBacklog([logged('a')])
    backlog.add(logged('b'))
    expect(backlog.take()).toEqual({ lines: [logged('a'), logged('b')], dropped: 0 })
    expect([backlog.isEmpty(), backlog.take()]).toEqual([true, { lines: [], dropped: 0 }])
  })
  test('are bounded: what does not fit is counted', () => {
    const backlog = createBacklog([])
    for (let i = 0; i < WAITING_MAX + 7; i += 1) backlog.add(logged(String(i)))
    const { lines, dropped } = backlog.take()
    expect([lines.length, dropped]).toEqual([WAITING_MAX, 7])
    backlog.add(logged('x'))
    expect(backlog.take()).toEqual({ lines: [logged('x')], dropped: 0 })
  })
})

describe('the live log', () => {
  test('begins with the last 2,000 lines, in their order', async () => {
    const { log, open } = create()
    for (let i = 0; i < LAST_LINES + 30; i += 1) log.line(String(i))
    const expected = Array.from({ length: LAST_LINES }, (_, i) => String(i + 30))
    expect(await readerOf(open(signal())).next()).toBe(`${expected.join('\n')}\n`)
    expect(LAST_LINES).toBe(2000)
  })

  test('begins with fewer lines where they are long: with what its bytes allow', async () => {
    const { log, open } = create()
    const long = `http://a/api?city=${'x'.repeat(LAST_BYTES / 10)}`
    for (let i = 0; i < 40; i += 1) log.line(String(i), { url: long })
    log.line('end')
    expect(await readerOf(open(signal())).next()).toBe('31\n32\n33\n34\n35\n36\n37\n38\n39\nend\n')
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
  test('begins with the last lines with a silent log too, which writes none', async () => {
    const { log, open, lines } = create(false)
    expect(log.hasLines).toBeTrue()
    log.line('before')
    expect(await readerOf(open(signal())).next()).toBe('before\n')
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
    const { open } = create()
    const controller = new AbortController()
    for (let n = 0; n < READERS_MAX; n += 1) open(controller.signal)
    expect(() => open(signal())).toThrow(AdminError)
    controller.abort()
    expect(() => open(signal())).not.toThrow()
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
