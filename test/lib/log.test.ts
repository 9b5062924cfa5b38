/**
 * The log of a server (src/lib/log.ts): lines are bounded when nobody reads them, and sentences that
 * repeat are counted instead of said.
 */
import { describe, expect, test } from 'bun:test'
import { createLines, createRepeats, type Every, type Output } from '../../src/lib/log.ts'

/** An output whose writes end when the test says so. */
function createPipe() {
  const written: string[] = []
  const ends: { resolve: () => void; reject: (error: Error) => void }[] = []
  const output: Output = {
    write(text) {
      written.push(text)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      ends.push({ resolve, reject })
      return promise
    },
  }
  return {
    output,
    written,
    /** Ends the oldest write, and waits for what follows from it. */
    async end(error?: Error): Promise<void> {
      const write = ends.shift()
      if (error === undefined) write?.resolve()
      else write?.reject(error)
      await turn()
    },
  }
}
const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

const MAX = 20

/** Lines on a pipe, at most `MAX` characters of them waiting. */
function createWorld() {
  const pipe = createPipe()
  const said: string[] = []
  const say = (sentence: string): void => void said.push(sentence)
  const lines = createLines(pipe.output, say, (_, sentence) => say(sentence), MAX)
  return { ...pipe, said, lines }
}

const systemError = (code: string, message: string): Error =>
  Object.assign(new Error(message), { code })

const NO_SPACE = Object.assign(systemError('ENOSPC', 'ENOSPC: no space left on device, write'), {
  errno: -28,
  syscall: 'write',
})

describe('lines', () => {
  test('of one turn of the event loop are one write, those that come meanwhile the next', async () => {
    const { lines, written, end, said } = createWorld()
    lines.add('a')
    lines.add('b')
    await turn()
    expect(written).toEqual(['a\nb\n'])
    lines.add('c')
    await turn()
    lines.add('d')
    await turn()
    expect(written).toEqual(['a\nb\n'])
    await end()
    expect(written).toEqual(['a\nb\n', 'c\nd\n'])
    await end()
    lines.add('e')
    await turn()
    expect(written.at(-1)).toBe('e\n')
    expect(said).toEqual([])
  })

  test('a stalled reader: lines are dropped, said once, and counted when it reads again', async () => {
    const { lines, written, end, said } = createWorld()
    lines.add('first')
    await turn()
    for (let n = 0; n < 1_000; n += 1) lines.add('12345678')
    await turn()
    expect(said).toEqual(['stdout is not being read: access log lines are dropped until it is'])
    await end()
    expect(written).toEqual(['first\n', '12345678\n12345678\n'])
    expect(said).toHaveLength(1)
    await end()
    expect(said.slice(1)).toEqual(['stdout is read again: 998 access log lines were dropped'])
    lines.add('later')
    await turn()
    expect(written.at(-1)).toBe('later\n')
    for (const _ of [1, 2, 3, 4]) lines.add('12345678')
    expect(said).toHaveLength(3) // it is said again
  })

  test('a stalled reader at the end: what was not written is counted', async () => {
    const { lines, said } = createWorld()
    lines.add('being written')
    await turn()
    for (const _ of [1, 2, 3]) lines.add('12345678')
    lines.close()
    expect(said.at(-1)).toBe('stdout was not read: 4 access log lines were dropped')
    lines.add('after')
    expect(said).toHaveLength(2)
  })
})

describe('lines that cannot be written', () => {
  test('a closed stdout is one sentence, and nothing is written any more', async () => {
    const { lines, written, end, said } = createWorld()
    lines.add('a')
    await turn()
    lines.add('b')
    await end(systemError('EPIPE', 'broken pipe'))
    expect(lines.isOpen()).toBeFalse()
    for (const _ of [1, 2, 3]) {
      lines.add('c')
      await turn()
    }
    await lines.drain()
    lines.close()
    expect(written).toEqual(['a\n'])
    expect(said).toEqual(['stdout is closed: the access log ends here, the service goes on'])
  })

  test('a full disk loses the lines of that write, and the next are tried', async () => {
    const { lines, written, end, said } = createWorld()
    lines.add('a')
    lines.add('b')
    await turn()
    await end(NO_SPACE)
    lines.add('c')
    await turn()
    expect(written).toEqual(['a\nb\n', '\nc\n'])
    expect(said).toEqual(['2 access log lines could not be written: no space left on device'])
    await end(NO_SPACE)
    expect(said.at(-1)).toBe('1 access log line could not be written: no space left on device')
  })

  test('a write that failed may have cut a line: the next ones begin on a line of their own', async () => {
    const { lines, written, end } = createWorld()
    for (const [text, error] of [['a', NO_SPACE], ['b'], ['c']] as const) {
      lines.add(text)
      await turn()
      await end(error)
    }
    expect(written).toEqual(['a\n', '\nb\n', 'c\n'])
  })

  test('drain waits for all of them', async () => {
    const { lines, written, end } = createWorld()
    lines.add('a')
    await turn()
    lines.add('b')
    let isDrained = false
    const drained = lines.drain().then(() => {
      isDrained = true
    })
    await end()
    expect([written, isDrained]).toEqual([['a\n', 'b\n'], false])
    await end()
    await drained
  })
})

/** Minutes that pass when the test says so. */
function createMinutes() {
  const running = new Set<() => void>()
  const every: Every = (run, ms) => {
    expect(ms).toBe(60_000)
    running.add(run)
    return () => void running.delete(run)
  }
  const pass = (): void => {
    for (const run of [...running]) run()
  }
  return { every, pass, running }
}

function createTopics() {
  const said: string[] = []
  const { every, pass, running } = createMinutes()
  return { said, pass, running, ...createRepeats(sentence => void said.push(sentence), every) }
}

describe('repeated sentences', () => {
  test('are said once, then counted every minute, then forgotten', () => {
    const { said, pass, running, sayRepeated } = createTopics()
    for (let n = 0; n < 1_000; n += 1) sayRepeated('too many', `request ${n}: too many`)
    expect(said).toEqual(['request 0: too many'])
    pass()
    expect(said.slice(1)).toEqual(['999 more in the last minute: too many'])
    sayRepeated('too many', 'request 1000: too many')
    pass()
    expect(said.slice(2)).toEqual(['1 more in the last minute: too many'])
    pass()
    expect(running.size).toBe(0)
    sayRepeated('too many', 'request 1001: too many')
    expect(said.slice(3)).toEqual(['request 1001: too many'])
  })

  test('are counted at the end', () => {
    const { said, running, finish, sayRepeated } = createTopics()
    for (const _ of [1, 2, 3]) sayRepeated('a', 'a happened')
    finish()
    expect(said).toEqual(['a happened', '2 more: a'])
    expect(running.size).toBe(0)
  })

  test('ever new topics are bounded too', () => {
    const { said, pass, running, sayRepeated } = createTopics()
    for (let n = 0; n < 10_000; n += 1) sayRepeated(`topic ${n}`, `sentence ${n}`)
    expect(running.size).toBeLessThanOrEqual(51)
    expect(said.length).toBeLessThanOrEqual(51)
    pass()
    expect(said.at(-1)).toMatch(/^\d+ more in the last minute: further sentences$/)
  })
})
