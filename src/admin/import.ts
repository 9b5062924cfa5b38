/**
 * Imports from the console. An upload goes to an unnamed file first, so that a slow one does not lock the list
 * and one that is cut off changes nothing. A process of this program then imports the file.
 */
import { closeSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { SettingName } from '../config/settings.ts'
import { withTimeout } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import { openUnnamed } from '../lib/files.ts'
import { SECOND_MS } from '../lib/time.ts'
import { refuseForms } from './csrf.ts'
import { AdminError } from './errors.ts'
import { type AdminRoutes, type Replied, readMembers, readQuery, wireName } from './route.ts'

const IMPORT_BYTES_MAX = 2 ** 30
/** The listener refuses larger bodies without a message. */
export const UPLOAD_BYTES_MAX = 2 * IMPORT_BYTES_MAX
/** The most uploads and imports at once. Imports wait for each other. */
export const IMPORTS_MAX = 4
/** The time between two lines of progress. They also keep the connection alive. */
const PROGRESS_MS = SECOND_MS

/** The settings of `import` that the query accepts. */
const OPTIONS = [
  ...(['format', 'type', 'map', 'pingUnit', 'replace'] as const),
  ...(['allowEmpty', 'allowShrink', 'strict'] as const),
]
type Upload = { name: string; options: { readonly [name in SettingName]?: string } }

export type ImportEnd = { isDone: boolean; stdout: string; stderr: string }
type RunningImport = {
  ended: Promise<ImportEnd>
  /** How much of the file it has read. */
  bytesRead(): number
  kill(): void
}

export type ImportParts = {
  /** The data directory, where uploads wait. */
  dir: string
  /** Imports an open file; `null` if the list is read-only. */
  run: ((upload: Upload, fd: number) => RunningImport) | null
  /** Smaller in tests. */
  bytesMax?: number
}

/** The messages of the command, without folders. */
const messagesOf = (text: string, dir: string): string[] =>
  text
    .replaceAll(join(dir, '/'), '')
    .split('\n')
    .filter(line => line !== '')

/** The last line of a failed command. Without it the process has crashed. */
const FAILURE = /^proxylist: (?=[^\n]*\n$)/m

/** The last line of the answer: the result. */
function lastLine({ isDone, stdout, stderr }: ImportEnd, dir: string): object {
  const messages = messagesOf(stderr.replace(FAILURE, ''), dir)
  if (isDone) return { kind: 'done', ...JSON.parse(stdout), messages }
  if (FAILURE.test(stderr)) return { kind: 'failed', message: messages.pop(), messages }
  return {
    kind: 'failed',
    message: 'the import was ended; the list has all of its rows or none',
    messages: [],
  }
}

const tooLarge = (bytesMax: number): AdminError =>
  new AdminError('BODY_TOO_LARGE', `a list may have at most ${bytesMax / 2 ** 20} MiB`)

/**
 * Stores the body of a request in an unnamed file. The caller closes it.
 * @throws AdminError if the body is too large or cut off, or the disk fails
 */
async function store(request: Request, dir: string, bytesMax: number): Promise<number> {
  const { body, headers } = request
  const announced = headers.get('content-length')
  if (Number(announced ?? 0) > bytesMax) throw tooLarge(bytesMax)
  const fd = storing(() => openUnnamed(dir))
  try {
    const bytes = await copy(body, fd, bytesMax)
    if (announced !== null && Number(announced) !== bytes) throw cutOff()
    return fd
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

const cutOff = (): AdminError =>
  new AdminError('INVALID_PARAMETER', 'the upload was cut off; the list is as it was')

/** Copies a body to an open file without moving its position. Returns the length. */
async function copy(body: Request['body'], fd: number, bytesMax: number): Promise<number> {
  const reader = body?.getReader()
  let bytes = 0
  for (;;) {
    const { done, value } = (await reader?.read().catch(() => {
      throw cutOff()
    })) ?? { done: true }
    if (done || value === undefined) return bytes
    if (bytes + value.length > bytesMax) throw tooLarge(bytesMax)
    storing(() => {
      for (let at = 0; at < value.length; ) {
        at += writeSync(fd, value, at, value.length - at, bytes + at)
      }
    })
    bytes += value.length
  }
}

/** Calls `work`. @throws AdminError if the disk fails */
function storing<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new AdminError('STORAGE_FAILED', `the upload could not be stored: ${reasonOf(error)}`)
  }
}

/** The lines of an answer: progress, then the result. */
function linesOf(
  { ended, bytesRead, kill }: RunningImport,
  last: (end: ImportEnd) => object,
): ReadableStream<Uint8Array> {
  const lineOf = (value: object): Uint8Array => Buffer.from(`${JSON.stringify(value)}\n`)
  const over = ended.then(last)
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const line = await withTimeout(over, PROGRESS_MS)
        controller.enqueue(lineOf(line ?? { kind: 'progress', bytes: bytesRead() }))
        if (line !== null) controller.close()
      },
      cancel: kill,
    },
    { highWaterMark: 0 },
  )
}

/** The options in a query, as text by setting. @throws AdminError naming a bad one */
function uploadOf(url: string): Upload {
  const names = new Map(OPTIONS.map(option => [wireName(option), option]))
  const { name = 'list', ...members } = readQuery(url, ['name', ...names.keys()])
  const texts = Object.fromEntries(Object.entries(members).filter(([, text]) => text !== ''))
  readMembers(texts, OPTIONS)
  const given = Object.entries(texts).map(([wire, text]) => [names.get(wire), text])
  return { name, options: Object.fromEntries(given) }
}

/** `close` ends running imports. */
export function createImports({ dir, run, bytesMax = IMPORT_BYTES_MAX }: ImportParts) {
  const running = new Set<RunningImport>()
  let begun = 0

  async function start(request: Request): Promise<Replied> {
    refuseForms(request)
    if (run === null) {
      throw new AdminError(
        'CONFLICT',
        'the sample list is built in: nothing can be imported into it',
      )
    }
    const upload = uploadOf(request.url)
    if (begun >= IMPORTS_MAX) {
      throw new AdminError('CONFLICT', `${IMPORTS_MAX} imports are under way; try again after one`)
    }
    begun += 1
    let fd: number | null = null
    const end = (): void => {
      begun -= 1
      if (fd !== null) closeSync(fd)
    }
    try {
      fd = await store(request, dir, bytesMax)
    } catch (error) {
      end()
      throw error
    }
    const one = run(upload, fd)
    running.add(one)
    request.signal.addEventListener('abort', one.kill, { once: true })
    if (request.signal.aborted) one.kill()
    const lines = linesOf(one, ended => lastLine(ended, dir))
    void one.ended.then(() => {
      running.delete(one)
      end()
    })
    return { kind: 'lines', lines }
  }

  return {
    routes: { '/console/import': { POST: ({ request }) => start(request) } } satisfies AdminRoutes,
    close(): void {
      for (const { kill } of running) kill()
    },
  }
}
