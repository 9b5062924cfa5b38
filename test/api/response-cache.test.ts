/**
 * Holds the kept answers to what a fresh one would be: against an uncached twin on the same list,
 * whatever is imported, asked and done to the clock; and that they are really kept, exactly as
 * long as they are right.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Terms, termsOf } from '../../src/access/access.ts'
import { BUILT_IN_PLANS } from '../../src/access/plan.ts'
import { createQuestions, type Question } from '../../src/api/query.ts'
import { type Answer, bodyOf, createAnswers, type Encoding } from '../../src/api/response-cache.ts'
import { type List, openList } from '../../src/app.ts'
import { ANONS, type IncomingProxy, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { fillList, T0, type TestRow } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const PROVIDER = 'the service'
const read = createQuestions(PROVIDER)
const REGULAR: Terms = { countMax: null, worksDefault: null, masked: false }
const DEMO = termsOf({ kind: 'demo', id: 'demo' })

const questionOf = (query: string, terms: Terms = REGULAR): Question =>
  read(`/api?key=k&${query}`, null).ask(terms)

const ENCODINGS: { [E in Encoding]: (body: Uint8Array<ArrayBuffer>) => Uint8Array } = {
  gzip: body => Bun.gzipSync(body),
  zstd: body => Bun.zstdCompressSync(body),
}
const DECODERS: { [E in Encoding]: (body: Uint8Array) => Uint8Array } = {
  gzip: body => Bun.gunzipSync(Uint8Array.from(body)),
  zstd: body => Bun.zstdDecompressSync(body),
}

const isAnswer = (found: unknown): found is Answer =>
  typeof found === 'object' && found !== null && 'pieces' in found

/** Answers from a list; `selects` counts how often the list was asked. */
function answersFrom(list: List, bytesMax: number, select: 'select' | 'selectQuickly' = 'select') {
  let selects = 0
  const answers = createAnswers({
    select: (filter, masked, nowMs, detail) => {
      selects += 1
      const { proxies } = list
      return select === 'select'
        ? proxies.select(filter, masked, nowMs)
        : proxies.selectQuickly(filter, masked, nowMs, detail)
    },
    listVersion: list.proxies.version,
    provider: PROVIDER,
    bytesMax,
  })
  return {
    selects: () => selects,
    keep: answers.keepCompressed,
    async find(question: Question, nowMs: number): Promise<Answer | null> {
      const found: unknown = await answers.find(question, nowMs)
      if (found === null || isAnswer(found)) return found
      throw new Error(`neither an answer nor null: ${String(found)}`)
    },
  }
}
type Asked = ReturnType<typeof answersFrom>

/** What other connections changed is looked at once a turn of the event loop. */
const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

const textOf = (answer: Answer | null, nowMs: number): string | null =>
  answer && new TextDecoder().decode(bodyOf(answer, nowMs))

/** A list in memory with these rows, ages counted from T0. */
function listOf(rows: readonly TestRow[]): List {
  const list = openList(null)
  fillList(list, rows)
  return list
}

const OLD_AND_YOUNG: readonly TestRow[] = [
  { ip: '10.1.0.1:80', type: 'http', age: 100 },
  { ip: '10.2.0.2:80', type: 'socks5', age: 300 },
]

/** `asks` again a second time at `again`; says whether the first answer was used again. */
async function isReused(query: string, first: number, again: number): Promise<boolean> {
  const list = listOf(OLD_AND_YOUNG)
  const kept = answersFrom(list, 2 ** 20)
  const question = questionOf(query)
  const before = await kept.find(question, T0 + first * 1000)
  const after = await kept.find(question, T0 + again * 1000)
  expect(before === after || kept.selects() === 2).toBe(true)
  list.close()
  return kept.selects() === 1
}

