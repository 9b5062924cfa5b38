/**
 * Holds what a real server shows of itself and refuses: verified TLS, the role with the least rights,
 * what `doctor` finds there, the nodes, and several hosts of which one is a standby.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, chownSync, copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { readSettings } from '../../src/config/settings.ts'
import { EXAMINED, examine } from '../../src/doctor.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Result } from '../../src/lib/findings.ts'
import { formatInstant } from '../../src/lib/time.ts'
import { openNode } from '../../src/node/node.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { createNodes } from '../../src/postgres/nodes.ts'
import { T0 } from '../support/fixtures.ts'
import { connectTo, HAS_POSTGRES, type Server, startPostgres } from '../support/postgres.ts'
import { proxylist, ROOT } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const TLS = join(ROOT, 'test/fixtures/tls')
const AUTHORITY = join(TLS, 'authority.pem')
const PASSWORDS = { proxylist_owner: 'owner-canary', proxylist: 'service-canary' } as const
type Role = keyof typeof PASSWORDS

/** Sends a script as psql would: one statement after the other. */
async function runScript(url: string, name: string): Promise<void> {
  const script = readFileSync(join(ROOT, 'data/many-machines', name), 'utf8')
  const sql = new SQL({ url, max: 1 })
  const bare = script.replace(/^--.*$/gm, '')
  for (const statement of bare.split(';').filter(text => text.trim() !== '')) {
    await sql.unsafe(statement)
  }
  await sql.close()
}

/** A server with TLS, whose roles and rights are those of data/many-machines, with passwords. */
async function securedServer() {
  const dir = temporaryDirectory()
  const key = join(dir, 'server.key')
  copyFileSync(join(TLS, 'server.key'), key)
  const server = await startPostgres({ fsync: 'on', full_page_writes: 'on' })
  const { uid, gid } = statSync(server.dir())
  for (const path of [dir, key]) chownSync(path, uid, gid)
  chmodSync(key, 0o600)
  const admin = new SQL({ url: server.url('postgres'), max: 1 })
  for (const [name, file] of Object.entries({ cert: join(TLS, 'server.pem'), key })) {
    await admin.unsafe(`alter system set ssl_${name}_file = '${file}'`)
  }
  await admin.unsafe('alter system set ssl = on')
  await runScript(server.url('postgres'), 'roles.sql')
  for (const [role, password] of Object.entries(PASSWORDS)) {
    await admin.unsafe(`alter role ${role} password '${password}'`)
  }
  await runScript(server.url('proxylist'), 'rights.sql')
  const hba =
    'host all postgres 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n' +
    'host all all 127.0.0.1/32 scram-sha-256\n'
  writeFileSync(join(server.dir(), 'pg_hba.conf'), hba)
  await admin.unsafe('select pg_reload_conf()')
  await admin.close()
  const urlOf = (role: Role, host = '127.0.0.1'): string =>
    `postgres://${role}:${PASSWORDS[role]}@${host}:${server.port}/proxylist`
  const owner = connectTo(urlOf('proxylist_owner'))
  await migrate(owner)
  return { server, urlOf }
}

let server: Server
let urlOf: (role: Role, host?: string) => string
beforeAll(async () => {
  if (!HAS_POSTGRES) return
  const secured = await securedServer()
  server = secured.server
  urlOf = secured.urlOf
})

const verified = (url: string, authority = AUTHORITY): string =>
  `${url}?sslmode=verify-full&sslrootcert=${authority}`

/** What `doctor` finds with this database, by check. */
async function doctor(url: string): Promise<{ [check: string]: Result }> {
  const env = { PROXYLIST_DATABASE: url, PROXYLIST_DATABASE_TIMEOUT: '20s' }
  const settings = readSettings(EXAMINED, { data: join(temporaryDirectory(), 'none') }, env)
  const findings = await examine(settings, env, systemClock, new AbortController().signal)
  for (const password of Object.values(PASSWORDS)) {
    expect(JSON.stringify(findings)).not.toContain(password)
  }
  return Object.fromEntries(findings.map(({ check, ...found }) => [check, found]))
}

