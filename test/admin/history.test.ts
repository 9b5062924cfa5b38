/** Tests of the samples of 24 hours: their file, damage, a clock that jumps, several servers. */
import { afterAll, describe, expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import {
  decodeSlot,
  encodeSlot,
  FILE_BYTES,
  HISTORY_FILE,
  MEASURES,
  MINUTES,
  openHistory,
  type Sample,
} from '../../src/admin/history.ts'
import { lockPlace } from '../../src/sqlite/file-lock.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const M0 = T0 / 60_000

/** A history as a server has it. */
function open(dir: string) {
  const file = join(dir, HISTORY_FILE)
  const said: string[] = []
  const history = openHistory({
    ...{ file, adopt: () => {}, say: sentence => said.push(sentence) },
    lock: () => lockPlace(file, 0),
  })
  onCleanUp(history.close)
  return { ...history, file, said }
}

const sampleAt = (minute: number, ok: number | null = 1): Sample => ({
  ...{ minute, ok, notFound: 0, rejected: 0, refused: 0, failed: 0, p50Ms: null, p99Ms: 2.5 },
  ...{ rows: 400, fresh: 300, keys: 2, rssBytes: 6e7 },
})
const minutesOf = (samples: readonly Sample[]): number[] => samples.map(({ minute }) => minute)

const anyMeasure = fc.option(
  fc.double({ min: 0, max: 2 ** 50, noNaN: true, noDefaultInfinity: true }),
)
const anySample = fc
  .record({
    minute: fc.integer({ min: 1, max: 2 ** 40 }),
    ...(Object.fromEntries(MEASURES.map(measure => [measure, anyMeasure])) as {
      [M in (typeof MEASURES)[number]]: typeof anyMeasure
    }),
  })
  .map(sample => sample as Sample)

describe('a slot', () => {
  test('holds every sample exactly', () => {
    fc.assert(
      fc.property(anySample, sample => {
        expect(decodeSlot(encodeSlot(sample))).toEqual(sample)
      }),
    )
  })
  test('with any byte changed is damaged, and so no sample', () => {
    fc.assert(
      fc.property(anySample, fc.nat(), fc.integer({ min: 1, max: 255 }), (sample, at, change) => {
        const bytes = encodeSlot(sample)
        const i = at % bytes.length
        bytes[i] = (bytes[i] ?? 0) ^ change
        const found = decodeSlot(bytes)
        // A zero and a negative zero are equal numbers; nothing else passes.
        if (found !== null) expect(found).toEqual(sample)
      }),
    )
  })
  test('that is empty is no sample', () => {
    expect(decodeSlot(new Uint8Array(encodeSlot(sampleAt(M0)).length))).toBeNull()
  })
})

describe('the history', () => {
  test('survives a restart, and its file has one size, for its owner only', () => {
    const dir = temporaryDirectory()
    const first = open(dir)
    for (let i = 0; i < 10; i += 1) first.add(sampleAt(M0 + i, i))
    first.close()
    const { size, mode } = statSync(first.file)
    expect([size, mode & 0o777]).toEqual([FILE_BYTES, 0o600])
    expect(FILE_BYTES).toBeLessThanOrEqual(300 * 1024)
    expect(existsSync(`${first.file}.lock`)).toBeFalse()
    expect(open(dir).until(M0 + 9)).toEqual(
      Array.from({ length: 10 }, (_, i) => sampleAt(M0 + i, i)),
    )
  })

  test('survives a kill: each sample is in the file when it was added', () => {
    const dir = temporaryDirectory()
    const killed = open(dir)
    killed.add(sampleAt(M0))
    const copy = temporaryDirectory()
    writeFileSync(join(copy, HISTORY_FILE), readFileSync(killed.file))
    expect(open(copy).until(M0)).toEqual([sampleAt(M0)])
  })

  test('holds 1,440 minutes, and then overwrites the oldest', () => {
    const history = open(temporaryDirectory())
    for (let i = 0; i < MINUTES + 5; i += 1) history.add(sampleAt(M0 + i))
    const minutes = minutesOf(history.until(M0 + MINUTES + 4))
    expect([minutes.length, minutes[0]]).toEqual([MINUTES, M0 + 5])
    expect(statSync(history.file).size).toBe(FILE_BYTES)
  })

  test('shows what a model shows, however the clock jumps and whenever the server restarts', () => {
    const steps = fc.array(
      fc.record({ jump: fc.integer({ min: -3000, max: 3000 }), restart: fc.boolean() }),
      { maxLength: 40 },
    )
    fc.assert(
      fc.property(steps, all => {
        const dir = temporaryDirectory()
        let history = open(dir)
        const model = new Map<number, Sample>()
        let minute = M0
        for (const { jump, restart } of all) {
          // Mostly the next minute; sometimes a jump.
          minute = Math.abs(jump) < 1500 ? minute + 1 : Math.max(1, minute + jump)
          const sample = sampleAt(minute, Math.abs(jump))
          history.add(sample)
          model.set(minute % MINUTES, sample)
          if (restart) {
            history.close()
            history = open(dir)
          }
          const expected = [...model.values()]
            .filter(each => each.minute <= minute && each.minute > minute - MINUTES)
            .sort((a, b) => a.minute - b.minute)
          expect(history.until(minute)).toEqual(expected)
        }
        history.close()
        rmSync(dir, { recursive: true })
      }),
      { numRuns: 30 },
    )
  })
})

describe('the file of the history', () => {
  test.each([
    ['empty', (file: string) => writeFileSync(file, '')],
    ['of another kind', (file: string) => writeFileSync(file, 'x'.repeat(FILE_BYTES))],
    ['cut off', (file: string) => truncateSync(file, FILE_BYTES - 1)],
    ['too long', (file: string) => truncateSync(file, FILE_BYTES + 1)],
  ])('begins again where the file is %s', (_, damage) => {
    const dir = temporaryDirectory()
    const before = open(dir)
    before.add(sampleAt(M0))
    before.close()
    damage(before.file)
    const after = open(dir)
    expect(after.until(M0)).toEqual([])
    after.add(sampleAt(M0 + 1))
    after.close()
    expect(statSync(before.file).size).toBe(FILE_BYTES)
    expect(open(dir).until(M0 + 1)).toEqual([sampleAt(M0 + 1)])
    expect(after.said).toEqual([])
  })

  test('loses damaged slots only', () => {
    const dir = temporaryDirectory()
    const before = open(dir)
    for (let i = 0; i < 3; i += 1) before.add(sampleAt(M0 + i))
    before.close()
    const bytes = readFileSync(before.file)
    const slot = encodeSlot(sampleAt(M0)).length
    const at = ((M0 + 1) % MINUTES) * slot + slot + 20
    bytes[at] = (bytes[at] ?? 0) ^ 1
    writeFileSync(before.file, bytes)
    expect(minutesOf(open(dir).until(M0 + 2))).toEqual([M0, M0 + 2])
  })
})

describe('a history that cannot have its file', () => {
  test('of a second server on the directory stays in memory, until the first one ends', () => {
    const dir = temporaryDirectory()
    const first = open(dir)
    const second = open(dir)
    first.add(sampleAt(M0, 1))
    second.add(sampleAt(M0, 2))
    second.add(sampleAt(M0 + 1, 2))
    expect(second.until(M0 + 1).map(({ ok }) => ok)).toEqual([2, 2])
    expect(first.until(M0 + 1).map(({ ok }) => ok)).toEqual([1])
    first.close()
    second.add(sampleAt(M0 + 2, 2))
    second.close()
    expect(
      open(dir)
        .until(M0 + 2)
        .map(({ ok }) => ok),
    ).toEqual([2, 2, 2])
  })

  test('is written again into a new file when it was removed or replaced', () => {
    const dir = temporaryDirectory()
    const history = open(dir)
    history.add(sampleAt(M0))
    rmSync(history.file)
    history.add(sampleAt(M0 + 1))
    expect(statSync(history.file).size).toBe(FILE_BYTES)
    history.close()
    expect(minutesOf(open(dir).until(M0 + 1))).toEqual([M0, M0 + 1])
  })

  test('stays in memory where there is no plain file, and opening it waits for nobody', () => {
    const dir = temporaryDirectory()
    Bun.spawnSync(['mkfifo', join(dir, HISTORY_FILE)])
    const { said, until, add } = open(dir)
    add(sampleAt(M0))
    expect(minutesOf(until(M0))).toEqual([M0])
    expect(said).toEqual([
      'the charts of the console are kept in memory only: console-history is not a file',
    ])
  })

  test('stays in memory where there is a directory in the place of its lock', () => {
    const dir = temporaryDirectory()
    mkdirSync(join(dir, `${HISTORY_FILE}.lock`))
    expect(open(dir).said).toEqual([
      'the charts of the console are kept in memory only: illegal operation on a directory',
    ])
  })

  test('stays in memory where it cannot be written, and that is said once', () => {
    const dir = temporaryDirectory()
    const file = join(dir, 'missing', HISTORY_FILE)
    const said: string[] = []
    const history = openHistory({
      ...{ file, adopt: () => {}, say: sentence => said.push(sentence), lock: () => () => {} },
    })
    history.add(sampleAt(M0))
    history.add(sampleAt(M0 + 1))
    expect(minutesOf(history.until(M0 + 1))).toEqual([M0, M0 + 1])
    expect(said).toEqual([
      'the charts of the console are kept in memory only: no such file or directory',
    ])
  })
})
