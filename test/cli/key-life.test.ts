/**
 * The life of a key on the command line (contract §C `keys …`, B10, G5), with a running server
 * beside it: what each command prints, and that the server follows at once.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DAY_MS, HOUR_MS } from '../../src/lib/time.ts'
import { ask, from } from '../support/answer.ts'
import { ASK, addKeys, addList, dataDirectory, KEY, T0 } from '../support/fixtures.ts'
import { cityRecord, mmdb } from '../support/mmdb.ts'
import { proxylist } from '../support/program.ts'
import { type Service, startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

/** Runs a command on a data directory, so many seconds after T0. */
function cli(dir: string, seconds = 0) {
  const clock = join(temporaryDirectory(), 'clock')
  writeFileSync(clock, String(T0 + seconds * 1000))
  return (args: string, stdin?: string) =>
    proxylist([...args.split(' '), '--data', dir], {
      env: { PROXYLIST_TEST_CLOCK: clock },
      ...(stdin !== undefined && { stdin }),
    })
}

/** What a command prints; it must succeed. */
async function stdoutOf(running: ReturnType<ReturnType<typeof cli>>): Promise<string> {
  const { exitCode, stdout, stderr } = await running
  expect([exitCode, exitCode === 0 ? '' : stderr]).toEqual([0, ''])
  return stdout
}
const fails = async (running: ReturnType<ReturnType<typeof cli>>) => {
  const { exitCode, stdout, stderr } = await running
  expect(stdout).toBe('')
  return [exitCode, stderr]
}
type Listed = { id: string; label: string; plan: string; state: string; expires: string | null }
const listed = async (run: ReturnType<typeof cli>): Promise<Listed[]> =>
  JSON.parse(await stdoutOf(run('keys list --json')))
async function idOf(run: ReturnType<typeof cli>): Promise<string> {
  const [key] = await listed(run)
  if (key === undefined) throw new Error('there is no key')
  return key.id
}

const UNKNOWN = [1, 'proxylist: there is no key with this id; see proxylist keys list\n']
const askWith = (service: Service, key: string) => ask(service, `/api?key=${key}&time=9999999`)
const FOUND = '200 192.0.2.1:80\n'
const ONE = [{ ip: '192.0.2.1:80', type: 'http', works: 100 }] as const

describe('keys set', () => {
  test('changes plan, label and expiry, each alone; a running server follows', async () => {
    const dir = dataDirectory([...ONE])
    const service = await startChild(dir)
    const run = cli(dir)
    const id = await idOf(run)
    expect(await run(`keys set ${id} --label renamed`)).toMatchObject({
      stderr: `key ${id}: plan free, label renamed, never expires\n`,
    })
    await stdoutOf(run('plans set once --burst 1/24h'))
    await stdoutOf(run(`keys set ${id} --plan once`))
    expect([await ask(service), await ask(service)]).toEqual([FOUND, '429 RATE_LIMIT_EXCEEDED'])
    await stdoutOf(run(`keys set ${id} --plan free --expires 60s`))
    expect(await listed(run)).toMatchObject([
      { id, label: 'renamed', plan: 'free', state: 'active', expires: '2026-11-20T12:01:00.000Z' },
    ])
    expect(await ask(service)).toBe(FOUND)
    service.setClock(60)
    expect(await ask(service)).toBe('403 INVALID_KEY')
    await stdoutOf(cli(dir, 60)(`keys set ${id} --expires never`))
    expect(await ask(service)).toBe(FOUND)
    await service.stop()
  })

  test('refuses what it cannot change, and changes nothing', async () => {
    const dir = dataDirectory()
    const run = cli(dir)
    const id = await idOf(run)
    await stdoutOf(run('keys temp'))
    const temporary = (await listed(run)).find(({ plan }) => plan === null)
    const before = await listed(run)
    expect([
      await fails(run('keys set nobody00 --label x')),
      await fails(run(`keys set ${id}`)),
      await fails(run(`keys set ${id} --plan gold`)),
      await fails(run(`keys set ${id} --plan demo`)),
      await fails(run(`keys set ${id} --label x --expires 2020-01-01`)),
      await fails(run(`keys set ${temporary?.id} --plan standard`)),
    ]).toEqual([
      UNKNOWN,
      [2, 'proxylist: nothing to change: give --plan, --label or --expires\n'],
      [1, "proxylist: there is no plan 'gold' for keys; plans are classic, free, standard\n"],
      [1, "proxylist: there is no plan 'demo' for keys; plans are classic, free, standard\n"],
      [2, 'proxylist: --expires must lie in the future, at most 100 years ahead\n'],
      [1, 'proxylist: this is a temporary key: its plan is temp and stays\n'],
    ])
    expect(await listed(run)).toEqual(before)
  })
})

