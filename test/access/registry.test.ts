/** What a registry promises of keys and plans (`src/access/ports.ts`), on every engine. */
import { afterAll, describe, expect, test as skippable } from 'bun:test'
import { consumptionOf, keySubject, limitRulesOf } from '../../src/access/entitlements.ts'
import { hashKey, type ListedKey, type NewKey, type StoredKey } from '../../src/access/key.ts'
import { BUILT_IN_PLANS, type Plan } from '../../src/access/plan.ts'
import type { Registry } from '../../src/access/ports.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import { builtIn, burst, decideAll, regular } from '../support/limits.ts'
import {
  REGISTRY_ENGINES,
  type RegistryEngine,
  type TestInstallation,
} from '../support/registries.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** A text that separators, quotes and arrays of any database could trip over. */
const ODD = `Örn & Co, "a" 'b' {null} \\ $1 ; -- %s 🙂`

const secret = (text: string) => ({ hash: hashKey(text), expiresAt: T0 + HOUR_MS })

/** A key as an export has it. */
const stored = (id: string, more: Partial<StoredKey> = {}): StoredKey => ({
  ...{ id, hash: hashKey(id), prefix: id.slice(0, 2) },
  ...{ label: '', note: '', from: '', plan: 'standard' },
  ...{ createdAt: T0, expiresAt: null, revokedAt: null, oldSecrets: [] },
  ...more,
})

/** A new installation. */
async function install({ install: make }: RegistryEngine) {
  const installation = await make()
  const others: TestInstallation[] = []
  const { keys, plans, usage } = installation.open()
  return {
    ...{ keys, plans, usage, at: installation.at },
    /** One more machine. */
    open: () => installation.open(),
    /** Another installation. */
    async another(): Promise<Registry> {
      const second = await make()
      others.push(second)
      return second.open()
    },
    /** Sends requests of a key, each through two networks of proxies, the second one a new one. */
    async use(id: string, times: number, atMs: number): Promise<void> {
      await installation.at(atMs)
      const caller = regular({ ...burst(1000, 1), subnets: 1000, clients: 1000 }, id)
      for (let n = 0; n < times; n += 1) {
        const rules = limitRulesOf(caller, '192.0.2.1')
        const [decision] = await decideAll(usage, [{ rules, nowMs: atMs }])
        expect(decision?.kind).toBe('admitted')
        const served = { ip: '192.0.2.1', subnets: [n, n + 1], atMs, nowMs: atMs }
        await usage.consume([consumptionOf(caller, served)])
      }
    },
    async add(key: string, more: Partial<NewKey> = {}): Promise<string> {
      const made = { key, label: '', note: '', from: '', plan: 'standard', expiresAt: null }
      return (await keys.add({ ...made, ...more }, T0)).id
    },
    async read(id: string, nowMs = T0): Promise<ListedKey> {
      const [key] = await keys.list(nowMs, [id])
      if (key === undefined) throw new Error(`there is no key ${id}`)
      return key
    },
    async plan(name: string): Promise<Plan | null> {
      return (await plans.list()).find(plan => plan.name === name) ?? null
    },
    /** The id of the key that has or had a secret. */
    async ownerOf(key: string): Promise<string | null> {
      const [problem] = await keys.load([stored('probe', { hash: hashKey(key) })], true)
      return problem?.kind === 'known-secret' ? problem.id : null
    },
    async close(): Promise<void> {
      for (const each of [installation, ...others]) await each.close()
    },
  }
}

/** A test on a new installation of every engine. */
function test(
  name: string,
  work: (on: Awaited<ReturnType<typeof install>>) => Promise<void>,
): void {
  for (const engine of REGISTRY_ENGINES) {
    skippable.skipIf(!engine.isThere)(`${engine.name}: ${name}`, async () => {
      const on = await install(engine)
      await work(on).finally(on.close)
    })
  }
}

