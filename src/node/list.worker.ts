/** The worker that keeps the copy of the list up to date, and merges imports while its node is the leader. */
import { stopwatch, systemClock, timerLater } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { startPolling } from '../lib/poll.ts'
import { SECOND_MS } from '../lib/time.ts'
import { openConnection } from '../postgres/connection.ts'
import { openListCopy } from '../sqlite/copy.ts'
import { createList } from './list.ts'

declare const self: Worker

export type ListData = {
  dir: string
  url: string
  timeoutMs: number
}

export type ListTask =
  | ({ kind: 'follow' } & ListData)
  | { kind: 'wake'; leads: boolean }
  | { kind: 'stop' }

/** `newest`: the copy had the newest version `ageMs` ago. `failed` may repeat. */
export type ListReply =
  | { kind: 'newest'; version: number; ageMs: number }
  | { kind: 'failed'; message: string }
  | { kind: 'stopped' }

const ASK_EVERY_MS = SECOND_MS
/** The pause after a failure doubles up to this: on a full disk, each attempt may read the whole list. */
const PAUSE_MS_MAX = 30 * SECOND_MS
const PAUSE_MS_MIN = SECOND_MS / 4
const PATIENT_MS = 30 * SECOND_MS

const reply = (message: ListReply): void => self.postMessage(message)

function start({ dir, url, timeoutMs }: ListData) {
  const connection = openConnection({ url, timeoutMs, name: 'proxylist list' })
  const patient = openConnection({ url, timeoutMs: PATIENT_MS, name: 'proxylist list' })
  const copy = openListCopy(dir, systemClock)
  const { follow, isAwaited, lead } = createList(connection, patient, copy)
  let isLeader = false
  let isStopped = false
  let failures = 0

  const newest = (version: number, ageMs = 0): void => reply({ kind: 'newest', version, ageMs })

  const { wake, stop } = startPolling(async () => {
    try {
      const elapsedMs = stopwatch()
      const at = await follow()
      if (!(await isAwaited(at))) newest(at.version, elapsedMs())
      if (isLeader) await lead(() => isLeader && !isStopped, newest)
      failures = 0
      return ASK_EVERY_MS
    } catch (error) {
      failures += 1
      patient.renew() // its connection may be lost, too
      reply({ kind: 'failed', message: messageOf(error) })
      return Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** (failures - 1))
    }
  }, timerLater)

  return {
    wake(leads: boolean): void {
      isLeader = leads
      wake()
    },
    async stop(): Promise<void> {
      isStopped = true
      await stop()
      copy.close()
      await Promise.allSettled([connection.close(), patient.close()])
      reply({ kind: 'stopped' })
    },
  }
}

let started: ReturnType<typeof start> | null = null

self.onmessage = ({ data: task }: MessageEvent<ListTask>) => {
  if (task.kind === 'follow') started = start(task)
  else if (task.kind === 'wake') started?.wake(task.leads)
  else void started?.stop()
}
