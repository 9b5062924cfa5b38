/** The log of a server (src/lib/log.ts): which lines it drops, and how often it repeats a sentence. */
import { describe, expect, test } from 'bun:test'
import { createLines, type Output, sayOncePerMinute } from '../../src/lib/log.ts'

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
  const lines = createLines(pipe.output, sentence => void said.push(sentence), MAX)
  return { ...pipe, said, lines }
}

const systemError = (code: string, errno: number): Error =>
  Object.assign(new Error(code), { code, errno, syscall: 'write' })

describe('lines', () => {
  test('of one turn of the event loop are one write; later lines are the next', async () => {
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

  test('are dropped while stdout is blocked, and counted when it is read again', async () => {
    const { lines, written, end, said } = createWorld()
    lines.add('first')
    await turn()
    for (let n = 0; n < 1_000; n += 1) lines.add('12345678')
    await turn()
    expect(said).toEqual([])
    await end()
    expect(written).toEqual(['first\n', '12345678\n12345678\n'])
    expect(said).toEqual([])
    await end()
    expect(said).toEqual(['998 access log lines dropped: stdout did not take them'])
    lines.add('later')
    await turn()
    await end()
    expect(written.at(-1)).toBe('later\n')
    expect(said).toHaveLength(1)
  })

  test('stop after a closed stdout, with one message', async () => {
    const { lines, written, end, said } = createWorld()
    lines.add('a')
    await turn()
    lines.add('b')
    await end(systemError('EPIPE', -32))
    expect(lines.isOpen()).toBeFalse()
    lines.add('c')
    await turn()
    await lines.close()
    expect(written).toEqual(['a\n'])
    expect(said).toEqual(['stdout is closed: the access log ends here, the service goes on'])
  })

  test('are all written before close returns', async () => {
    const { lines, written, end } = createWorld()
    lines.add('a')
    await turn()
    lines.add('b')
    let isClosed = false
    const closed = lines.close().then(() => {
      isClosed = true
    })
    await end()
    expect([written, isClosed]).toEqual([['a\n', 'b\n'], false])
    await end()
    await closed
  })
})

describe('repeated messages', () => {
  function createWorld() {
    let nowMs = 0
    const said: string[] = []
    const sayRepeated = sayOncePerMinute(
      sentence => void said.push(sentence),
      () => nowMs,
    )
    const pass = (ms: number): void => {
      nowMs += ms
    }
    return { said, sayRepeated, pass }
  }

  test('are written once a minute each', () => {
    const { said, sayRepeated, pass } = createWorld()
    for (let n = 0; n < 100; n += 1) {
      sayRepeated('too many')
      sayRepeated('full')
    }
    expect(said).toEqual(['too many', 'full'])
    pass(59_999)
    sayRepeated('full')
    expect(said).toHaveLength(2)
    pass(1)
    sayRepeated('full')
    expect(said).toEqual(['too many', 'full', 'full'])
  })
})
