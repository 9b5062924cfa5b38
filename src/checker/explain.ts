/** The text of `check explain`: the history of an address, newest check first. */
import { several, spanOf } from '../lib/plural.ts'
import { formatInstant, SECOND_MS } from '../lib/time.ts'
import { addressText, SERVICES } from '../proxies/proxy.ts'
import { toAddress } from '../proxies/row.ts'
import { percentOf } from './candidate.ts'
import { type Attempt, type Candidate, type Measured, type Past, REASONS } from './ports.ts'

const span = (ms: number): string => spanOf(Math.max(0, Math.round(ms / SECOND_MS)))

/** `socks5, elite, 210 ms, …` */
function describe({ type, others = [], anon, because, ipOut, ...rest }: Measured): string {
  const { pingMs, speed, services = {}, hasTls } = rest
  const tested = SERVICES.filter(service => services[service] !== undefined)
  return [
    type,
    ...others,
    because === '' ? anon : `${anon} (${because})`,
    ...(pingMs === null ? [] : [`${pingMs} ms`]),
    ...(ipOut === '' ? [] : [`leaves from ${ipOut}`]),
    ...(speed === undefined ? [] : [`${Math.round(speed / 1024)} KiB/s`]),
    ...(hasTls === undefined ? [] : [hasTls ? 'TLS unbroken' : 'no TLS']),
    ...tested.map(service => `${service} ${services[service] ? 'works' : 'fails'}`),
  ].join(', ')
}

const describeAttempt = ({ type, purpose, result, ms, detail }: Attempt): string => {
  const how = purpose === 'judge' ? type : `${type}, ${purpose}`
  return `  ${how}: ${result}${detail === '' ? '' : ` (${detail})`}, ${ms} ms`
}

const describePast = ({ at, result, attempts, measured }: Past): string[] => [
  `${formatInstant(at)} ${
    result === 'ok' ? `alive: ${measured && describe(measured)}` : `failed: ${REASONS[result]}`
  }`,
  ...attempts.map(describeAttempt),
]

function conclusion(candidate: Candidate, nowMs: number): string {
  const { id, queue, okAtMs, streak, works, measured, nextAtMs } = candidate
  const never =
    streak === 0 ? 'was not checked yet' : `was never alive in ${several(streak, 'check')}`
  const down = `was alive ${span(nowMs - (okAtMs ?? 0))} ago, and failed ${several(streak, 'time')} since`
  const isLiving = queue === 'living' && measured !== null
  const state = isLiving ? `is alive: ${describe(measured)}` : okAtMs === null ? never : down
  const percent = percentOf(works)
  const share = percent === null ? '' : `; ${percent}% of its checks succeed`
  const next = nextAtMs <= nowMs ? 'It is due.' : `The next check is in ${span(nextAtMs - nowMs)}.`
  return `${addressText(toAddress(id))} ${state}${share}. ${next}`
}

export const explain = (candidate: Candidate, nowMs: number): string[] => [
  conclusion(candidate, nowMs),
  ...candidate.history.flatMap(describePast),
]