const wrong = (found: string): Result => ({ ok: false, found })
const refusalOf = async (url: string) => (await doctor(url)).database

describe.skipIf(!HAS_POSTGRES)('a server with TLS', () => {
  test('is used through verified TLS, with SCRAM', async () => {
    const connection = connectTo(verified(urlOf('proxylist', 'localhost')))
    const used = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'
    expect(await connection.query(used)).toEqual([{ ssl: true }])
  })

  test('is refused with a wrong certificate or password', async () => {
    const near = urlOf('proxylist', 'localhost')
    const shown = `localhost:${server.port}/proxylist`
    const cannot = (reason: string): Result =>
      wrong(`the database ${shown} cannot be used: ${reason}`)
    for (const [url, code] of [
      [verified(near, join(TLS, 'other-authority.pem')), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
      [verified(urlOf('proxylist')), 'ERR_TLS_CERT_ALTNAME_INVALID'],
      [verified(near, join(TLS, 'server.key')), 'ERR_BORINGSSL'],
    ] as const) {
      expect((await refusalOf(url))?.found).toEndWith(
        `cannot be used: TLS failed (${code}); see sslmode, sslrootcert and the certificate`,
      )
    }
    expect(await refusalOf(near.replace(PASSWORDS.proxylist, 'wrong'))).toEqual(
      cannot('it refuses this user or password'),
    )
  })

  test('is refused while it offers no TLS', async () => {
    const admin = connectTo(server.url('proxylist'))
    const setTls = async (state: 'on' | 'off'): Promise<void> => {
      await admin.query(`alter system set ssl = ${state}`)
      await admin.query('select pg_reload_conf()')
    }
    await setTls('off')
    const url = verified(urlOf('proxylist', 'localhost'))
    const found = `the database localhost:${server.port}/proxylist cannot be used: it offers no TLS, which sslmode asks for`
    let refusal = await refusalOf(url)
    for (let tries = 0; refusal?.ok && tries < 100; tries += 1) refusal = await refusalOf(url)
    expect(refusal).toEqual(wrong(found))
    await setTls('on')
  })

  test.each([
    ['/none.crt', 'no such file or directory'],
    ['/dev/null', 'it is not a regular file'],
  ])('a file of the URL that cannot be read is wrong usage: %s', async (file, why) => {
    const args = ['nodes', '--database', verified(urlOf('proxylist'), file)]
    expect(await proxylist(args)).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: `proxylist: --database must be a URL whose sslrootcert is a file that can be read (${why})\n`,
    })
  })
})

describe.skipIf(!HAS_POSTGRES)('the role with the least rights', () => {
  test('runs every kind of command, and leaves no warning in the log of the server', async () => {
    const log = join(server.dir(), 'server.log')
    const before = readFileSync(log, 'utf8').length
    const env = { PROXYLIST_DATABASE: urlOf('proxylist') }
    const run = async (...args: string[]) => {
      const outcome = await proxylist(args, { env, stdin: 'http://192.0.2.1:80\n' })
      expect({ args, ...outcome }).toMatchObject({ exitCode: 0 })
      return outcome.stdout
    }
    await run('keys', 'add', '--label', 'first')
    const [{ id }] = JSON.parse(await run('keys', 'list', '--json'))
    await run('keys', 'rotate', id)
    await run('keys', 'reset', id)
    await run('plans', 'set', 'basic', '--burst', '1/1s')
    await run('plans', 'remove', 'basic')
    await run('keys', 'revoke', id)
    await run('keys', 'remove', id)
    const dir = temporaryDirectory()
    await using node = openNode({
      ...{ dir, url: urlOf('proxylist'), timeoutMs: 20_000, provider: 'the service' },
      ...{ clock: systemClock, log: { say() {}, sayRepeated() {} } },
    })
    node.listening({ node: 'n1', address: '' })
    const ticks = setInterval(() => void node.tick(), 100)
    await run('import', '-')
    await run('import', '--replace', '-')
    clearInterval(ticks)
    expect(await run('list', 'time=3600', '--data', dir)).toBe('192.0.2.1:80\n')
    await run('stats', '--data', dir)
    expect(readFileSync(log, 'utf8').slice(before)).not.toContain('WARNING')
  })

  test('cannot change a table or make a schema', async () => {
    const service = connectTo(urlOf('proxylist'))
    for (const statement of [
      'drop table proxylist.keys',
      'alter table proxylist.keys add x integer',
      'create table proxylist.x (a integer)',
      'create schema x',
      'truncate proxylist.usage',
    ]) {
      await expect(service.query(statement)).rejects.toThrow(
        'this role lacks a right that is needed',
      )
    }
    const elsewhere = connectTo(urlOf('proxylist').replace(/\/proxylist(?=\?|$)/, '/postgres'))
    await expect(migrate(elsewhere)).rejects.toThrow(/this role lacks a right .* as its owner$/)
  })
})

