/** Importing lists by drop: the options, sending one file, and what becomes of each. */
import { useLayoutEffect, useState } from 'preact/hooks'
import type { ImportLine } from '../../admin/api-types.ts'
import { CheckField, SelectField } from '../parts/form.tsx'
import { type Client, RequestError } from './client.ts'
import { useConsole } from './context.ts'
import { Alert, FormDialog } from './dialog.tsx'
import { bytes, number } from './format.ts'
import {
  type ImportItem,
  inConsole,
  LABELS,
  type OnProgress,
  type Sending,
} from './import-queue.ts'

const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const
const TYPES = ['http', 'https', 'socks4', 'socks5'] as const

type ChoiceProps = { value: string; onChange(value: string): void }

export const FormatField = (props: ChoiceProps) => (
  <SelectField
    {...props}
    label="Format"
    name="format"
    options={[['', 'by content'], ...FORMATS.map(each => [each, each] as const)]}
  />
)

export const TypeField = (props: ChoiceProps) => (
  <SelectField
    {...props}
    label={LABELS['--type']}
    name="type"
    options={[['', 'each line says'], ...TYPES.map(each => [each, each] as const)]}
  />
)

const START = { format: '', type: '', replace: false, allowShrink: false }
type Options = typeof START

/** Where a list is sent to. Options that are not set are left out. */
function pathOf(file: string, options: Options): string {
  const query = new URLSearchParams({ name: file, format: options.format || 'auto' })
  if (options.type !== '') query.set('type', options.type)
  if (options.replace) query.set('replace', '1')
  if (options.replace && options.allowShrink) query.set('allow_shrink', '1')
  return `/console/import?${query}`
}

/** The last line of an answer that has arrived as a whole. */
function lastLine(text: string): ImportLine | null {
  const line = text.slice(0, text.lastIndexOf('\n')).split('\n').at(-1)
  return line ? JSON.parse(line) : null // the server's own type
}

/**
 * Sends a file. `on` is called with the bytes that were sent, and that the server has read; `done` is
 * the last line, or throws `RequestError`. `fetch` does not say how much of a body was sent, so this is
 * the one place with an `XMLHttpRequest`.
 */
function sendFile(client: Client, path: string, file: Blob, on: OnProgress): Sending {
  const request = new XMLHttpRequest()
  const { promise, resolve, reject } = Promise.withResolvers<ImportLine>()
  request.upload.onprogress = ({ loaded }) => on.sent(loaded)
  request.onprogress = () => {
    const line = request.status === 200 ? lastLine(request.responseText) : null
    if (line?.kind === 'progress') on.read(line.bytes)
  }
  const lost = (): void => reject(new RequestError('The connection was lost.'))
  request.onerror = lost
  request.onload = () => {
    const { status, responseText } = request
    if (status !== 200) return reject(client.refuse(status, responseText))
    const line = lastLine(responseText)
    if (line === null || line.kind === 'progress') lost()
    else resolve(line)
  }
  request.open('POST', path)
  request.setRequestHeader('authorization', client.authorization())
  // The type that a browser gives to a text file is one of those that forms send, and is refused.
  request.setRequestHeader('content-type', 'application/octet-stream')
  request.send(file)
  return { done: promise, cancel: () => request.abort() }
}

type OptionsProps = { options: Options; onChange(options: Options): void }

function OptionFields({ options, onChange }: OptionsProps) {
  const set = (change: Partial<Options>): void => onChange({ ...options, ...change })
  return (
    <div class="import-options">
      <FormatField value={options.format} onChange={format => set({ format })} />
      <TypeField value={options.type} onChange={type => set({ type })} />
      <div class="checks">
        <CheckField
          label="Replace the whole list"
          name="replace"
          isOn={options.replace}
          onChange={replace => set({ replace })}
        />
        {options.replace && (
          <CheckField
            label={LABELS['--allow-shrink']}
            name="allow_shrink"
            isOn={options.allowShrink}
            onChange={allowShrink => set({ allowShrink })}
          />
        )}
      </div>
    </div>
  )
}