describe('new keys', () => {
  test('are listed by prefix and stored as hashes', async on => {
    const expiresAt = T0 + DAY_MS
    const texts = { label: ODD, note: `${ODD}!`, from: '192.0.2.0/24,2001:db8::/32' }
    const id = await on.add('secret-of-a-customer', { ...texts, expiresAt })
    expect(id).toMatch(/^[a-z0-9]{8}$/)
    const unused = { requestsToday: 0, subnetsToday: 0, clientsToday: 0, oldSecretsUntil: [] }
    const listed = { id, prefix: 'secret', ...texts, plan: 'standard', ...unused }
    const key = { ...listed, createdAt: T0, expiresAt, revokedAt: null, isEnabled: true }
    expect(await on.read(id)).toEqual(key)
    expect([...(await on.keys.list(T0))]).toEqual([key])
    expect(await on.keys.dump()).toEqual([
      stored(id, {
        hash: hashKey('secret-of-a-customer'),
        prefix: 'secret',
        ...texts,
        expiresAt,
      }),
    ])
    expect(await on.keys.list(T0, ['another'])).toHaveLength(0)
  })

  test('are added only once, even after they are rotated or revoked', async on => {
    const id = await on.add('one')
    const again = () =>
      on.keys.add({ key: 'one', label: 'x', note: 'x', from: '', plan: null, expiresAt: 1 }, T0)
    expect(await again()).toEqual({ id, isNew: false })
    await on.keys.rotate(id, 'two', T0 + HOUR_MS, T0)
    expect(await again()).toEqual({ id, isNew: false })
    await on.keys.revoke(id, T0)
    expect(await again()).toEqual({ id, isNew: false })
    expect(await on.keys.list(T0)).toHaveLength(1)
    expect(await on.read(id)).toMatchObject({ label: '', plan: 'standard', expiresAt: null })
  })

  test('are listed by creation time, then by id', async on => {
    const keys = [stored('b'), stored('c', { createdAt: T0 - 1 }), stored('a'), stored('B')]
    await on.keys.load(keys, false)
    const ids = (await on.keys.list(T0)).map(({ id }) => id)
    expect(ids).toEqual(['c', 'B', 'a', 'b'])
    expect((await on.keys.dump()).map(({ id }) => id)).toEqual(ids)
  })
})

describe('keys', () => {
  test('change only in the given fields', async on => {
    const id = await on.add('one', { label: 'first', expiresAt: T0 + 1 })
    const before = await on.read(id)
    expect(await on.keys.set(id, { label: ODD })).toBeTrue()
    expect(await on.read(id)).toEqual({ ...before, label: ODD })
    await on.keys.set(id, { plan: 'classic' })
    expect(await on.read(id)).toEqual({ ...before, label: ODD, plan: 'classic' })
    await on.keys.set(id, { expiresAt: T0 + DAY_MS, label: '' })
    expect(await on.read(id)).toEqual({
      ...before,
      ...{ plan: 'classic', label: '', expiresAt: T0 + DAY_MS },
    })
    await on.keys.set(id, { expiresAt: null })
    expect(await on.read(id)).toEqual({ ...before, label: '', plan: 'classic', expiresAt: null })
    await on.keys.set(id, { note: ODD })
    expect(await on.read(id)).toMatchObject({ label: '', note: ODD, plan: 'classic' })
    await on.keys.set(id, { from: '192.0.2.7' })
    expect(await on.read(id)).toMatchObject({ note: ODD, from: '192.0.2.7' })
    await on.keys.set(id, { from: '' })
    expect(await on.read(id)).toMatchObject({ note: ODD, from: '' })
    expect(await on.keys.set('another', { label: 'x' })).toBeFalse()
  })

  test('keep the time of their first revocation', async on => {
    const id = await on.add('one')
    expect(await on.keys.revoke(id, T0 + 5)).toBeTrue()
    expect(await on.keys.revoke(id, T0 + 9)).toBeTrue()
    expect((await on.read(id)).revokedAt).toBe(T0 + 5)
    expect(await on.keys.revoke('another', T0)).toBeFalse()
  })

  test('that are temporary have no own plan; plan temp switches them off', async on => {
    const id = await on.add('temp_1', { plan: null })
    expect(await on.read(id)).toMatchObject({ plan: null, isEnabled: true })
    await on.plans.set({ ...builtIn('temp'), enabled: false })
    expect(await on.read(id)).toMatchObject({ plan: null, isEnabled: false })
  })
})

