/** A prober and a judge in this process, with a fake clock and timers that a test runs. */
import { readFileSync } from 'node:fs'
import type { CheckRequest, CheckResult } from '../../src/checker/ports.ts'
import { createProber, type ProberOptions } from '../../src/checker/probe.ts'
import type { Address } from '../../src/proxies/proxy.ts'
import { US, type World } from './fake-proxies.ts'
import { T0 } from './fixtures.ts'
import { AUTHORITY, CERTIFICATES, JUDGE_NAME, KEYS, startTestJudge } from './judge.ts'

/** Timers that run only by hand. */
export function handTimers() {
  const timers = new Map<() => void, number>()
  const count = (ms: number): number => [...timers.values()].filter(each => each === ms).length
  return {
    later(run: () => void, ms: number) {
      timers.set(run, ms)
      return () => void timers.delete(run)
    },
    count,
    has: (ms: number): boolean => count(ms) > 0,
    size: () => timers.size,
    /** Ends a timer of this length. */
    pass(ms: number): void {
      const [run] = [...timers].find(([, each]) => each === ms) ?? []
      if (run !== undefined) timers.delete(run)
      run?.()
    },
  }
}

/** The result of a check in a few words. */
export function wordOf(result: CheckResult): string {
  if (result.kind === 'dead') return result.reason
  if (result.kind === 'deferred') return `deferred: ${result.why}`
  const { type, anon, because } = result.measured
  return `${type} ${anon}${because && ` by ${because}`}`
}

/** A while after the start of the judge. */
export const NOW = T0 + 10_000

export const USER_AGENT = 'proxylist-check/test (+https://operator.example/)'

/** The name of a judge, the files of its certificate, and who signed it. */
const JUDGE = { name: JUDGE_NAME, files: CERTIFICATES.judge, authority: AUTHORITY }

/** Starts a judge and a prober that has found it. */
export async function startProber(more: Partial<ProberOptions> = {}, named = JUDGE) {
  const judge = await startTestJudge({}, named.files)
  judge.setNow(NOW)
  const timers = handTimers()
  const options: ProberOptions = {
    ...{ later: timers.later, elapsedMs: () => 0, userAgent: USER_AGENT, clock: () => NOW },
    judge: {
      plain: new URL(`http://${named.name}:${judge.port}`),
      tls: new URL(`https://${named.name}:${judge.tlsPort}`),
    },
    authorities: readFileSync(named.authority, 'utf8'),
    ...{ keys: KEYS, ownAddresses: [US], targets: [], allowsPrivate: true },
    resolve: async () => [US],
    ...more,
  }
  const prober = createProber(options)
  const self = await prober.selfCheck()
  if (!self.ok) throw new Error(self.problem)
  const world: World = {
    judgePort: judge.port,
    middle: CERTIFICATES.selfSigned,
    otherName: CERTIFICATES.otherName,
  }
  const check = (
    { ip, port }: Address,
    request: Partial<CheckRequest> = {},
  ): Promise<CheckResult> =>
    prober.probe({
      ...{ address: { ip, port }, known: null, named: 0 },
      ...{ wantsSpeed: false, wantsServices: false, wantsTls: false, ...request },
    })
  return { ...prober, judge, timers, options, world, check }
}
