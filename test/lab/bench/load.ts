/**
 * Full load on a server from another process: wrk with one thread if it is installed, else a Bun client; both send
 * the same requests.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Server } from '../../support/launch.ts'
import { type Client, openClient } from '../support/client.ts'
import { cpuPerUnit, readCpu } from '../support/process.ts'
import { DISTINCT, distinctBounds } from '../support/queries.ts'
import { script } from '../support/script.ts'
import { runCommand, type Workspace } from './workspace.ts'

type Answers = { perSecond: number; requests: number; not2xx: number; broken: number }
/** A measured run; `cpu`: the CPU time of the server a request, in microseconds. */
export type Load = Answers & { cpu: { mainUs: number; allUs: number } }
type LoadInput = {
  port: number
  targetsFile: string
  /** Whether each request has bounds of its own; `startAt` is the number of the first. */
  isDistinct: boolean
  startAt: number
  /** Header lines of every request, each with its end. */
  fields: string
  connections: number
  /** Runs until one of these is reached. */
  seconds: number
  requests: number
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

/** Loads a server for some seconds; request numbers continue from run to run. */
export async function load(
  workspace: Workspace,
  { port, pid }: Pick<Server, 'port' | 'pid'>,
  input: Pick<LoadInput, 'targetsFile' | 'isDistinct' | 'fields' | 'seconds'>,
): Promise<Load> {
  const { connections, generator } = workspace.options
  const startAt = nextRequest
  nextRequest += input.seconds * REQUESTS_MAX_PER_SECOND
  const before = readCpu(pid)
  const all = { ...input, port, startAt, connections, requests: Number.MAX_SAFE_INTEGER }
  const answers = await (generator === 'wrk' ? loadByWrk(workspace, all) : loadByBun(all))
  const cpu = cpuPerUnit(pid, before, answers.requests)
  return { ...answers, cpu: cpu ?? { mainUs: Number.NaN, allUs: Number.NaN } }
}

/** Answers of another status than is expected: no request may be refused, or every one must be. */
export const unexpectedOf = ({ requests, not2xx, broken }: Load, status: 200 | 429): number =>
  broken + (status === 200 ? not2xx : requests - not2xx)

/** Every connection sends its next request as soon as the last one is answered. */
async function closedLoop(input: LoadInput): Promise<Answers> {
  const { port, isDistinct, fields, startAt, connections, requests: most } = input
  const where = { kind: 'tcp', hostname: '127.0.0.1', port } as const
  const targets = readFileSync(input.targetsFile, 'utf8').trimEnd().split('\n')
  const result = { requests: 0, not2xx: 0, broken: 0 }
  const targetOf = (n: number): string =>
    `${targets[n % targets.length]}${isDistinct ? distinctBounds(n) : ''}`
  let next = startAt
  let isOver = false
  async function ask(client: Client): Promise<void> {
    while (next - startAt < most && client.isOpen()) {
      const status = await client.status(targetOf(next++), fields)
      if (isOver) return
      result[status === 0 ? 'broken' : 'requests'] += 1
      if (status >= 300) result.not2xx += 1
    }
  }
  const startMs = performance.now()
  const clients = await Promise.all(Array.from({ length: connections }, () => openClient(where)))
  await Promise.race([Promise.all(clients.map(ask)), Bun.sleep(input.seconds * 1000)])
  isOver = true
  for (const client of clients) client.close()
  return { ...result, perSecond: (result.requests * 1000) / (performance.now() - startMs) }
}

export const loadByBun = (input: LoadInput): Promise<Answers> =>
  startClosedLoop(input, input.seconds + GRACE_SECONDS).result

async function loadByWrk(workspace: Workspace, input: LoadInput): Promise<Answers> {
  const { port, targetsFile, isDistinct, fields, seconds, connections, startAt } = input
  const lua = join(workspace.dir, 'requests.lua')
  writeFileSync(lua, LUA)
  const command = [
    ...['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '-s', lua],
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
    broken: (errors?.slice(1) ?? []).reduce((sum, text) => sum + Number(text), 0),
  }
}

const startClosedLoop = script(import.meta, closedLoop)