describe('many keys', () => {
  test('are read in slices by id, with the fields that lists search and sort', async on => {
    const keys = ['c', 'a', 'B', 'd'].map(id => stored(id, { label: ODD, note: id }))
    await on.keys.load(keys, false)
    await on.use('a', 2, T0 - DAY_MS)
    await on.use('d', 3, T0)
    await on.plans.set({ ...builtIn('standard'), enabled: false })
    const slice = async (after: string) => [...(await on.keys.scan(after, 2, T0))]
    const { hash: _, oldSecrets: __, ...properties } = stored('a', { label: ODD, note: 'a' })
    const unused = { requestsToday: 0, lastSeenMs: null, isEnabled: false }
    expect(await slice('')).toEqual([
      { ...properties, ...unused, id: 'B', note: 'B', prefix: 'B' },
      { ...properties, ...unused, lastSeenMs: T0 - DAY_MS },
    ])
    const rest = await slice('a')
    expect(rest).toMatchObject([{ id: 'c' }, { id: 'd', requestsToday: 3, lastSeenMs: T0 }])
    expect(await slice('d')).toEqual([])
  })

  test('are counted by plan, revoked ones included', async on => {
    expect(await on.keys.countByPlan()).toHaveLength(0)
    const [id] = [await on.add('one'), await on.add('two'), await on.add('temp_3', { plan: null })]
    await on.keys.revoke(id, T0)
    const counts = new Map((await on.keys.countByPlan()).map(({ plan, keys }) => [plan, keys]))
    expect(counts).toEqual(new Map<string | null, number>([['standard', 2]]).set(null, 1))
  })
})

describe('keys that end', () => {
  test('between two instants are counted and read by end, without temporary keys', async on => {
    const ends = [3, 1, 2, 4, 5].map(hours => T0 + hours * HOUR_MS)
    const ids: string[] = []
    for (const [n, expiresAt] of ends.entries()) {
      ids.push(await on.add(`a secret of ${n}`, { label: `${n}`, expiresAt }))
    }
    await on.add('another secret')
    await on.add('temp_4', { plan: null, expiresAt: T0 + 2 * HOUR_MS }) // as it should
    await on.keys.revoke(ids[2] ?? '', T0)
    const [third, first, , fourth] = ids.map((id, n) => ({ id, label: `${n}`, expiresAt: ends[n] }))
    const read = async (from: number, until: number, most: number) => {
      const { keys, total } = await on.keys.ending(T0 + from * HOUR_MS, T0 + until * HOUR_MS, most)
      return { total, keys: keys.map(({ id, label, expiresAt }) => ({ id, label, expiresAt })) }
    }
    expect<unknown>(await read(0, 4, 2)).toEqual({ total: 3, keys: [first, third] })
    expect<unknown>(await read(1, 4, 9)).toEqual({ total: 2, keys: [third, fourth] })
    expect(await read(5, 9, 9)).toEqual({ total: 0, keys: [] })
  })
})

describe('a key that is rotated', () => {
  test('has a new secret; older secrets stay no longer than the overlap', async on => {
    const id = await on.add('secret one')
    expect(await on.keys.rotate(id, 'secret two', T0 + 100, T0)).toBeTrue()
    expect(await on.keys.rotate(id, 'other three', T0 + 50, T0)).toBeTrue()
    expect((await on.read(id)).oldSecretsUntil).toEqual([T0 + 50, T0 + 50])
    await on.keys.rotate(id, 'last four', T0 + 90, T0)
    expect(await on.read(id)).toMatchObject({
      ...{ prefix: 'las', oldSecretsUntil: [T0 + 50, T0 + 50, T0 + 90] },
    })
    expect((await on.read(id, T0 + 50)).oldSecretsUntil).toEqual([T0 + 90])
    expect((await on.read(id, T0 + 90)).oldSecretsUntil).toEqual([])
    const [{ hash, oldSecrets } = stored('none')] = await on.keys.dump()
    expect(hash).toEqual(hashKey('last four'))
    const ends = { 'secret one': T0 + 50, 'secret two': T0 + 50, 'other three': T0 + 90 }
    expect(new Map(oldSecrets.map(old => [old.hash.toHex(), old.expiresAt]))).toEqual(
      new Map(Object.entries(ends).map(([key, end]) => [hashKey(key).toHex(), end])),
    )
  })

  test('loses the old secrets that have ended', async on => {
    const id = await on.add('one')
    await on.keys.rotate(id, 'two', T0 + 50, T0)
    await on.keys.rotate(id, 'three', T0 + 200, T0 + 50)
    const [{ oldSecrets } = stored('none')] = await on.keys.dump()
    expect(oldSecrets).toEqual([{ hash: hashKey('two'), expiresAt: T0 + 200 }])
    expect(await on.ownerOf('one')).toBeNull()
    expect(await on.ownerOf('two')).toBe(id)
  })
  test('ends all old secrets when the current one ends at once', async on => {
    const id = await on.add('one')
    await on.keys.rotate(id, 'two', T0 + DAY_MS, T0)
    expect(await on.keys.rotate(id, 'three', T0, T0)).toBeTrue()
    expect((await on.keys.dump())[0]?.oldSecrets).toEqual([])
    expect(await on.ownerOf('three')).toBe(id)
    expect(await on.ownerOf('two')).toBeNull()
  })
})