describe('keys rotate', () => {
  test('gives a new secret; the old one is valid until the overlap ends, id and use stay', async () => {
    const dir = dataDirectory([...ONE], { burst: { requests: 3, seconds: 86_400 } })
    const service = await startChild(dir)
    const id = await idOf(cli(dir))
    expect(await ask(service)).toBe(FOUND)
    const rotated = await cli(dir)(`keys rotate ${id} --overlap 1h`)
    expect(rotated.stdout).toMatch(/^pl_[A-Za-z0-9]{32}\n$/)
    expect(rotated.stderr).toBe(
      `key ${id} has a new secret, the old one is valid until 2026-11-20T13:00:00.000Z; ` +
        'it is shown only once:\n',
    )
    const next = rotated.stdout.trim()
    // One key with one limit: three requests, whichever secret they come with.
    expect([await askWith(service, next), await askWith(service, KEY)]).toEqual([FOUND, FOUND])
    expect(await askWith(service, next)).toBe('429 RATE_LIMIT_EXCEEDED')
    service.setClock(3600)
    expect(await askWith(service, KEY)).toBe('403 INVALID_KEY')
    expect(await askWith(service, next)).toBe('429 RATE_LIMIT_EXCEEDED')
    const last = await stdoutOf(cli(dir, 3600)(`keys rotate ${id} --overlap 0s`))
    expect(await askWith(service, next)).toBe('403 INVALID_KEY')
    expect(await askWith(service, last.trim())).toBe('429 RATE_LIMIT_EXCEEDED')
    expect((await listed(cli(dir, 3600))).map(key => key.id)).toEqual([id])
    await service.stop()
  })

  test('an old secret ends with its key: by expiry, and when it is revoked', async () => {
    const dir = dataDirectory([...ONE])
    const service = await startChild(dir)
    const id = await idOf(cli(dir))
    await stdoutOf(cli(dir)(`keys set ${id} --expires 10m`))
    await stdoutOf(cli(dir)(`keys rotate ${id} --overlap 1h`))
    service.setClock(599)
    expect(await ask(service)).toBe(FOUND)
    service.setClock(600)
    expect(await ask(service)).toBe('403 INVALID_KEY')
    service.setClock(0)
    await stdoutOf(cli(dir)(`keys revoke ${id}`))
    expect(await ask(service)).toBe('403 INVALID_KEY')
    expect(await fails(cli(dir)(`keys rotate ${id}`))).toEqual([
      ...[1, 'proxylist: this key is revoked: make a new one\n'],
    ])
    expect(await fails(cli(dir)('keys rotate nobody00'))).toEqual(UNKNOWN)
    await service.stop()
  })
})

describe('keys remove', () => {
  test('removes a revoked key only', async () => {
    const dir = dataDirectory()
    const run = cli(dir)
    const id = await idOf(run)
    await stdoutOf(run(`keys rotate ${id}`))
    expect(await fails(run(`keys remove ${id}`))).toEqual([
      ...[1, `proxylist: key ${id} is not revoked; first: proxylist keys revoke ${id}\n`],
    ])
    await stdoutOf(run(`keys revoke ${id}`))
    expect(await run(`keys remove ${id}`)).toMatchObject({ stderr: `key ${id} is removed\n` })
    expect(await listed(run)).toEqual([])
    expect(await fails(run(`keys remove ${id}`))).toEqual(UNKNOWN)
    await stdoutOf(run('plans remove free')) // no key uses it any more
  })
})

