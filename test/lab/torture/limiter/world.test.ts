/** The journal of a run: what a replay counts, and nothing else. */
import { afterAll, expect, test } from 'bun:test'
import { T0 } from '../../../support/fixtures.ts'
import { openUsage, regular } from '../../../support/limits.ts'
import { cleanUp, temporaryDirectory } from '../../../support/temporary.ts'
import { addJournal, readJournal } from './world.ts'

afterAll(cleanUp)

test('the journal has admissions and networks, and not what a server writes to find out whether it can', () => {
  const data = temporaryDirectory()
  const { usage, admit, consume, close } = openUsage(data)
  addJournal(data)
  const caller = regular({ daily: 9, subnets: 9 }, 'k1')
  usage.probe()
  admit(caller, '', T0)
  consume(caller, { ip: '', subnets: [7], atMs: T0, nowMs: T0 })
  usage.probe() // as after each failure that made it answer 503
  close()
  const { admissions, networks } = readJournal(data)
  expect(admissions.map(({ subject, at, added }) => [subject, at, added])).toEqual([
    ['key:k1', T0, 1],
  ])
  expect(networks.map(({ subject, added }) => [subject, added])).toEqual([['key:k1:served', ['7']]])
})
