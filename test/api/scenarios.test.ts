/** Runs the scenarios of `scenarios.cases.ts` on one service, in process or as the binary. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Answer } from '../support/answer.ts'
import { addKeys, addList, T0 } from '../support/fixtures.ts'
import { ENGINES, type Service, startService } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { KEYS, PLANS, ROWS, SCENARIOS, STORED, type Step } from './scenarios.cases.ts'

/** A data directory with the scenarios' list, plans and keys. */
function seededDirectory(rows = ROWS): string {
  const dir = temporaryDirectory()
  addList(dir, rows)
  addKeys(dir, PLANS, STORED, T0)
  return dir
}

afterAll(cleanUp)

async function ask(step: Step, on: Service): Promise<Answer> {
  const { path = '/api', query = '', key = KEYS.free, method = 'GET', headers = {} } = step
  on.setClock(step.at ?? 0)
  const parameters = [query, key === null ? '' : `key=${key}`].filter(part => part !== '')
  return on.request(`${path}?${parameters.join('&')}`, { method, headers })
}

/** The one shape of every error (spec 2.3). */
function expectError(answer: Answer, step: Step): void {
  const body = JSON.parse(answer.text)
  const { retry_after: retryAfter } = body
  expect(body).toMatchObject({ status: 'error', code: step.code, message: expect.any(String) })
  expect(body.timestamp).toBe(new Date(T0 + (step.at ?? 0) * 1000).toISOString())
  expect(Object.keys(body).slice(0, 4)).toEqual(['status', 'code', 'message', 'timestamp'])
  expect(Number.isInteger(retryAfter) && retryAfter >= 1).toBe(answer.status === 429)
  const waits = answer.status === 429 ? String(retryAfter) : null
  expect(answer.headers.get('retry-after')).toBe(waits)
}

function expectAnswer(answer: Answer, step: Step): void {
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: step.status })
  if (step.code !== undefined) expectError(answer, step)
  if (step.body !== undefined) expect(answer.text).toBe(step.body)
  for (const part of step.contains ?? []) expect(answer.text).toMatch(part)
  for (const part of step.forbidden ?? []) expect(answer.text).not.toMatch(part)
  for (const [name, value] of Object.entries(step.answerHeaders ?? {})) {
    const actual = answer.headers.get(name)
    if (value === null || actual === null)
      expect<unknown>({ [name]: actual }).toEqual({ [name]: value })
    else expect(actual).toMatch(value)
  }
  for (const key of Object.values(KEYS)) expect(answer.text).not.toContain(key)
}

const escaped = (text: string): RegExp => new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))

describe.each(ENGINES)('the service on %s', engine => {
  let service: Service
  beforeAll(async () => {
    service = await startService(seededDirectory(), { engine })
  })
  for (const { name, key, steps } of SCENARIOS) {
    test(name, async () => {
      for (const step of steps) {
        const own = key === undefined ? step : { key, ...step }
        const contains = step.contains?.map(part =>
          typeof part === 'string' ? escaped(part) : part,
        )
        expectAnswer(await ask(own, service), { ...own, ...(contains && { contains }) })
      }
    })
  }
  test('writes no key to its output', () => {
    for (const key of Object.values(KEYS)) expect(service.output()).not.toContain(key)
    expect(service.output()).not.toMatch(/works=|country=/)
  })
})

describe('a list that must be streamed (F1, F2)', () => {
  const COUNT = 2_500
  const LONG = Array.from({ length: COUNT }, (_, i) => ({
    ip: `10.${i % 5}.${i >> 8}.${i & 255}:3128`,
    type: 'http',
    ping: i % 9 === 0 ? undefined : ((i * 7919) % 400) / 1000,
    works: i % 101,
    age: i % 60,
  }))
  const dir = seededDirectory(LONG)
  let long: Service
  beforeAll(async () => {
    long = await startService(dir)
  })
  const text = async (query: string, key: string = KEYS.free): Promise<string> =>
    (await ask({ query, key, status: 200 }, long)).text

  test('is complete as csv and ndjson', async () => {
    const csv = (await text('get=csv&fields=ip,ping')).split('\r\n')
    expect([csv[0], csv.length, csv.at(-1)]).toEqual(['ip,ping', COUNT + 2, ''])
    const lines = (await text('get=ndjson.file&fields=ip,ping')).trimEnd().split('\n')
    const records = lines.map(line => JSON.parse(line))
    const rows = records.map(({ ip, ping }) => `${ip},${ping ?? ''}`)
    expect(rows).toEqual(csv.slice(1, -1))
  })

  test('starts with the lowest ping, in a stream and in its first hundred records', async () => {
    const all = (await text('sort=ping&get=csv&fields=ip,ping')).trimEnd().split('\r\n').slice(1)
    const pings = all.map(line => Number(line.split(',')[1] || Infinity))
    expect(pings).toEqual(pings.toSorted((a, b) => a - b))
    expect(new Set(all).size).toBe(COUNT)
    const first = (await text('sort=ping&count=100')).trimEnd().split('\n')
    expect(first).toEqual(all.slice(0, 100).map(line => line.split(',')[0] ?? ''))
  })
})

describe('--provider-service (A5)', () => {
  test('renames the fifth service in records, fields and filters', async () => {
    const renamed = await startService(seededDirectory(), { providerService: 'acme mail' })
    const query = 'get=json&pretty=0&service=acme_mail&fields=ip,acme mail'
    const answer = await ask({ query, status: 200 }, renamed)
    expect(answer.text).toBe('[{"ip":"192.0.2.2:8080","acme mail":true}]')
    const refused = await ask({ query: 'service=the_service', status: 400 }, renamed)
    expect(JSON.parse(refused.text)).toMatchObject({ code: 'INVALID_PARAMETER' })
  })
})
