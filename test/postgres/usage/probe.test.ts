/** What a node finds out before it says that it is ready: whether requests can be counted by its role. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Connection, openConnection } from '../../../src/postgres/connection.ts'
import { migrate } from '../../../src/postgres/schema.ts'
import { createUsageStore, type Usages } from '../../../src/postgres/usage/usage.ts'
import { emptyDatabase, HAS_POSTGRES } from '../../support/postgres.ts'
import { cleanUp, onCleanUp } from '../../support/temporary.ts'

const ROLE = `proxylist_test_role_${process.pid}`
let owner: Connection
let usage: Usages

beforeAll(async () => {
  if (!HAS_POSTGRES) return
  const url = new URL(await emptyDatabase())
  owner = openConnection({ url: url.href, timeoutMs: 20_000, name: 'owner' })
  await migrate(owner)
  await owner.query(`create role ${ROLE} login`)
  for (const right of ['usage on schema proxylist', ...RIGHTS]) await grant(right)
  await owner.query('revoke execute on all functions in schema proxylist from public')
  await owner.query(`grant execute on all functions in schema proxylist to ${ROLE}`)
  url.username = ROLE
  usage = createUsageStore({ url: url.href, timeoutMs: 20_000, name: 'node' })
  onCleanUp(async () => {
    await usage.close()
    await owner.query(`drop owned by ${ROLE}`)
    await owner.query(`drop role ${ROLE}`)
    await owner.close()
  })
})
afterAll(cleanUp)

/** What requests need of tables. */
const RIGHTS = [
  ...['select', 'insert', 'update'].flatMap(word =>
    ['usage', 'networks', 'days'].map(table => `${word} on proxylist.${table}`),
  ),
  ...['select on proxylist.keys', 'select on proxylist.probes', 'update on proxylist.probes'],
]
const FUNCTIONS = ['admit', 'take', 'consume', 'give_back', 'add_days'].map(
  name => `execute on function proxylist.${name}`,
)
const grant = (right: string) => owner.query(`grant ${right} to ${ROLE}`)
const revoke = (right: string) => owner.query(`revoke ${right} from ${ROLE}`)

describe.skipIf(!HAS_POSTGRES)('requests can be counted', () => {
  test('by a role with the rights that they need', () => usage.probe())

  test.each([...RIGHTS, ...FUNCTIONS])('by none that lacks %s', async right => {
    await revoke(right)
    await expect(usage.probe()).rejects.toThrow('this role lacks a right that is needed')
    await grant(right)
    await usage.probe()
  })
})