describe('keys show', () => {
  test('has the limits, the use by hour and by day, and when the key was last seen', async () => {
    const burst = { requests: 2, seconds: 5 }
    const dir = dataDirectory([...ONE], { burst, daily: 9, subnets: 4 })
    const service = await startChild(dir)
    for (const seconds of [-DAY_MS / 1000, 0, 0, 0, HOUR_MS / 1000]) {
      service.setClock(seconds)
      await ask(service)
    }
    await service.stop() // which writes the records and refusals of the last second
    const id = await idOf(cli(dir))
    const shown = JSON.parse(await stdoutOf(cli(dir, 3601)(`keys show ${id} --json`)))
    const hours = Array<number>(24).fill(0).with(12, 2).with(13, 1)
    expect(shown).toEqual({
      id,
      label: '',
      plan: 'free',
      state: 'active',
      expires: null,
      limits: [
        { name: 'burst', quota: 2, window: 5, left: 1, reset: 4 },
        { name: 'daily', quota: 9, window: 86_400, left: 6, reset: 39_599 },
        { name: 'subnets', quota: 4, window: 86_400, left: 3, reset: 39_599 },
      ],
      today: { requests: 3, records: 2, refused: 1, hours },
      prefix: KEY.slice(0, 8),
      created: '2026-11-20T12:00:00.000Z',
      old_secret_until: null,
      last_seen: '2026-11-20T13:00:00.000Z',
      days: [
        { day: '2026-11-19', requests: 1, records: 1, refused: 0 },
        { day: '2026-11-20', requests: 3, records: 2, refused: 1 },
      ],
    })
    const table = await stdoutOf(cli(dir, 3601)(`keys show ${id}`))
    for (const line of [
      `id         ${id}\n`,
      'last seen  2026-11-20T13:00:00.000Z\n',
      'LIMIT    LEFT  OF  WINDOW    RESET IN\n',
      'burst    1     2   5 s       4 s\n',
      'today: 3 requests, 2 records, 1 refused\n',
      '|            █▄          | by hour, 00 to 23 UTC; most 2\n',
      '2026-11-20  3         2        1\n',
    ]) {
      expect(table).toContain(line)
    }
    expect(await fails(cli(dir)('keys show nobody00'))).toEqual(UNKNOWN)
  })
})

describe('keys reset is the remedy for a clock that was ahead (B10)', () => {
  const YEAR = 365 * 24 * 3600

  test('a window that holds until it is over, a year later, is given back to a key', async () => {
    const minute = { requests: 1, seconds: 60 }
    const dir = dataDirectory([...ONE], { burst: minute, daily: 1, subnets: 1 })
    const service = await startChild(dir)
    service.setClock(YEAR)
    await ask(service, `${ASK}&time=999999999`)
    service.setClock(0)
    expect(await ask(service)).toBe('429 RATE_LIMIT_EXCEEDED')
    const id = await idOf(cli(dir))
    const clock = async () => {
      const { checks } = JSON.parse((await cli(dir)('doctor --json')).stdout)
      return checks.find(({ check }: { check: string }) => check === 'clock')?.found
    }
    expect(await clock()).toBe(
      `the last requests of key ${id} lie in the future: proxylist keys reset ${id}`,
    )
    expect(await cli(dir)(`keys reset ${id}`)).toMatchObject({
      exitCode: 0,
      stderr: `${id}: its windows and its day are unused again\n`,
    })
    expect(await ask(service)).toBe(FOUND)
    await service.stop()
    expect(await clock()).toBe('no request and no check lies in the future')
  })

  test('gives back the window or the day alone', async () => {
    const dir = dataDirectory([...ONE], { burst: { requests: 1, seconds: 60 }, daily: 1 })
    const service = await startChild(dir)
    expect(await ask(service)).toBe(FOUND)
    const id = await idOf(cli(dir))
    for (const [flags, words, answer] of [
      ['--day', 'its requests and networks of the day are', '429 RATE_LIMIT_EXCEEDED'],
      ['--window', 'its window is', FOUND],
      ['--window', 'its window is', '429 DAILY_LIMIT_REACHED'],
      ['--window --day', 'its windows and its day are', FOUND],
    ] as const) {
      const { stderr } = await cli(dir)(`keys reset ${id} ${flags}`)
      expect(stderr).toBe(`${id}: ${words} unused again\n`)
      expect(await ask(service)).toBe(answer)
    }
    await service.stop()
  })
})

