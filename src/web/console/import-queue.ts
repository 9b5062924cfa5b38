/**
 * The imports of this tab: files are sent one after the other, also while another view is
 * shown. Observers are called after every change.
 */
import type { ImportLine } from '../../admin/api-types.ts'

/** The labels of the fields that are flags of the command. */
export const LABELS = {
  '--type': 'Type of bare lines',
  '--allow-shrink': 'Also by one less than half as long',
} as const

/** What an import says, with the fields of the console for its flags; flags without one are of the command. */
export const inConsole = (sentence: string): string =>
  sentence.replace(/--(?:type|map|ping-unit|allow-\w+)/g, flag =>
    flag in LABELS
      ? `“${LABELS[flag as keyof typeof LABELS]}”` // as `in` says
      : `proxylist import ${flag}`,
  )

/** Is called with the bytes that were sent, and that the server has read. */
export type OnProgress = { sent(bytes: number): void; read(bytes: number): void }
export type Sending = { done: Promise<ImportLine>; cancel(): void }

export type ImportItem = {
  id: number
  name: string
  size: number
  /** Called when its turn has come. */
  start(on: OnProgress): Sending
  state:
    | { kind: 'waiting' }
    | { kind: 'sending'; sent: number; read: number }
    | { kind: 'cancelled' }
    | Exclude<ImportLine, { kind: 'progress' }>
}

export type ImportQueue = ReturnType<typeof createImportQueue>

export function createImportQueue() {
  let items: readonly ImportItem[] = []
  let nextId = 1
  let current: { id: number; cancel(): void } | null = null
  const observers = new Set<() => void>()

  const change = (changed: readonly ImportItem[]): void => {
    items = changed
    for (const observer of observers) observer()
  }
  const set = (id: number, state: ImportItem['state']): void =>
    change(items.map(item => (item.id === id ? { ...item, state } : item)))

  function end(id: number, state: ImportItem['state']): void {
    if (current?.id !== id) return
    current = null
    set(id, state)
    next()
  }

  function next(): void {
    const first = items.find(({ state }) => state.kind === 'waiting')
    if (current !== null || first === undefined) return
    const { id } = first
    const amounts = { sent: 0, read: 0 }
    const report = (change: Partial<typeof amounts>): void => {
      if (current?.id !== id) return
      set(id, { kind: 'sending', ...Object.assign(amounts, change) })
    }
    const { done, cancel } = first.start({
      sent: sent => report({ sent }),
      read: read => report({ read }),
    })
    current = { id, cancel }
    report({})
    done.then(
      line => end(id, line.kind === 'progress' ? { kind: 'cancelled' } : line),
      error => end(id, { kind: 'failed', message: error.message }),
    )
  }

  return {
    items: (): readonly ImportItem[] => items,
    /** Adds files that are sent by `send`, one after the other. */
    add<F extends { name: string; size: number }>(
      files: readonly F[],
      send: (file: F, on: OnProgress) => Sending,
    ): void {
      const added = files.map((file): ImportItem => {
        const { name, size } = file
        const start = (on: OnProgress): Sending => send(file, on)
        return { id: nextId++, name, size, start, state: { kind: 'waiting' } }
      })
      change([...items, ...added])
      next()
    },
    cancel(id: number): void {
      if (current?.id === id) {
        current.cancel()
        end(id, { kind: 'cancelled' })
      } else if (items.find(item => item.id === id)?.state.kind === 'waiting') {
        set(id, { kind: 'cancelled' })
      }
    },
    /** Forgets what is over. */
    clear: (): void =>
      change(items.filter(({ state }) => state.kind === 'waiting' || state.kind === 'sending')),
    isBusy: (): boolean => current !== null,
    subscribe(observer: () => void): () => void {
      observers.add(observer)
      return () => observers.delete(observer)
    },
  }
}
