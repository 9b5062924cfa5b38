/** A short run of two nodes under faults, and of imports while they serve, as `make torture` does both. */
import { afterAll, describe, expect, test } from 'bun:test'
import { HAS_POSTGRES } from '../../../support/postgres.ts'
import { program } from '../../../support/program.ts'
import { cleanUp, temporaryDirectory } from '../../../support/temporary.ts'
import { directoriesUnder } from '../part.ts'
import { tortureImports } from './imports.ts'
import { type NodesRun, tortureNodes } from './nodes.ts'

afterAll(cleanUp)

/** Not even a machine with one processor for ten others is as slow. */
const SLACK_MS = 20_000

const run = (): NodesRun => ({
  program: program(),
  seed: 20_261_122,
  scale: 1,
  directory: directoriesUnder(temporaryDirectory('nodes')),
  say: () => {},
})

describe.skipIf(!HAS_POSTGRES)('two nodes over one PostgreSQL', () => {
  test('admit exactly what the limits say, and lose nothing, while they and the server are killed', async () => {
    const faults = { killNode: 1, terminateBackends: 1, killServer: 1, stepLimits: 1 }
    const size = { nodes: 2, clients: 8, admissions: 200, faults, calmMs: 300, slackMs: SLACK_MS }
    const findings = await tortureNodes(run(), size)
    expect(findings.filter(({ holds }) => !holds)).toEqual([])
  })

  test('show one import at a time, in the order of commits', async () => {
    const size = {
      nodes: 2,
      rows: 2_000,
      imports: 2,
      fewEveryMs: 500,
      fewAlone: 3,
      slackMs: SLACK_MS,
    }
    const findings = await tortureImports(run(), size)
    expect(findings.filter(({ holds }) => !holds)).toEqual([])
  })
})