describe('keys reset demo and temp, and doctor (B10)', () => {
  test('client addresses of demo and of temporary keys, all or one', async () => {
    const dir = dataDirectory([...ONE])
    addKeys(dir, {}, [{ key: 'temp_one', plan: null, expiresAt: T0 + DAY_MS }], T0)
    const service = await startChild(dir)
    const [one, two] = ['198.51.100.1', '198.51.100.2']
    const demo = async (address: string) =>
      (await ask(service, '/api?key=demo', from(address))).slice(0, 3)
    for (const address of [one, one, two, two]) expect(await demo(address)).toBe('200')
    expect(await cli(dir)(`keys reset demo --address ${one}`)).toMatchObject({
      stderr: `demo from ${one}: its windows and its day are unused again\n`,
    })
    expect([await demo(one), await demo(two)]).toEqual(['200', '429'])
    await stdoutOf(cli(dir)('keys reset demo'))
    expect([await demo(one), await demo(two)]).toEqual(['200', '200'])

    const temporary = async () => (await ask(service, '/api?key=temp_one', from(one))).slice(0, 3)
    expect([await temporary(), await temporary(), await temporary()]).toEqual(['200', '200', '429'])
    await stdoutOf(cli(dir)('keys reset temp'))
    expect(await temporary()).toBe('429') // its key has a window of its own
    const id = (await listed(cli(dir))).find(({ plan }) => plan === null)?.id
    await stdoutOf(cli(dir)(`keys reset ${id}`))
    expect(await temporary()).toBe('200')
    expect(await fails(cli(dir)('keys reset nobody00'))).toEqual(UNKNOWN)
    expect(await fails(cli(dir)(`keys reset ${id} --address ${one}`))).toEqual([
      ...[2, 'proxylist: --address is for demo and temp\n'],
    ])
    await service.stop()
  })
})

describe('plans set NAME --enabled off', () => {
  test('refuses all keys of a plan on a running server, until it is on again', async () => {
    const dir = dataDirectory([...ONE])
    const service = await startChild(dir)
    const run = cli(dir)
    expect(await ask(service)).toBe(FOUND)
    await stdoutOf(run('plans set free --enabled off'))
    expect(await ask(service)).toBe('403 INVALID_KEY')
    expect((await listed(run)).map(({ state }) => state)).toEqual(['off'])
    await stdoutOf(run('plans set free --enabled on'))
    expect(await ask(service)).toBe(FOUND)
    await service.stop()
  })

  test('switches demo and temporary keys off, each with its 403', async () => {
    const dir = dataDirectory([...ONE])
    addKeys(dir, {}, [{ key: 'temp_one', plan: null, expiresAt: T0 + DAY_MS }], T0)
    const service = await startChild(dir)
    const both = async () => [
      (await ask(service, '/api?key=demo')).slice(0, 20),
      await ask(service, '/api?key=temp_one'),
    ]
    expect(await both()).toEqual(['200 192.0.0.0:80\n', FOUND])
    await stdoutOf(cli(dir)('plans set demo --enabled off'))
    expect(await both()).toEqual(['403 INVALID_KEY', FOUND])
    await stdoutOf(cli(dir)('plans set temp --enabled off'))
    expect(await both()).toEqual(['403 INVALID_KEY', '403 TEMP_KEY_INVALID'])
    await service.stop()
  })
})

