/** What the program itself says of a server that is in trouble: its console, its metrics, and `doctor`. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { State } from '../../src/admin/api-types.ts'
import { KEY } from '../support/fixtures.ts'
import { samplesOf } from '../support/metrics.ts'
import { cleanUp } from '../support/temporary.ts'
import { startTroubled } from '../support/troubled.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

describe('a stale list, a failing feed, a key that ends, a full disk and a wrong clock', () => {
  test('appear in console, doctor and metrics in the same words until they are fixed', async () => {
    const { ask, run, reasons, readAgain, mend } = await startTroubled()
    const stateOf = async (): Promise<State> =>
      JSON.parse(await (await ask('/console/state')).text())
    const metrics = async (): Promise<string> => (await ask('/metrics')).text()
    const counted = async (): Promise<string[]> =>
      samplesOf(await metrics())
        .filter(({ name, value }) => name === 'proxylist_attention' && value === 1)
        .map(({ labels }) => labels.reason ?? '')

    readAgain()
    const { ready, attention } = await stateOf()
    expect(ready).toBeTrue()
    expect([...new Set(attention.map(({ reason }) => reason as string))]).toEqual(reasons)
    expect(await counted()).toEqual(reasons)
    expect(await metrics()).not.toMatch(new RegExp(`${KEY}|keys/`))
    const bad = await run('doctor', '--json')
    expect(bad.exitCode).toBe(1)
    const found = JSON.parse(bad.stdout).checks.map((each: { found: string }) => each.found)
    for (const { sentence } of attention) expect(found.join('\n')).toContain(sentence)

    await mend()
    await until(async () => {
      readAgain()
      return (await stateOf()).attention.length === 0
    })
    await until(async () => (await counted()).length === 0)
    const good = JSON.parse((await run('doctor', '--json')).stdout)
    const wrong = good.checks.filter((each: { ok: boolean; note?: true }) => !each.ok || each.note)
    expect(wrong).toEqual([])
  })
})