describe('an answer is used again', () => {
  const CASES: readonly (readonly [query: string, first: number, again: number, is: boolean])[] = [
    ['', 0, 0, true],
    ['', 0, 300, true], // the older row is 600 s old
    ['', 0, 300.999, true],
    ['', 0, 301, false],
    ['time=900', 0, 600, true],
    ['time=900', 0, 601, false],
    ['time=0', 0, 1e6, true], // nothing matches, and nothing will
    ['count=1', 0, 500, true], // the younger row alone counts
    ['count=1', 0, 501, false],
    ['type=http', 0, 500, true],
    ['type=socks5', 0, 301, false],
    ['type=socks4', 0, 1e6, true],
    ['', 10, 9.999, false], // what was too old may be young enough
    ['', 10.9, 10, true], // the same second
    ['', 10.9, 9, false],
    ['type=socks4', 10, 9, false],
    ['get=json', 0, 300, true],
    ['get=json&wrap=1', 0, 300, true],
    ['get=json&wrap=1', 0, 301, false],
  ]
  test.each(CASES)('to %p: asked %p s and then %p s after T0: %p', async (query, a, b, is) => {
    expect(await isReused(query, a, b)).toBe(is)
  })

  test('for the same question in other words', async () => {
    const kept = answersFrom(listOf(OLD_AND_YOUNG), 2 ** 20)
    const one = await kept.find(questionOf('type=http,socks5&count=2'), T0)
    const other = await kept.find(questionOf('count=02&type=SOCKS5&type=http'), T0)
    expect([other, kept.selects()]).toEqual([one, 1])
  })

  test('by demo only for demo, whose addresses are masked', async () => {
    const kept = answersFrom(listOf(OLD_AND_YOUNG), 2 ** 20)
    const bodies = []
    for (const terms of [REGULAR, { ...DEMO, worksDefault: null, countMax: null }, REGULAR]) {
      bodies.push(textOf(await kept.find(questionOf('', terms), T0), T0))
    }
    const plain = '10.1.0.1:80\n10.2.0.2:80\n'
    expect(bodies).toEqual([plain, '10.1.0.0:80\n10.2.0.0:80\n', plain])
    expect(kept.selects()).toBe(2)
  })

  test('with the time of this response in the envelope', async () => {
    const kept = answersFrom(listOf(OLD_AND_YOUNG), 2 ** 20)
    const question = questionOf('get=json&wrap=1&pretty=0')
    const at = async (nowMs: number) => textOf(await kept.find(question, nowMs), nowMs)
    expect(await at(T0)).toContain('"timestamp":"2026-11-20T12:00:00.000Z"')
    expect(await at(T0 + 1500)).toContain('"timestamp":"2026-11-20T12:00:01.500Z"')
    expect(kept.selects()).toBe(1)
  })

  test('after a row has aged out, without it', async () => {
    const kept = answersFrom(listOf(OLD_AND_YOUNG), 2 ** 20)
    const at = async (seconds: number) =>
      textOf(await kept.find(questionOf(''), T0 + seconds * 1000), T0)
    expect(await at(300)).toBe('10.1.0.1:80\n10.2.0.2:80\n')
    expect(await at(301)).toBe('10.1.0.1:80\n')
    expect(await at(500)).toBe('10.1.0.1:80\n')
    expect(await at(501)).toBeNull()
    expect(await at(500)).toBe('10.1.0.1:80\n')
    expect(await at(300)).toBe('10.1.0.1:80\n10.2.0.2:80\n')
  })
})

describe('an answer is dropped when the list changes', () => {
  const NEW: TestRow = { ip: '10.3.0.3:80', type: 'http' }

  const CHANGES: readonly (readonly [what: string, change: (list: List) => void, text: string])[] =
    [
      ['import', list => fillList(list, [NEW]), '10.3.0.3:80\n10.1.0.1:80\n10.2.0.2:80\n'],
      ['removal', list => list.proxies.removeOlderThan(T0 - 200_000), '10.1.0.1:80\n'],
      ['shift of the checks', list => list.proxies.shiftChecks(-400), '10.1.0.1:80\n'],
    ]
  test.each(CHANGES)('by %s through this connection', async (_, change, text) => {
    const list = listOf(OLD_AND_YOUNG)
    const kept = answersFrom(list, 2 ** 20)
    expect((await kept.find(questionOf(''), T0))?.records).toBe(2)
    change(list)
    await nextTurn()
    expect(textOf(await kept.find(questionOf(''), T0), T0)).toBe(text)
    expect(kept.selects()).toBe(2)
  })

  test.each(CHANGES)('by %s through another connection', async (_, change, text) => {
    const dir = temporaryDirectory()
    const other = openList(dir)
    fillList(other, OLD_AND_YOUNG)
    const list = openList(dir, true)
    const kept = answersFrom(list, 2 ** 20)
    expect((await kept.find(questionOf(''), T0))?.records).toBe(2)
    await nextTurn()
    await kept.find(questionOf(''), T0)
    expect(kept.selects()).toBe(1)
    change(other)
    await nextTurn()
    expect(textOf(await kept.find(questionOf(''), T0), T0)).toBe(text)
    expect(kept.selects()).toBe(2)
    list.close()
    other.close()
  })

  test('also one that said that nothing matches', async () => {
    const list = listOf(OLD_AND_YOUNG)
    const kept = answersFrom(list, 2 ** 20)
    expect(await kept.find(questionOf('time=50'), T0)).toBeNull()
    list.proxies.shiftChecks(60)
    await nextTurn()
    expect(textOf(await kept.find(questionOf('time=50'), T0), T0)).toBe('10.1.0.1:80\n')
  })
})

