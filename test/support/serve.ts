/** What the tests of the running server share: a data directory with a list, and one key. */

import type { Plan } from '../../src/access/plan.ts'
import { openList, openRegistry } from '../../src/app.ts'
import { type Answer, fillList, T0, type TestRow, temporaryDirectory } from './harness.ts'

/** The key of the data directory's plan, which limits nothing unless it is told to. */
export const KEY = 'k-5f4dcc3b5aa765d61d8327deb882cf99'
export const ASK = `/api?key=${KEY}`

const ONE: readonly TestRow[] = [{ ip: '192.0.2.1:80', type: 'http' }]
const FREE = { name: 'free', burst: null, daily: null, subnets: null, clients: null, count: null }

/** A data directory with a list and `KEY`. */
export function dataDirectory(rows: readonly TestRow[] = ONE, limits: Partial<Plan> = {}): string {
  const dir = temporaryDirectory()
  const list = openList(dir)
  fillList(list, rows)
  list.close()
  const registry = openRegistry(dir)
  registry.plans.set({ ...FREE, ...limits })
  registry.keys.add({ key: KEY, label: '', plan: FREE.name, expiresAt: null }, T0)
  registry.close()
  return dir
}

type Asked = { request(path: string, init?: RequestInit): Promise<Answer> }

/** What a request gets: its status, then the error's code or the whole body. */
export async function ask(service: Asked, path = ASK, init: RequestInit = {}): Promise<string> {
  const { status, text } = await service.request(path, init)
  return `${status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? text}`
}

/** As if from another client: the servers of tests believe X-Forwarded-For. */
export const from = (client: string): RequestInit => ({ headers: { 'x-forwarded-for': client } })
