/**
 * Full load on a server from another process: wrk with one thread if it is installed, else a Bun client;
 * both send the same requests.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Server } from '../../support/launch.ts'
import { type Client, openClient } from '../support/client.ts'
import { cpuPerUnit, readCpu } from '../support/process.ts'
import { DISTINCT, distinctBounds } from '../support/queries.ts'
import { script } from '../support/script.ts'
import { runCommand, type Workspace } from './workspace.ts'

type Answers = {
  perSecond: number
  requests: number
  not2xx: number
  broken: number
  /** From sending a request to its answer, in milliseconds; `null`: not measured. */
  latency: { p50: number; p99: number } | null
}
/**
 * A measured run of servers; `cpu`: their CPU time a request, in microseconds. What is unknown is
 * `Number.NaN`.
 */
export type Load = Answers & { cpu: { mainUs: number; allUs: number } }
type LoadInput = {
  targetsFile: string
  isDistinct: boolean
  /** Header lines of every request, each with its end. */
  fields?: string
  seconds: number
  /** By default CONNECTIONS. */
  connections?: number
}

/** More requests than a run can send in a second: no number of a request repeats. */
const REQUESTS_MAX_PER_SECOND = 200_000
/** Time for a generator to start and end, beside the run. */
const GRACE_SECONDS = 20

/** The request lines of wrk, see `distinctBounds` for the numbers. */
const LUA = `
local head, tail = "GET ", " HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n"
local lines = {}
local n, distinct
function init(args)
  tail = tail .. args[4] .. "\\r\\n"
  distinct = args[2] == "distinct"
  n = tonumber(args[3])
  for line in io.lines(args[1]) do
    lines[#lines + 1] = head .. line .. (distinct and "" or tail)
  end
end
function request()
  local line = lines[n % #lines + 1]
  if distinct then
    local mixed = (n * ${DISTINCT.factor}) % ${DISTINCT.speeds * DISTINCT.pings}
    local ping = 400 + math.floor(mixed / ${DISTINCT.speeds})
    local speed = 1000 + 10 * (mixed % ${DISTINCT.speeds})
    line = line .. "&speed=" .. speed .. "&ping=" .. ping .. tail
  end
  n = n + 1
  return line
end
`

let nextRequest = 0

/** Loads servers at once for some seconds, each the same; request numbers continue from run to run. */
export async function load(
  workspace: Workspace,
  servers: readonly Pick<Server, 'port' | 'pid'>[],
  input: LoadInput,
): Promise<Load> {
  const { connections = workspace.options.connections, seconds } = input
  const startAt = nextRequest
  nextRequest += seconds * REQUESTS_MAX_PER_SECOND
  const before = servers.map(({ pid }) => readCpu(pid))
  const all = await Promise.all(
    servers.map(({ port }) => {
      const own = { ...input, connections, port, startAt }
      return workspace.options.generator === 'wrk' ? loadByWrk(workspace, own) : loadByBun(own)
    }),
  )
  const sum = (of: (answers: Answers) => number): number =>
    all.reduce((total, answers) => total + of(answers), 0)
  const latest = (pick: 'p50' | 'p99'): number =>
    Math.max(...all.map(({ latency }) => latency?.[pick] ?? Number.NaN))
  const requests = sum(answers => answers.requests)
  const used = servers.map(({ pid }, i) => cpuPerUnit(pid, before[i] ?? null, requests))
  const usOf = (pick: 'mainUs' | 'allUs'): number =>
    used.reduce((total, cpu) => total + (cpu?.[pick] ?? Number.NaN), 0)
  return {
    perSecond: sum(answers => answers.perSecond),
    requests,
    not2xx: sum(answers => answers.not2xx),
    broken: sum(answers => answers.broken),
    latency: { p50: latest('p50'), p99: latest('p99') },
    cpu: { mainUs: usOf('mainUs'), allUs: usOf('allUs') },
  }
}

