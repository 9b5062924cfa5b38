/**
 * Holds what a long import shows on a terminal (contract C): its progress, and no trace of it at
 * the end. Rows are fed until the program shows what the test waits for, so its speed does not
 * matter.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClock } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { onTerminal } from '../support/terminal.ts'

afterAll(cleanUp)

/** Rows between two looks at the clock, as in the source. */
const STEP = 4096
/** That many good rows, always the same. */
const BLOCK = Array.from({ length: STEP }, (_, i) => `http://10.0.${i >> 8}.${i & 255}:80\n`).join(
  '',
)
/** Between two blocks: what makes an import long is its source. */
const PAUSE_MS = 50
const PROGRESS = /importing (?:\[[^\]\s]+\] \d+% \| )?(\d+) rows/g

/** What a terminal shows after these bytes. Knows only the sequences that the program uses. */
function screenOf(written: string): { lines: string[]; wraps: boolean } {
  const rows = ['']
  const wraps = written.lastIndexOf('\x1b[?7l') <= written.lastIndexOf('\x1b[?7h')
  let [row, column, saved] = [0, 0, [0, 0]]
  for (const [token] of written.matchAll(/\r|\n|\x1b[78]|\x1b\[[?\d]*\w|[^\r\n\x1b]+/g)) {
    const line = rows[row] ?? ''
    if (token === '\r' || token === '\x1b[1G') column = 0
    else if (token === '\n') row += 1
    else if (token === '\x1b7') saved = [row, column]
    else if (token === '\x1b8') [row = 0, column = 0] = saved
    else if (token === '\x1b[0K') rows[row] = line.slice(0, column)
    else if (token === '\x1b[2K') rows[row] = ''
    else if (token.startsWith('\x1b[?7')) continue
    else if (token.startsWith('\x1b')) throw new Error(`unknown ${JSON.stringify(token)}`)
    else {
      rows[row] = line.slice(0, column).padEnd(column) + token + line.slice(column + token.length)
      column += token.length
    }
  }
  return { lines: rows.map(line => line.trimEnd()).filter(line => line !== ''), wraps }
}

/** Starts an import on a terminal. */
function importOnTerminal(files: readonly string[], ...more: readonly string[]) {
  const data = join(temporaryDirectory(), 'data')
  return onTerminal(['import', ...files, ...more, '--data', data], createClock().env)
}

/** A named pipe into which the test writes rows, through a `cat` that can be ended at any time. */
function feeding() {
  const pipe = join(temporaryDirectory(), 'rows.txt')
  expect(Bun.spawnSync(['mkfifo', pipe]).exitCode).toBe(0)
  const cat = Bun.spawn(['sh', '-c', 'exec cat > "$0"', pipe], { stdin: 'pipe', stderr: 'ignore' })
  let rows = 0
  return {
    pipe,
    rows: () => rows,
    /** Resolves when the program is behind by the buffers of the pipes at most. */
    async feed(text = BLOCK): Promise<void> {
      rows += text.split('\n').length - 1
      cat.stdin.write(text)
      await cat.stdin.flush()
    },
    async end(): Promise<void> {
      await cat.stdin.end()
      await cat.exited
    },
    [Symbol.dispose]: () => cat.kill('SIGKILL'),
  }
}
type Feeding = ReturnType<typeof feeding>

/** Feeds good rows until `seen` returns true. */
async function feedUntil(seen: () => boolean, { feed }: Feeding): Promise<void> {
  while (!seen()) {
    await feed()
    await Bun.sleep(PAUSE_MS)
  }
}

/** Whether a terminal has shown how much of a pipe is read. */
const isReading = (written: string): boolean => /reading \d+ bytes/.test(written)

/** The numbers of rows that were shown, in order. */
const shown = (written: string): number[] =>
  [...written.matchAll(PROGRESS)].map(([, rows]) => Number(rows))

describe('a long import on a terminal', () => {
  test('shows its progress before and after a message, and only messages at the end', async () => {
    using feed = feeding()
    const block = join(temporaryDirectory(), 'block.txt')
    writeFileSync(block, BLOCK)
    const terminal = importOnTerminal([block, feed.pipe])
    const { shown: written } = terminal
    await feedUntil(() => isReading(written()), feed)
    await feed.feed('http://10.0.0.300:80\n')
    await feed.feed()
    const message = 'ip must be an IPv4 address with a port, a.b.c.d:port'
    await feed.end()
    expect(await terminal.ended()).toBe(0)
    const badLine = Number(/rows\.txt:(\d+): ip/.exec(written())?.[1])
    expect(badLine % STEP).toBe(1)
    expect(written()).toMatch(/importing \[=+\] 100% \| \d+ rows/)
    const [before = '', after = ''] = written().split(message)
    for (const part of [before, after]) expect(shown(part)).not.toEqual([])
    const counts = shown(written())
    expect(counts.filter(count => count % STEP !== 0)).toEqual([])
    expect(counts.toSorted((a, b) => a - b)).toEqual(counts)
    const read = STEP + feed.rows()
    expect(counts.at(-1)).toBeLessThanOrEqual(read)
    expect(screenOf(written())).toEqual({
      lines: [
        `${feed.pipe}:${badLine}: ${message}`,
        `read ${read}, added ${STEP}, updated 0, unchanged ${read - STEP - 1}, rejected 1, removed 0`,
      ],
      wraps: true,
    })
  })

  test('shows only the error at the end of an import that fails', async () => {
    using feed = feeding()
    const terminal = importOnTerminal([feed.pipe], '--strict')
    await feedUntil(() => isReading(terminal.shown()), feed)
    await feed.feed('http://10.0.0.300:80\n')
    await feed.end()
    expect(await terminal.ended()).toBe(1)
    const { lines, wraps } = screenOf(terminal.shown())
    expect(lines.join('')).toMatch(
      /^proxylist: \S+rows\.txt:\d+: ip must be [^:]+, a\.b\.c\.d:port$/,
    )
    expect(wraps).toBe(true)
  })
})
