/** Owns what is shown of one file that is imported. */

import type { ImportCounts } from '../../admin/wire.ts'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import type { ImportItem } from './import-queue.ts'

/** Counts in the order of the command line; those of nothing are left out, but what was read. */
const COUNTS = [
  ['read', 'importRead'],
  ['added', 'importAdded'],
  ['updated', 'importUpdated'],
  ['unchanged', 'importUnchanged'],
  ['rejected', 'importRejected'],
  ['removed', 'importRemoved'],
] as const satisfies readonly (readonly [keyof ImportCounts, string])[]

function Progress({ item, sent, read }: { item: ImportItem; sent: number; read: number }) {
  const { words, bytes } = useConsole().speech
  const size = bytes(item.size)
  const isSent = sent >= item.size
  const done = isSent ? read : Math.max(sent, read)
  return (
    <>
      <progress
        max={Math.max(1, item.size)}
        value={done}
        aria-label={fill(words.importLabel, { file: item.name })}
      />
      <span class="soft">
        {isSent
          ? fill(words.importing, { read: bytes(read), size })
          : fill(words.sending, { sent: bytes(sent), size })}
      </span>
    </>
  )
}

function Result({ item }: { item: ImportItem }) {
  const { words, number } = useConsole().speech
  const { state } = item
  switch (state.kind) {
    case 'waiting':
      return <span class="soft">{words.waitingTurn}</span>
    case 'cancelled':
      return <span class="soft">{words.cancelled}</span>
    case 'failed':
      return <span class="bad">{state.message}</span>
    case 'sending':
      return <Progress item={item} sent={state.sent} read={state.read} />
    case 'done':
      return (
        <>
          <span class="counts">
            {COUNTS.filter(([count]) => count === 'read' || state[count] > 0).map(
              ([count, word]) => (
                <span key={count} data-bad={count === 'rejected' || undefined}>
                  {words[word]} <b>{number(state[count])}</b>
                </span>
              ),
            )}
          </span>
          {state.messages.length > 0 && (
            <details open>
              <summary>
                {words.rejectedRows}
                <span class="hidden">: {item.name}</span>
              </summary>
              <ul class="messages">
                {state.messages.map(message => (
                  <li key={message}>{message}</li>
                ))}
              </ul>
            </details>
          )}
        </>
      )
  }
}

export function ImportRow({ item, onCancel }: { item: ImportItem; onCancel(): void }) {
  const { words, bytes } = useConsole().speech
  const { kind } = item.state
  return (
    <li data-state={kind}>
      <span class="file">
        <b>{item.name}</b> <small>{bytes(item.size)}</small>
      </span>
      <div role="status">
        <Result item={item} />
      </div>
      {(kind === 'waiting' || kind === 'sending') && (
        <button type="button" class="plain" onClick={onCancel}>
          {words.cancel}
          <span class="hidden"> {item.name}</span>
        </button>
      )}
    </li>
  )
}