/** Answers of another status than is expected: no request may be refused, or every one must be. */
export const unexpectedOf = ({ requests, not2xx, broken }: Load, status: 200 | 429): number =>
  broken + (status === 200 ? not2xx : requests - not2xx)

type ClosedLoopInput = {
  port: number
  targetsFile: string
  /** Whether each request has bounds of its own. */
  isDistinct: boolean
  fields?: string
  /** Number of the first request. */
  startAt: number
  connections: number
  /** Runs until one of these is reached; without `requests`, for `seconds`. */
  seconds: number
  requests?: number
}
type ClosedLoopResult = {
  seconds: number
  requests: number
  not2xx: number
  broken: number
}

/**
 * A load generator for machines without wrk: every connection sends its next request as soon as the
 * last one is answered.
 */
async function closedLoop(input: ClosedLoopInput): Promise<ClosedLoopResult> {
  const { port, isDistinct, fields, startAt, connections, requests: most = Infinity } = input
  const where = { kind: 'tcp', hostname: '127.0.0.1', port } as const
  const targets = readFileSync(input.targetsFile, 'utf8').trimEnd().split('\n')
  const result: ClosedLoopResult = { seconds: 0, requests: 0, not2xx: 0, broken: 0 }
  const targetOf = (n: number): string =>
    `${targets[n % targets.length]}${isDistinct ? distinctBounds(n) : ''}`
  let next = startAt
  let isOver = false
  async function ask(client: Client): Promise<void> {
    while (next - startAt < most && client.isOpen()) {
      const status = await client.status(targetOf(next++), fields)
      if (isOver) return
      if (status === 0) result.broken += 1
      else result.requests += 1
      if (status >= 300) result.not2xx += 1
    }
  }
  const startMs = performance.now()
  const clients = await Promise.all(Array.from({ length: connections }, () => openClient(where)))
  await Promise.race([Promise.all(clients.map(ask)), Bun.sleep(input.seconds * 1000)])
  isOver = true
  for (const client of clients) client.close()
  return { ...result, seconds: (performance.now() - startMs) / 1000 }
}

export async function loadByBun(input: ClosedLoopInput): Promise<Answers> {
  const { result } = startClosedLoop(input, input.seconds + GRACE_SECONDS)
  const { requests, seconds, not2xx, broken } = await result
  return { perSecond: requests / seconds, requests, not2xx, broken, latency: null }
}

const UNITS_MS: { readonly [unit: string]: number } = { us: 0.001, ms: 1, s: 1_000 }

/** A percentile of latency that wrk printed, in milliseconds. */
function latencyIn(output: string, percent: number): number {
  const [, value, unit = ''] =
    new RegExp(`^ +${percent}% +([\\d.]+)(us|ms|s)$`, 'm').exec(output) ?? []
  return Number(value) * (UNITS_MS[unit] ?? Number.NaN)
}

async function loadByWrk(
  workspace: Workspace,
  { port, targetsFile, isDistinct, fields = '', seconds, connections, startAt }: ClosedLoopInput,
): Promise<Answers> {
  const script = join(workspace.dir, 'requests.lua')
  writeFileSync(script, LUA)
  const command = [
    ...['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', script],
    ...[`http://127.0.0.1:${port}`, '--', targetsFile],
    ...[isDistinct ? 'distinct' : 'repeated', String(startAt), fields],
  ]
  const { stdout } = await runCommand(command, seconds + GRACE_SECONDS)
  const numberAt = (pattern: RegExp): number => Number(pattern.exec(stdout)?.[1] ?? 0)
  const errors = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout)
  return {
    perSecond: numberAt(/Requests\/sec: +([\d.]+)/),
    requests: numberAt(/(\d+) requests in /),
    not2xx: numberAt(/Non-2xx or 3xx responses: (\d+)/),
    latency: { p50: latencyIn(stdout, 50), p99: latencyIn(stdout, 99) },
    broken: (errors?.slice(1) ?? []).reduce((sum, text) => sum + Number(text), 0),
  }
}

const startClosedLoop = script(import.meta, closedLoop)