describe.skipIf(!HAS_POSTGRES)('doctor', () => {
  test('reports a missing right', async () => {
    const owner = connectTo(urlOf('proxylist_owner'))
    await owner.query('revoke usage on schema proxylist from proxylist')
    expect((await doctor(urlOf('proxylist'))).database?.found).toContain(
      'this role lacks a right that is needed: run rights.sql',
    )
    await owner.query('grant usage on schema proxylist to proxylist')
  })

  test('prints no password, and prints the notes', async () => {
    const env = {
      PROXYLIST_DATABASE: urlOf('proxylist_owner'),
      PROXYLIST_DATA: join(temporaryDirectory(), 'none'),
    }
    const { stdout, stderr } = await proxylist(['doctor'], { env })
    expect(stdout + stderr).not.toContain(PASSWORDS.proxylist_owner)
    expect(stdout).toMatch(/^database +ok +PostgreSQL [\d.]+, schema \d+$/m)
    expect(stdout).toMatch(
      /^standbys +note +there is no standby: the service ends with this server$/m,
    )
    expect(stdout).toMatch(/^sessions +ok +each connection keeps its session$/m)
    expect(stdout).toMatch(/^copy +ok +there is no .*none; serve makes it$/m)
  })
})

describe.skipIf(!HAS_POSTGRES)('nodes', () => {
  test('shows the status of each node', async () => {
    const env = { PROXYLIST_DATABASE: urlOf('proxylist') }
    const service = connectTo(env.PROXYLIST_DATABASE)
    const nodes = createNodes(service)
    expect(await proxylist(['nodes', '--json'], { env })).toMatchObject({ stdout: '[]\n' })
    expect(await proxylist(['nodes'], { env })).toMatchObject({
      exitCode: 0,
      stderr: `no node has served from 127.0.0.1:${server.port}/proxylist in the last day\n`,
    })
    const owner = connectTo(urlOf('proxylist_owner'))
    const now = 'create or replace function proxylist.now_ms() returns bigint language sql as'
    await owner.query(`${now} 'select ${T0}::bigint'`)
    await nodes.report({ node: 'n2', address: '10.0.0.12:8080' }, 11, 0.46)
    await nodes.report({ node: 'n1', address: '10.0.0.11:8080' }, 12, 0)
    await owner.query(`${now} 'select ${T0 + 2000}::bigint'`)
    const seen = formatInstant(T0)
    const json = JSON.parse((await proxylist(['nodes', '--json'], { env })).stdout)
    expect(json).toEqual([
      { node: 'n1', address: '10.0.0.11:8080', version: 12, lag_seconds: 2, seen },
      { node: 'n2', address: '10.0.0.12:8080', version: 11, lag_seconds: 2.5, seen },
    ])
    expect((await proxylist(['nodes'], { env })).stdout).toBe(
      'NODE  ADDRESS         VERSION  LAG    SEEN\n' +
        `n1    10.0.0.11:8080  12       2.0 s  ${seen}\n` +
        `n2    10.0.0.12:8080  11       2.5 s  ${seen}\n`,
    )
    // The clock of this machine, which is far from that, counts for nothing.
    expect((await doctor(urlOf('proxylist'))).nodes?.found).toBe(
      '2 nodes with version 12 of the list',
    )
  })
})