test('plans set demo changes its limits on a running server', async () => {
  const dir = temporaryDirectory()
  addList(dir, [...ONE, { ip: '198.51.100.3:443', type: 'https', works: 100 }])
  const service = await startChild(dir)
  expect(await ask(service, '/api?key=demo')).toBe('200 192.0.0.0:80\n198.51.0.0:443\n')
  await stdoutOf(cli(dir)('plans set demo --burst 4/24h --count 1 --daily 3'))
  for (const _ of [1, 2]) expect(await ask(service, '/api?key=demo')).toBe('200 192.0.0.0:80\n')
  expect(await ask(service, '/api?key=demo')).toBe('429 DAILY_LIMIT_REACHED')
  await stdoutOf(cli(dir)('plans set demo --burst 2/24h'))
  const { text } = await service.request('/api?key=demo')
  expect(text).toContain('the demo key allows 2 requests a day; retry after 86400 s')
  await service.stop()
})

describe('keys export and keys import', () => {
  test('move keys with their hashes: the same secrets open another installation', async () => {
    const dir = dataDirectory([...ONE])
    addKeys(dir, {}, [{ key: 'temp_one', plan: null, expiresAt: T0 + DAY_MS, label: 'é "x"' }], T0)
    const run = cli(dir)
    const first = (await listed(run)).find(({ plan }) => plan === 'free')
    const next = (await stdoutOf(run(`keys rotate ${first?.id} --overlap 1h`))).trim()
    const exported = await stdoutOf(run('keys export'))
    expect(exported.trim().split('\n')).toHaveLength(2)
    for (const secret of [KEY, next, 'temp_one']) expect(exported).not.toContain(secret)

    const other = temporaryDirectory()
    addList(other, [...ONE])
    const there = cli(other)
    const { exitCode, stderr } = await there('keys import -', exported)
    const [, command = ''] =
      /^-:[12]: there is no plan 'free'; make it with: proxylist (plans set free --.*)\nproxylist: -: 1 bad line; no key was imported\n$/.exec(
        stderr,
      ) ?? []
    expect([exitCode, stderr.includes(command)]).toEqual([1, true])
    expect(await listed(there)).toEqual([])
    await stdoutOf(there(command))
    const file = join(temporaryDirectory(), 'keys.ndjson')
    writeFileSync(file, exported)
    expect(await there(`keys import ${file}`)).toMatchObject({ stderr: '2 keys are imported\n' })
    expect(await stdoutOf(there('keys export'))).toBe(exported)
    const service = await startChild(other)
    for (const key of [KEY, next, 'temp_one']) expect(await askWith(service, key)).toBe(FOUND)
    await service.stop()
    expect(await there(`keys import ${file}`)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(`: this key exists already, with id ${first?.id}\n`),
    })
  })
})