describe('the bound', () => {
  const MANY = Array.from({ length: 250 }, (_, i) => ({ ip: `10.9.0.${i}:3128`, type: 'http' }))

  /** How often the list is asked when each of these is asked twice, one round after the other. */
  async function selectsOf(bytesMax: number, queries: readonly string[]): Promise<number> {
    const list = listOf(MANY)
    const kept = answersFrom(list, bytesMax)
    for (const query of [...queries, ...queries]) await kept.find(questionOf(query), T0)
    list.close()
    return kept.selects()
  }

  test('of 0 keeps nothing, not even that nothing matches', async () => {
    expect(await selectsOf(0, ['', 'type=socks5'])).toBe(4)
  })

  test('keeps out a body that is larger, and nothing else', async () => {
    expect(await selectsOf(8192, ['get=json'])).toBe(2)
    expect(await selectsOf(8192, ['count=1', 'get=json'])).toBe(3)
    expect(await selectsOf(2 ** 20, ['count=1', 'get=json'])).toBe(2)
  })

  test('counts an overhead, so that many empty answers are bounded too', async () => {
    const queries = Array.from({ length: 100 }, (_, i) => `type=socks5&port=${i + 1}`)
    expect(await selectsOf(8192, queries)).toBe(200)
    expect(await selectsOf(2 ** 20, queries)).toBe(100)
  })

  test('counts the bodies that are kept compressed', async () => {
    const kept = answersFrom(listOf(MANY), 8192)
    const question = questionOf('count=10')
    const answer = await kept.find(question, T0)
    if (answer === null) throw new Error('nothing matched')
    kept.keep(question, answer, 'gzip', new Uint8Array(4096))
    expect(await kept.find(question, T0)).toBe(answer)
    kept.keep(question, answer, 'zstd', new Uint8Array(4096))
    expect(await kept.find(question, T0)).not.toBe(answer)
    expect(kept.selects()).toBe(2)
  })
})

test('compressed bodies of two answers push each other out', async () => {
  const kept = answersFrom(listOf(OLD_AND_YOUNG), 8192)
  const [one, other] = [questionOf('count=1'), questionOf('count=2')]
  for (const question of [one, other]) {
    const answer = await kept.find(question, T0)
    if (answer === null) throw new Error('nothing matched')
    kept.keep(question, answer, 'gzip', new Uint8Array(4096))
  }
  await kept.find(other, T0)
  expect(kept.selects()).toBe(2)
  await kept.find(one, T0)
  expect(kept.selects()).toBe(3)
})