describe('the use of keys', () => {
  test('is listed for today: requests, networks of proxies and of clients', async on => {
    const [id, other] = [await on.add('one'), await on.add('two')]
    await on.use(id, 2, T0 - DAY_MS)
    expect(await on.read(id, T0 - DAY_MS)).toMatchObject({ requestsToday: 2, subnetsToday: 3 })
    await on.at(T0)
    const unused = { requestsToday: 0, subnetsToday: 0, clientsToday: 0 }
    expect(await on.read(id)).toMatchObject(unused)
    await on.use(id, 3, T0)
    expect(await on.read(id)).toMatchObject({ requestsToday: 3, subnetsToday: 4, clientsToday: 1 })
    expect(await on.read(other)).toMatchObject(unused)
    expect((await on.keys.list(T0)).find(key => key.id === id)?.requestsToday).toBe(3)
  })

  test('counts keys that are not revoked and keys used today', async on => {
    const [one, two] = [await on.add('one'), await on.add('two')]
    await on.add('three')
    expect(await on.keys.count(T0)).toEqual({ total: 3, usedToday: 0 })
    await on.use(one, 1, T0 - DAY_MS)
    await on.use(two, 1, T0)
    await on.keys.revoke(one, T0)
    expect(await on.keys.count(T0)).toEqual({ total: 2, usedToday: 1 })
  })

  test('lists keys above a share of refused requests today, most refusals first', async on => {
    const refuse = (keyId: string, refused: number, nowMs = T0) =>
      on.usage.note({ keyId, records: 0, refused, nowMs })
    const [few, some, many, tried] = [
      await on.add('few'),
      await on.add('some', { label: 'acme' }),
      await on.add('many'),
      await on.add('tried'),
    ]
    await on.use(few, 380, T0)
    await on.use(some, 379, T0)
    refuse(few, 20)
    refuse(some, 20)
    refuse(many, 21)
    refuse(tried, 19)
    refuse(many, 99, T0 - DAY_MS)
    refuse('demo', 99)
    await on.usage.flush()
    const refused = await on.keys.refused(T0, 0.05, 3)
    expect(refused.total).toBe(2)
    expect(refused.keys.map(key => [key.id, key.label, key.requests, key.refused])).toEqual([
      [many, '', 0, 21],
      [some, 'acme', 379, 20],
    ])
    const { keys, total } = await on.keys.refused(T0, 0.05, 1)
    expect([keys.map(({ id }) => id), total]).toEqual([[many], 2])
    expect(await on.keys.refused(T0 + DAY_MS, 0.05, 3)).toEqual({ keys: [], total: 0 })
  })

  test('is removed with its key, which must be revoked first', async on => {
    const id = await on.add('one')
    await on.use(id, 2, T0)
    expect(await on.keys.remove(id)).toBe('not-revoked')
    expect(await on.read(id)).toMatchObject({ requestsToday: 2 })
    await on.keys.revoke(id, T0)
    await on.keys.rotate(id, 'two', T0 + DAY_MS, T0)
    expect(await on.keys.remove(id)).toBe('removed')
    expect(await on.keys.remove(id)).toBe('unknown')
    expect(await on.keys.list(T0, [id])).toHaveLength(0)
    expect(await on.ownerOf('one')).toBeNull()
    const at = { subject: keySubject(id), day: utcDay(T0) }
    expect(await on.usage.countNetworks([at])).toEqual([{ served: 0, callers: 0 }])
    expect(
      await on.keys.add(
        { key: 'one', label: '', note: '', from: '', plan: null, expiresAt: null },
        T0,
      ),
    ).toMatchObject({ isNew: true })
  })
})