describe('keys import and plans (G5)', () => {
  test('an export without keys is imported, with a note', async () => {
    const run = cli(temporaryDirectory())
    await stdoutOf(run('plans set gold'))
    const exported = await stdoutOf(run('keys export'))
    expect(exported).toBe('')
    for (const text of [exported, '\n', 'key,label\n']) {
      expect(await run('keys import -', text)).toMatchObject({
        exitCode: 0,
        stderr: '-: note: no key was found\n0 keys are imported\n',
      })
    }
  })

  test('says which plans differ between the installations, each once, and how to make them the same', async () => {
    const dir = dataDirectory([...ONE])
    const run = cli(dir)
    await stdoutOf(run('plans set gold --burst 9/2m --daily unlimited --count 7 --enabled off'))
    await stdoutOf(run('plans set temp --burst 3/1h'))
    for (const line of ['keys add --plan gold', 'keys add --plan gold', 'keys temp'])
      await run(line)
    const exported = await stdoutOf(run('keys export'))

    const other = temporaryDirectory()
    const there = cli(other)
    await stdoutOf(there('plans set gold --daily unlimited --subnets 3 --count 7'))
    const { exitCode, stderr } = await there('keys import -', exported)
    const end = '(or remove "limits" from its lines to use those of here)'
    expect(exitCode).toBe(1)
    expect(stderr.replace(/^-:\d/gm, '-').split('\n').sort()).toEqual([
      '',
      `-: plan 'gold' has other limits here; make them the same with: proxylist plans set gold --burst 9/120s --enabled off --subnets unlimited ${end}`,
      `-: plan 'temp' has other limits here; make them the same with: proxylist plans set temp --burst 3/3600s ${end}`,
      expect.stringMatching(
        /^-: there is no plan 'free'; make it with: proxylist plans set free --/,
      ),
      'proxylist: -: 3 bad lines; no key was imported',
    ])
    const commands = [...stderr.matchAll(/proxylist (plans set [^(\n]*[^(\n ])/g)].map(
      ([, line = '']) => line,
    )
    for (const line of commands) await stdoutOf(there(line))
    expect(await there('keys import -', exported)).toMatchObject({
      stderr: '4 keys are imported\n',
    })
    expect(await stdoutOf(there('keys export'))).toBe(exported)

    const without = exported.replace(/"limits":"[^"]*",/g, '')
    const third = cli(temporaryDirectory())
    for (const plan of ['gold', 'free']) await stdoutOf(third(`plans set ${plan}`))
    expect(await third('keys import -', without)).toMatchObject({ stderr: '4 keys are imported\n' })
  })
})

describe('keys import of a CSV', () => {
  test('takes many keys; empty cells are plan standard, no label, no end', async () => {
    const dir = join(temporaryDirectory(), 'data')
    addList(dir, [...ONE])
    const csv =
      'key,label,plan,expires\nold-1,"Example, Ltd",classic,2027-01-31\r\nold-2,,,\nold-3,x,,30d\n'
    expect(await cli(dir)('keys import -', csv)).toMatchObject({ stderr: '3 keys are imported\n' })
    const keys = await listed(cli(dir))
    expect(keys.map(({ label, plan, expires }) => [label, plan, expires]).sort()).toEqual([
      ['', 'standard', null],
      ['Example, Ltd', 'classic', '2027-01-31T00:00:00.000Z'],
      ['x', 'standard', '2026-12-20T12:00:00.000Z'],
    ])
    const service = await startChild(dir)
    for (const key of ['old-1', 'old-2', 'old-3']) expect(await askWith(service, key)).toBe(FOUND)
    await service.stop()
    expect(await cli(dir)('keys import -', 'Expires,KEY\nnever,old-4\n')).toMatchObject({
      stderr: '1 key is imported\n',
    })
  })
})

const bad = (lines: number): string =>
  `proxylist: -: ${lines} bad line${lines === 1 ? '' : 's'}; no key was imported`
const NO_KEY =
  'key must be 1 to 256 characters without white space, not demo and not starting with temp_'
const COLUMNS = 'columns are key, label, plan, expires'
/** What is wrong with a file, and what import says. */
const BAD_FILES: readonly (readonly [string, string, readonly unknown[]])[] = [
  [
    'every bad line, with its reason and without the key',
    'key,label,plan,expires\nsecret-1,,,\ndemo,,,\ntemp_x,,,\nsecret-2,,gold,\nsecret-3,,,soon\nsecret-4,,Big,\na,b\n',
    [
      ...[`-:3: ${NO_KEY}`, `-:4: ${NO_KEY}`],
      "-:5: there is no plan 'gold'; make it with: proxylist plans set gold",
      '-:6: expires must be a duration such as 30d, a time such as 2027-01-31T00:00:00Z, or never',
      '-:7: plan must be a name of lower-case letters, digits, dots, dashes or underscores',
      '-:8: it has 2 cells, not 4',
      bad(6),
    ],
  ],
  [
    'a plan there is not, which is said once, and keys that are known or there twice',
    `key,plan\nsecret-1,\nsecret-2,gold\nsecret-1,\nsecret-3,gold\n${KEY},\n`,
    [
      "-:3: there is no plan 'gold'; make it with: proxylist plans set gold",
      expect.stringMatching(/^-:4: this key exists already, with id [a-z0-9]{8}$/),
      expect.stringMatching(/^-:6: this key exists already, with id [a-z0-9]{8}$/),
      bad(3),
    ],
  ],
  [
    'plans that are not for keys',
    'key,plan\nsecret-1,demo\nsecret-2,temp\n',
    ['-:2: plan demo is not for regular keys', '-:3: plan temp is not for regular keys', bad(2)],
  ],
  [
    'an unknown column, which it does not repeat: it may be a key',
    'secret-1,label\nsecret-2,x\n',
    [`proxylist: the header has an unknown column; ${COLUMNS}`],
  ],
  ['no column key', 'label\nx\n', [`proxylist: the header has no column key; ${COLUMNS}`]],
  ['a column twice', 'key,label,key\na,b,c\n', [`proxylist: the header has key twice; ${COLUMNS}`]],
  [
    'JSON that is none of its own',
    '{"id":"abc"}\n{"id":"abc","hash":"00","old_secrets":[]}\n{bad\n' +
      `{"id":"a","hash":"${'0'.repeat(64)}","prefix":"a\\u0000","old_secrets":[]}\n` +
      `{"id":"a","hash":"${'0'.repeat(64)}","prefix":"","label":"","plan":null,"limits":"$(x)","created":"2026-01-01T00:00:00Z","expires":null,"revoked":null,"old_secrets":[]}\n`,
    [
      '-:1: old_secrets must be an array',
      '-:2: hash is missing or is not as keys export writes it',
      '-:3: it is not JSON',
      '-:4: prefix is missing or is not as keys export writes it',
      '-:5: limits is missing or is not as keys export writes it',
      bad(5),
    ],
  ],
]

describe('keys import refuses a file', () => {
  test.each(BAD_FILES)('with %s; all or nothing', async (_, text, lines) => {
    const dir = dataDirectory()
    const run = cli(dir)
    const before = await listed(run)
    const { exitCode, stdout, stderr } = await run('keys import -', text)
    expect<unknown>([exitCode, stdout, stderr.trim().split('\n')]).toEqual([1, '', lines])
    expect(stderr).not.toContain('secret-')
    expect(await listed(run)).toEqual(before)
  })

  test('import of a file there is not', async () => {
    const [code, stderr] = await fails(cli(dataDirectory())('keys import none.csv'))
    expect(code).toBe(1)
    expect(stderr).toMatch(/^proxylist: cannot read none\.csv: no such file or directory\n$/)
    expect(await fails(cli(dataDirectory())('keys import /'))).toEqual([
      ...[1, 'proxylist: cannot read /: it is a directory, not a file\n'],
    ])
  })
})

test('commands that only read, or change what is there, make no data directory', async () => {
  const dir = join(temporaryDirectory(), 'mistyped')
  const places = join(temporaryDirectory(), 'city.mmdb')
  writeFileSync(places, mmdb({ '192.0.2.0/24': cityRecord('DE', 'Berlin') }))
  const commands = ['keys show abc', 'keys export', 'stats', 'keys list']
  for (const command of [...commands, `geoip apply --geoip ${places}`]) {
    const { exitCode, stderr } = await cli(dir)(command)
    expect([command, exitCode, existsSync(dir)]).toEqual([command, 1, false])
    expect(stderr).toContain('there is no data directory')
  }
})
