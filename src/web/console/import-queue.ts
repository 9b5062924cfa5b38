/**
 * The imports of this tab: files are sent one after the other, also while another view is
 * shown. Observers are called after every change.
 */
import type { ImportLine } from '../../admin/wire.ts'

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

export type ImportItem = {
  id: number
  name: string
  size: number
  state:
    | { kind: 'waiting' }
    | { kind: 'sending'; sent: number; read: number }
    | { kind: 'cancelled' }
    | Exclude<ImportLine, { kind: 'progress' }>
}

type SendNth = (
  index: number,
  on: { sent(bytes: number): void; read(bytes: number): void },
) => { done: Promise<ImportLine>; cancel(): void }

type Waiting = { item: ImportItem; start: (on: Parameters<SendNth>[1]) => ReturnType<SendNth> }

export type ImportQueue = ReturnType<typeof createImportQueue>

export function createImportQueue() {
  let items: readonly ImportItem[] = []
  let nextId = 1
  let current: { id: number; cancel(): void } | null = null
  const waiting: Waiting[] = []
  const observers = new Set<() => void>()

  const set = (id: number, state: ImportItem['state']): void => {
    items = items.map(item => (item.id === id ? { ...item, state } : item))
    for (const observer of observers) observer()
  }

  function end(id: number, state: ImportItem['state']): void {
    if (current?.id !== id) return
    current = null
    set(id, state)
    next()
  }

  function next(): void {
    const first = current === null ? waiting.shift() : undefined
    if (first === undefined) return
    const { id } = first.item
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
    /** Adds files that are sent by `send`, which is called when their turn has come. */
    add(files: readonly { name: string; size: number }[], send: SendNth): void {
      const added = files.map(({ name, size }, index): Waiting => {
        const item: ImportItem = { id: nextId++, name, size, state: { kind: 'waiting' } }
        return { item, start: on => send(index, on) }
      })
      items = [...items, ...added.map(({ item }) => item)]
      waiting.push(...added)
      next()
      for (const observer of observers) observer()
    },
    cancel(id: number): void {
      const place = waiting.findIndex(({ item }) => item.id === id)
      if (place >= 0) {
        waiting.splice(place, 1)
        return set(id, { kind: 'cancelled' })
      }
      if (current?.id !== id) return
      current.cancel()
      end(id, { kind: 'cancelled' })
    },
    /** Forgets what is over. */
    clear(): void {
      items = items.filter(({ state }) => state.kind === 'waiting' || state.kind === 'sending')
      for (const observer of observers) observer()
    },
    isBusy: (): boolean => current !== null,
    subscribe(observer: () => void): () => void {
      observers.add(observer)
      return () => observers.delete(observer)
    },
  }
}