describe('keys of an export', () => {
  const ALL: readonly StoredKey[] = [
    stored('aa', { label: ODD, oldSecrets: [secret('old 1'), secret('old 2')] }),
    stored('bb', { plan: null, prefix: '', expiresAt: T0 + 1, revokedAt: 1 }),
    stored('cc', { createdAt: T0 + 1, plan: 'classic', label: 'x'.repeat(200) }),
  ]

  test('are the same in another installation', async on => {
    expect(await on.keys.load(ALL, false)).toEqual([])
    const dump = await on.keys.dump()
    const bySecret = (key: StoredKey) => ({
      ...key,
      oldSecrets: key.oldSecrets.toSorted((a, b) => Buffer.compare(a.hash, b.hash)),
    })
    expect(dump.map(bySecret)).toEqual(ALL.map(bySecret))
    const other = await on.another()
    expect(await other.keys.load(dump, false)).toEqual([])
    expect((await other.keys.dump()).map(bySecret)).toEqual(dump.map(bySecret))
    expect(await on.ownerOf('old 2')).toBe('aa')
  })

  test('are not stored by a dry run, or when there are none', async on => {
    expect(await on.keys.load(ALL, true)).toEqual([])
    expect(await on.keys.load([], false)).toEqual([])
    expect(await on.keys.dump()).toEqual([])
  })

  test('are stored all or none, and each bad key is named with its reason', async on => {
    const id = await on.add('known')
    await on.keys.rotate(id, 'known now', T0 + DAY_MS, T0)
    const before = await on.keys.dump()
    const keys = [
      stored('dd'),
      stored('ee', { hash: hashKey('known') }),
      stored('ff', { hash: hashKey('known now') }),
      stored('gg', { oldSecrets: [secret('known')] }),
      stored(id),
      stored('hh', { plan: 'gold' }),
      stored('dd', { hash: hashKey('same id in one file') }),
      stored('ii', { hash: hashKey('dd') }),
      stored('jj', { oldSecrets: [secret('dd')] }),
      stored('kk', { hash: hashKey('hh') }), // its owner is not stored
    ]
    for (const isTrial of [true, false]) {
      expect(await on.keys.load(keys, isTrial)).toEqual([
        { kind: 'known-secret', index: 1, id },
        { kind: 'known-secret', index: 2, id },
        { kind: 'known-secret', index: 3, id },
        { kind: 'known-id', index: 4 },
        { kind: 'unknown-plan', index: 5 },
        { kind: 'known-id', index: 6 },
        { kind: 'known-secret', index: 7, id: 'dd' },
        { kind: 'known-secret', index: 8, id: 'dd' },
      ])
      expect(await on.keys.load([stored(id)], isTrial)).toEqual([{ kind: 'known-id', index: 0 }])
      expect(await on.keys.dump()).toEqual(before)
    }
  })

  test('may be more than fit into one statement', async on => {
    const many = Array.from({ length: 6_000 }, (_, n) =>
      stored(`k${String(n).padStart(4, '0')}`, n === 5_500 ? { oldSecrets: [secret('old')] } : {}),
    )
    expect(await on.keys.load(many, false)).toEqual([])
    expect(await on.keys.dump()).toEqual(many)
    expect(await on.keys.load(many.slice(-1), true)).toEqual([
      { kind: 'known-secret', index: 0, id: 'k5999' },
    ])
  })
})