describe('a compressed body', () => {
  const body = new Uint8Array([1, 2, 3])

  test('is kept with its answer, each encoding by itself', async () => {
    const kept = answersFrom(listOf(OLD_AND_YOUNG), 2 ** 20)
    const question = questionOf('')
    const answer = await kept.find(question, T0)
    if (answer === null) throw new Error('nothing matched')
    expect(answer.compressed.size).toBe(0)
    kept.keep(question, answer, 'gzip', body)
    const again = await kept.find(question, T0)
    expect(again?.compressed.get('gzip')).toEqual(body)
    expect(again?.compressed.get('zstd')).toBeUndefined()
    expect(kept.selects()).toBe(1)
    expect((await kept.find(questionOf('get=json'), T0))?.compressed.size).toBe(0)
  })

  test('of an answer that is right no more is not kept with the new one', async () => {
    const list = listOf(OLD_AND_YOUNG)
    const kept = answersFrom(list, 2 ** 20)
    const question = questionOf('')
    const answer = await kept.find(question, T0)
    if (answer === null) throw new Error('nothing matched')
    const late = T0 + 301_000
    const fresh = await kept.find(question, late)
    kept.keep(question, answer, 'gzip', body)
    expect(await kept.find(question, late)).toBe(fresh)
    expect(fresh?.compressed.size).toBe(0)
  })
})

/** What can happen; times in seconds, ages relative to the clock at that moment. */
type Step =
  | { kind: 'ask'; which: number; encoding: Encoding | null }
  | { kind: 'import'; rows: readonly Row[]; replace: boolean }
  | { kind: 'clock'; ms: number }
  | { kind: 'remove'; olderThan: number }
  | { kind: 'shift'; seconds: number }
type Row = Omit<IncomingProxy, 'checkedAt'> & { age: number }

const CITIES = [
  { city: '', cityEn: '' },
  { city: 'Берлин', cityEn: 'Berlin' },
  { city: 'Köln', cityEn: '' },
]
const services = fc.subarray([...SERVICES]).map(chosen => new Set(chosen))

/** Few addresses, of which some are the same when masked. */
const row: fc.Arbitrary<Row> = fc
  .record({
    ip: fc.constantFrom('10.1.0.1', '10.1.0.2', '10.1.9.1', '10.2.0.1', '192.0.2.1', '192.0.2.7'),
    port: fc.constantFrom(80, 1080),
    ipOut: fc.constantFrom('', '10.1.7.7', '2001:db8::1'),
    type: fc.constantFrom(...TYPES),
    anon: fc.constantFrom('' as const, ...ANONS),
    speed: fc.constantFrom(null, 0, 500),
    pingMs: fc.constantFrom(null, 0, 250),
    country: fc.constantFrom('', 'DE', 'US'),
    city: fc.constantFrom(...CITIES),
    works: fc.constantFrom(null, 0, 90, 100),
    services,
    servicesStated: services,
    age: fc.integer({ min: -20, max: 700 }),
  })
  .map(({ city, ...rest }) => ({ ...rest, ...city }))

const PARAMETERS: readonly string[] = [
  ...['type=http', 'type=http,socks5', 'anon=elite', 'ping=250', 'speed=1', 'works=90'],
  ...['time=0', 'time=60', 'time=300', 'time=86400', 'country=de', 'cm=except', 'city=berlin'],
  ...['city=k%C3%B6ln', 'port=80', 'ip=10.1.0.0:80', 'ip=10.2.0.1:80', 'service=smtp'],
  ...['count=1', 'count=2', 'count=5', 'lang=en', 'type_prefix=1', 'fields=ip,timecheck'],
  ...['split_ip=1', 'format=object', 'wrap=1', 'pretty=0', 'get=json', 'get=txt.file'],
]
const query = fc
  .tuple(fc.subarray([...PARAMETERS], { maxLength: 5 }), fc.constantFrom('', 'get=json'))
  .map(([parameters, get]) => {
    const named = new Map([...parameters, get].map(text => [text.split('=')[0], text]))
    return [...named.values()].join('&')
  })
