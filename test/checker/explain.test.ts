/** Tests of the summary of `check explain`. */
import { expect, test } from 'bun:test'
import { explain } from '../../src/checker/explain.ts'
import type { Candidate } from '../../src/checker/ports.ts'
import { idOf } from '../../src/proxies/row.ts'
import { T0 } from '../support/fixtures.ts'

const UNCHECKED: Candidate = {
  ...{ id: idOf({ ip: '127.0.0.9', port: 1080 }), queue: 'raw', named: 0 },
  ...{ nextAtMs: T0, idleAtMs: T0, okAtMs: null, addedMs: T0, streak: 0, works: null },
  ...{ checkedMs: null, measured: null, speedMs: null, servicesMs: null, tlsMs: null, history: [] },
}

test.each([
  ['new', {}, 'was not checked yet. It is due.'],
  ['idle', { nextAtMs: T0 + 540_000 }, 'was not checked yet. The next check is in 9 minutes.'],
  ['never alive', { streak: 3 }, 'was never alive in 3 checks. It is due.'],
  [
    'down',
    { streak: 1, okAtMs: T0 - 60_000 },
    'was alive 60 seconds ago, and failed 1 time since. It is due.',
  ],
])('check explain describes an address that is %s', (_, change, story) => {
  expect(explain({ ...UNCHECKED, ...change }, T0)).toEqual([`127.0.0.9:1080 ${story}`])
})