describe('plans', () => {
  const BIG: Plan = {
    ...{ name: 'big', burst: null, daily: 999_999_999_999, subnets: 999_999_999_999 },
    ...{ clients: null, count: 999_999_999_999, downloads: 999_999_999_999, enabled: false },
  }

  test('include the built-in plans from the start, by name', async on => {
    const byName = BUILT_IN_PLANS.toSorted((a, b) => (a.name < b.name ? -1 : 1))
    expect(await on.plans.list()).toEqual(byName)
  })

  test('are made, and replaced whole', async on => {
    await on.plans.set(BIG)
    expect(await on.plan('big')).toEqual(BIG)
    const small = {
      ...builtIn('classic'),
      name: 'big',
      burst: { requests: 1000, seconds: 86_400 },
    }
    await on.plans.set(small)
    expect(await on.plan('big')).toEqual(small)
    expect((await on.plans.list()).map(({ name }) => name)).toEqual([
      ...['big', 'classic', 'demo', 'standard', 'temp'],
    ])
    expect(await on.plan('bi')).toBeNull()
  })

  test('that are switched off refuse only their own keys', async on => {
    const [one, two] = [await on.add('one', { plan: 'classic' }), await on.add('two')]
    await on.plans.set({ ...builtIn('classic'), enabled: false })
    expect((await on.read(one)).isEnabled).toBeFalse()
    expect((await on.read(two)).isEnabled).toBeTrue()
  })

  test('cannot be removed while a key is on them, even a revoked one', async on => {
    await on.plans.set(BIG)
    const ids = [await on.add('one', { plan: 'big' }), await on.add('two', { plan: 'big' })]
    await on.keys.revoke(ids[0] ?? '', T0)
    expect(await on.plans.remove('big')).toEqual({ kind: 'in-use', keys: 2 })
    for (const id of ids) await on.keys.set(id, { plan: 'standard' })
    expect(await on.plans.remove('big')).toEqual({ kind: 'removed' })
    expect(await on.plans.remove('big')).toEqual({ kind: 'unknown' })
    expect(await on.plan('big')).toBeNull()
  })
})

/** What two machines do on the same data. */
describe('two machines at once', () => {
  test('add the same key once', async on => {
    const key = { key: 'same', label: '', note: '', from: '', plan: 'standard', expiresAt: null }
    const machines = [on, on.open(), on.open(), on.open()]
    const added = await Promise.all(machines.map(async ({ keys }) => keys.add(key, T0)))
    expect(new Set(added.map(({ id }) => id)).size).toBe(1)
    expect(added.filter(({ isNew }) => isNew)).toHaveLength(1)
    expect(await on.keys.list(T0)).toHaveLength(1)
  })

  test('load the same file once, and no key twice', async on => {
    const keys = Array.from({ length: 300 }, (_, n) => stored(`k${n}`))
    const problems = await Promise.all(
      [on, on.open()].map(async each => (await each.keys.load(keys, false)).length),
    )
    expect(problems.toSorted((a, b) => a - b)).toEqual([0, 300])
    expect(await on.keys.dump()).toHaveLength(300)
  })

  test('change different limits of a plan at once, and lose none', async on => {
    const other = on.open()
    const [daily, count] = [10, 20]
    await Promise.all([
      (async () => on.plans.set({ name: 'new', daily }))(),
      (async () => other.plans.set({ name: 'new', count }))(),
      (async () => other.plans.set({ name: 'new', enabled: false }))(),
    ])
    const changed = { ...builtIn('standard'), name: 'new', daily, count, enabled: false }
    expect(await on.plan('new')).toEqual(changed)
  })

  test('set plans, rotate and revoke one after the other, each atomically', async on => {
    const other = on.open()
    const id = await on.add('one')
    const plans = [1, 2, 3, 4].map(daily => ({ ...builtIn('standard'), daily, count: daily }))
    await Promise.all([
      ...plans.map(async (plan, n) => (n % 2 ? on : other).plans.set(plan)),
      ...plans.map(async (_, n) =>
        (n % 2 ? other : on).keys.rotate(id, `rotated ${n}`, T0 + DAY_MS, T0),
      ),
      (async () => other.keys.revoke(id, T0))(),
      (async () => on.keys.set(id, { label: 'kept' }))(),
    ])
    const { daily, count } = (await on.plan('standard')) ?? {}
    expect([1, 2, 3, 4]).toContain(Number(daily))
    expect(count).toBe(Number(daily))
    expect(await on.read(id)).toMatchObject({ label: 'kept', revokedAt: T0 })
    expect((await on.keys.dump())[0]?.oldSecrets).toHaveLength(4)
  })
})
