/**
 * Imports that are sent by the console: the upload goes into a file without a name, which a
 * process of the program itself then imports, so that the list is locked only while it is imported,
 * and one that is cut off changes nothing.
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
/** What the listener itself refuses, before anybody could say why. */
export const UPLOAD_BYTES_MAX = 2 * IMPORT_BYTES_MAX
/** Most imports at once; those that are read wait for each other. */
export const IMPORTS_MAX = 4
/** Time between two lines of progress, which keep the connection from being idle, too. */
const PROGRESS_MS = SECOND_MS
/** Longest name of a file that is shown, in characters. */
const NAME_MAX = 200
/** Most messages of an import, and their length in characters, as far as they are kept. */
const MESSAGES_MAX = 50
const MESSAGE_MAX = 500

/** The settings of `import` that a query may have. */
const OPTIONS = [
  ...(['format', 'type', 'map', 'pingUnit', 'replace'] as const),
  ...(['allowEmpty', 'allowShrink', 'strict'] as const),
]
type Upload = { name: string; options: { readonly [name in SettingName]?: string } }

export type ImportEnd = { isDone: boolean; stdout: string; stderr: string }
type RunningImport = {
  ended: Promise<ImportEnd>
  /** How much of the file it has taken. */
  bytesRead(): number
  kill(): void
}

export type ImportParts = {
  /** The data directory, where uploads wait. */
  dir: string
  /** Imports what is read from an open file; `null` where the list cannot be changed. */
  run: ((upload: Upload, fd: number) => RunningImport) | null
  /** Smaller in tests. */
  bytesMax?: number
}

/** Lines of the command as they may be shown: without folders. */
const messagesOf = (text: string, dir: string): string[] =>
  text
    .replaceAll(join(dir, '/'), '')
    .split('\n')
    .filter(line => line !== '')
    .slice(-MESSAGES_MAX)
    .map(line => line.slice(0, MESSAGE_MAX))

/** How the command begins the line with which it fails; anything else is a crash of its process. */
const FAILURE = /^proxylist: (?=[^\n]*\n$)/m

/** The last line of the answer, which says how the import has ended. */
function lastLine({ isDone, stdout, stderr }: ImportEnd, dir: string): object {
  const messages = messagesOf(stderr.replace(FAILURE, ''), dir)
  if (isDone) return { kind: 'done', ...JSON.parse(stdout), messages }
  if (FAILURE.test(stderr)) return { kind: 'failed', message: messages.pop(), messages }
  return { kind: 'failed', message: 'it was ended; the list has all of it or none', messages: [] }
}

const tooLarge = (bytesMax: number): AdminError =>
  new AdminError('BODY_TOO_LARGE', `a list may have at most ${bytesMax / 2 ** 20} MiB`)

/**
 * Stores the body of a request in a file without a name; returns a descriptor to read it, which the
 * caller closes. @throws AdminError when it is too large, cut off, or cannot be stored.
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

/** Copies a body into an open file, whose position stays at its begin; returns its length. */
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

/** What `work` on the disk returns. @throws AdminError when the disk refuses it. */
function storing<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new AdminError('STORAGE_FAILED', `the upload could not be stored: ${reasonOf(error)}`)
  }
}

/** The lines of an answer: progress while the import runs, then how it ended. */
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

/** The options of a query, as text by setting. @throws AdminError naming a bad one. */
function uploadOf(url: string): Upload {
  const names = new Map(OPTIONS.map(option => [wireName(option), option]))
  const { name = 'list', ...members } = readQuery(url, ['name', ...names.keys()])
  const texts = Object.fromEntries(Object.entries(members).filter(([, text]) => text !== ''))
  readMembers(texts, OPTIONS)
  const given = Object.entries(texts).map(([wire, text]) => [names.get(wire), text])
  return { name: name.slice(0, NAME_MAX), options: Object.fromEntries(given) }
}

/** Imports of the console; `close` ends those that are running. */
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
