/** Worker threads: starts them, lowers their priority, and passes errors between threads. */
import { getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { requireDescriptors } from './descriptors.ts'
import { codeOf, StoreError } from './errors.ts'

/** The folder `src/`, or the folder of the entry points in the binary. */
const SOURCE_ROOT = import.meta.dir.endsWith('/lib') ? join(import.meta.dir, '..') : import.meta.dir

/** More descriptors than a starting thread opens. Without them, Bun ends the process. */
const DESCRIPTORS = 24

/** Starts a worker of `src/`, an entry point of the build. @throws Error when out of file descriptors */
export function startWorker(path: string): Worker {
  requireDescriptors(DESCRIPTORS)
  return new Worker(join(SOURCE_ROOT, path))
}

type TaskReply<Result> = { kind: 'done'; result: Result } | { kind: 'thrown'; error: ErrorMessage }

/** A worker that does tasks in sequence. Tasks that `end` interrupts reject with `why`; without `why`, they never settle. */
export type Tasks<Input, Result> = {
  run: (input: Input) => Promise<Result>
  end: (why?: Error) => void
}

/** Starts a worker that calls `doTask` for each message. It does not keep the process alive. Calls `onCrash` if it crashes. */
export function startTasks<Input, Result>(path: string, onCrash = () => {}): Tasks<Input, Result> {
  const worker = startWorker(path)
  const waiting: PromiseWithResolvers<Result>[] = []
  const end = (why?: Error): void => {
    worker.terminate()
    for (const { reject } of waiting.splice(0)) if (why !== undefined) reject(why)
  }
  worker.onmessage = ({ data }: MessageEvent<TaskReply<Result>>) => {
    const task = waiting.shift()
    if (data.kind === 'done') task?.resolve(data.result)
    else task?.reject(toError(data.error))
  }
  worker.onerror = ({ message }) => {
    onCrash()
    end(new Error(message))
  }
  worker.unref()
  return {
    run(input) {
      const task = Promise.withResolvers<Result>()
      waiting.push(task)
      worker.postMessage(input)
      return task.promise
    },
    end,
  }
}

export type Task<Result> = { result: Promise<Result>; end: (why?: Error) => void }

/** Starts a worker that calls `doTask` for one task. */
export function startTask<Input, Result>(path: string, input: Input): Task<Result> {
  try {
    const { run, end } = startTasks<Input, Result>(path)
    return { result: run(input).finally(() => end()), end }
  } catch (error) {
    return { result: Promise.reject(error), end() {} }
  }
}

/** Does the work of a task in a worker, and replies with the result or error. Buffers in `buffersOf` are moved, not copied. */
export async function doTask<Result>(
  worker: Worker,
  work: () => Result | Promise<Result>,
  buffersOf: (result: Result) => ArrayBuffer[] = () => [],
) {
  const reply = await Promise.try(work).then(
    (result): TaskReply<Result> => ({ kind: 'done', result }),
    (error): TaskReply<Result> => ({ kind: 'thrown', error: toErrorMessage(error) }),
  )
  worker.postMessage(reply, reply.kind === 'done' ? buffersOf(reply.result) : [])
}

/** Lowers the priority of the calling thread permanently. Only Linux has priorities of threads. */
export function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    // On a busy processor, the thread gets a tenth of the time.
    setPriority(Math.max(getPriority(), 10))
  } catch {
    // Some sandboxes forbid it: the priority stays.
  }
}

/** An error as a message. A structured clone would lose its class, name and own properties. */
export type ErrorMessage = { name: string; message: string; code: string; isDamage: boolean }

/** Makes a message of anything thrown; `code` is `''` if it has none. */
export function toErrorMessage(thrown: unknown): ErrorMessage {
  const { name, message } = thrown instanceof Error ? thrown : new Error(String(thrown))
  const isDamage = thrown instanceof StoreError && thrown.isDamage
  return { name, message, code: codeOf(thrown), isDamage }
}

/** Makes an error of a message. Only the class `StoreError` is restored. */
export const toError = ({ name, message, code, isDamage }: ErrorMessage): Error =>
  name === 'StoreError'
    ? new StoreError(message, { isDamage })
    : Object.assign(new Error(message), { name, code })