const terms = fc.constantFrom<Terms>(
  REGULAR,
  REGULAR,
  DEMO,
  termsOf({ kind: 'temp', id: 'x' }),
  ...BUILT_IN_PLANS.map(plan => termsOf({ kind: 'regular', id: 'x', plan: { ...plan, count: 3 } })),
)
/** The few questions of one run: each is asked again and again. */
const questions = fc.array(
  fc.tuple(query, terms).map(([text, under]) => questionOf(text, under)),
  { minLength: 1, maxLength: 9 },
)

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.record({
      kind: fc.constant('ask'),
      which: fc.nat(8),
      encoding: fc.constantFrom(null, 'gzip', 'zstd'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('import'),
      rows: fc.array(row, { minLength: 1, maxLength: 6 }),
      replace: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('clock'),
      ms: fc.oneof(
        fc.integer({ min: -3000, max: 3000 }),
        fc.integer({ min: -700_000, max: 700_000 }),
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('remove'),
      olderThan: fc.integer({ min: -20, max: 700 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('shift'),
      seconds: fc.integer({ min: -300, max: 300 }),
    }),
  },
)

const sightOf = (answer: Answer | null, nowMs: number) =>
  answer && {
    records: answer.records,
    subnets: [...answer.subnets],
    body: textOf(answer, nowMs),
  }

/** A cached answer's compressed bodies are its body; one more may be kept with it. */
function checkCompressed(
  kept: Asked,
  { question, answer, nowMs }: { question: Question; answer: Answer; nowMs: number },
  encoding: Encoding | null,
): void {
  const body = bodyOf(answer, nowMs)
  for (const [known, compressed] of answer.compressed) {
    expect(Buffer.from(DECODERS[known](compressed)).equals(body)).toBe(true)
  }
  if (encoding === null || answer.pieces.length > 1 || answer.compressed.has(encoding)) return
  kept.keep(question, answer, encoding, ENCODINGS[encoding](Uint8Array.from(body)))
}

/**
 * A list, and two caches beside an uncached twin; imports go through the list `importing`. The
 * caches select as the server does, the twin as `list` does.
 */
function createWorld(list: List, importing: List, questions: readonly Question[]) {
  const fresh = answersFrom(list, 0)
  const large = answersFrom(list, 2 ** 20, 'selectQuickly')
  const tiny = answersFrom(list, 8192, 'selectQuickly')
  let nowMs = T0

  async function ask(question: Question, encoding: Encoding | null): Promise<void> {
    const expected = sightOf(await fresh.find(question, nowMs), nowMs)
    for (const kept of [large, tiny]) {
      const answer = await kept.find(question, nowMs)
      expect(sightOf(answer, nowMs)).toEqual(expected)
      if (answer !== null) checkCompressed(kept, { question, answer, nowMs }, encoding)
    }
    const { selects } = large
    const before = selects()
    expect(sightOf(await large.find(question, nowMs), nowMs)).toEqual(expected)
    expect(selects()).toBe(before)
  }

  function importRows({ rows, replace }: Step & { kind: 'import' }): void {
    const target = importing.beginImport(replace)
    const seconds = Math.floor(nowMs / 1000)
    for (const { age, ...proxy } of rows) target.add({ ...proxy, checkedAt: seconds - age })
    target.commit()
  }

  return async function take(step: Step): Promise<void> {
    const question = step.kind === 'ask' && questions[step.which % questions.length]
    if (question) return ask(question, step.encoding)
    if (step.kind === 'clock') nowMs += step.ms
    if (step.kind === 'import') importRows(step)
    if (step.kind === 'remove') list.proxies.removeOlderThan(nowMs - step.olderThan * 1000)
    if (step.kind === 'shift') list.proxies.shiftChecks(step.seconds)
    await nextTurn()
  }
}

const steps = fc.array(step, { minLength: 5, maxLength: 40 })

describe('whatever is imported, asked and done to the clock, a kept answer is as a fresh one', () => {
  test('on a list in memory', async () => {
    const follow = async (asked: readonly Question[], taken: readonly Step[]): Promise<void> => {
      const list = openList(null)
      const take = createWorld(list, list, asked)
      for (const step of taken) await take(step)
      list.close()
    }
    await fc.assert(fc.asyncProperty(questions, steps, follow), { numRuns: 200 })
  })

  test('on a list in files, which another process imports into', async () => {
    const dir = temporaryDirectory()
    const list = openList(dir, true)
    const importing = openList(dir)
    const follow = async (asked: readonly Question[], taken: readonly Step[]): Promise<void> => {
      importing.beginImport(true).commit()
      await nextTurn()
      const take = createWorld(list, importing, asked)
      for (const step of taken) await take(step)
    }
    await fc.assert(fc.asyncProperty(questions, steps, follow), { numRuns: 200 })
    list.close()
    importing.close()
  })
})