function Drop({ onFiles }: { onFiles(files: readonly File[]): void }) {
  const [isOver, setOver] = useState(false)
  return (
    <label
      class="drop"
      data-over={isOver || undefined}
      onDragOver={event => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={event => {
        event.preventDefault()
        setOver(false)
        onFiles([...(event.dataTransfer?.files ?? [])])
      }}
    >
      <input
        type="file"
        class="hidden"
        multiple
        onChange={event => {
          onFiles([...(event.currentTarget.files ?? [])])
          event.currentTarget.value = ''
        }}
      />
      <b>Drop lists here</b>
      <span>or choose files · CSV, NDJSON, JSON, plain lines</span>
    </label>
  )
}

function Progress({ item, sent, read }: { item: ImportItem; sent: number; read: number }) {
  const isSent = sent >= item.size
  return (
    <>
      <progress
        max={Math.max(1, item.size)}
        value={isSent ? read : Math.max(sent, read)}
        aria-label={`Import of ${item.name}`}
      />
      <span class="soft">
        {isSent ? `importing, ${bytes(read)}` : `sending, ${bytes(sent)}`} of {bytes(item.size)}
      </span>
    </>
  )
}

/** In the order of the command line. */
const COUNTS = ['read', 'added', 'updated', 'unchanged', 'rejected', 'removed'] as const

function Result({ item }: { item: ImportItem }) {
  const { state } = item
  switch (state.kind) {
    case 'waiting':
      return <span class="soft">waiting</span>
    case 'cancelled':
      return <span class="soft">cancelled, nothing was imported</span>
    case 'failed':
      return <span class="bad">{inConsole(state.message)}</span>
    case 'sending':
      return <Progress item={item} sent={state.sent} read={state.read} />
    case 'done':
      return (
        <>
          <span class="counts">
            {COUNTS.filter(count => count === 'read' || state[count] > 0).map(count => (
              <span key={count} data-bad={count === 'rejected' || undefined}>
                {count} <b>{number(state[count])}</b>
              </span>
            ))}
          </span>
          {state.messages.length > 0 && (
            <details open>
              <summary>
                Messages<span class="hidden">: {item.name}</span>
              </summary>
              <ul class="messages">
                {state.messages.map(message => (
                  <li key={message}>{inConsole(message)}</li>
                ))}
              </ul>
            </details>
          )}
        </>
      )
  }
}

function Row({ item, onCancel }: { item: ImportItem; onCancel(): void }) {
  const { kind } = item.state
  return (
    <li>
      <span class="file">
        <b>{item.name}</b> <small>{bytes(item.size)}</small>
      </span>
      <div role="status">
        <Result item={item} />
      </div>
      {(kind === 'waiting' || kind === 'sending') && (
        <button type="button" class="plain" onClick={onCancel}>
          Cancel<span class="hidden"> {item.name}</span>
        </button>
      )}
    </li>
  )
}

export function ImportView() {
  const { client, imports } = useConsole()
  const [options, setOptions] = useState(START)
  const [problem, setProblem] = useState<string | null>(null)
  const [replacing, setReplacing] = useState<File | null>(null)
  const [items, setItems] = useState(imports.items())
  // Before anything can change: an effect would wait for the next frame.
  useLayoutEffect(() => imports.subscribe(() => setItems(imports.items())), [imports])
  const start = (files: readonly File[]): void =>
    imports.add(files, (file, on) => sendFile(client, pathOf(file.name, options), file, on))
  const choose = (files: readonly File[]): void => {
    const isTooMany = options.replace && files.length > 1
    setProblem(isTooMany ? 'Replacing takes one file: the second would replace the first.' : null)
    const [first] = files
    if (first === undefined || isTooMany) return
    if (options.replace) setReplacing(first)
    else start(files)
  }
  return (
    <>
      <section class="card" aria-label="Import">
        <OptionFields options={options} onChange={setOptions} />
        <Drop onFiles={choose} />
        {problem && <Alert>{problem}</Alert>}
      </section>
      {items.length > 0 && (
        <section class="card" aria-label="Imports">
          <h2>
            Imports
            <button type="button" class="quiet" onClick={imports.clear}>
              Clear
            </button>
          </h2>
          <ul class="imports">
            {items.toReversed().map(item => (
              <Row key={item.id} item={item} onCancel={() => imports.cancel(item.id)} />
            ))}
          </ul>
        </section>
      )}
      {replacing !== null && (
        <FormDialog
          title="Replace the whole list?"
          hint={`Proxies that ${replacing.name} does not have are removed.`}
          action="Replace"
          onSubmit={async () => start([replacing])}
          onClose={() => setReplacing(null)}
        />
      )}
    </>
  )
}
