/** Importing a list: the form and the result. */
import { useRef, useState } from 'preact/hooks'
import { CheckField, SelectField } from '../parts/form.tsx'
import { useConsole } from './context.ts'
import { bytes, number } from './format.ts'
import type { Import } from './upload.ts'

const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const
const TYPES = ['http', 'https', 'socks4', 'socks5'] as const
const TYPE_LABEL = 'Type of bare lines'
const SHRINK_LABEL = 'Allow less than half of the rows'

/** Messages of the command name its options; the console names its fields. */
const withFieldNames = (message: string): string =>
  message.replace('--type', `“${TYPE_LABEL}”`).replace('--allow-shrink', `“${SHRINK_LABEL}”`)

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
    label={TYPE_LABEL}
    name="type"
    options={[['', 'each line says'], ...TYPES.map(each => [each, each] as const)]}
  />
)

/** In the order of the command line. */
const COUNTS = ['read', 'added', 'updated', 'unchanged', 'rejected', 'removed'] as const

function Result({ file, line }: Import) {
  if (line === null || line.kind === 'progress') {
    return (
      <>
        <progress max={file.size} value={line?.bytes} aria-label={`Import of ${file.name}`} />
        <p class="soft">
          {line === null ? 'uploading ' : `importing, ${bytes(line.bytes)} of `}
          {bytes(file.size)}
        </p>
      </>
    )
  }
  if (line.kind === 'failed') return <p class="bad">{withFieldNames(line.message)}</p>
  return (
    <>
      <p class="counts">
        {COUNTS.filter(count => count === 'read' || line[count] > 0).map(count => (
          <span key={count} data-bad={count === 'rejected' || undefined}>
            {count} <b>{number(line[count])}</b>
          </span>
        ))}
      </p>
      {line.messages.length > 0 && <pre>{line.messages.map(withFieldNames).join('\n')}</pre>}
    </>
  )
}

export function ImportView() {
  const { upload } = useConsole()
  const { current, isBusy } = upload
  const [format, setFormat] = useState('')
  const [type, setType] = useState('')
  const [replace, setReplace] = useState(false)
  const [allowShrink, setAllowShrink] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const submit = (event: Event): void => {
    event.preventDefault()
    const file = input.current?.files?.[0]
    if (file === undefined) return
    const options = new URLSearchParams({ name: file.name, format: format || 'auto' })
    if (type !== '') options.set('type', type)
    if (replace) options.set('replace', '1')
    if (replace && allowShrink) options.set('allow_shrink', '1')
    void upload.start(file, options)
  }
  return (
    <>
      <form class="card fields" onSubmit={submit}>
        <label class="field">
          <span>List: choose a file, or drop it here</span>
          <input ref={input} class="drop" type="file" name="file" required />
          <small>CSV, NDJSON, JSON or plain lines, 1 GiB at most</small>
        </label>
        <div class="pairs">
          <FormatField value={format} onChange={setFormat} />
          <TypeField value={type} onChange={setType} />
        </div>
        <CheckField
          label="Replace the whole list: remove proxies that the file does not have"
          name="replace"
          isOn={replace}
          onChange={setReplace}
        />
        {replace && (
          <CheckField
            label={SHRINK_LABEL}
            name="allow_shrink"
            isOn={allowShrink}
            onChange={setAllowShrink}
          />
        )}
        <button type="submit" class={replace ? 'primary danger' : 'primary'} disabled={isBusy}>
          {replace ? 'Replace the list' : 'Import'}
        </button>
      </form>
      {current && (
        <section class="card imports" aria-label="Last import">
          <h2>
            {current.file.name} <small>{bytes(current.file.size)}</small>
          </h2>
          <div role="status">
            <Result {...current} />
          </div>
          {isBusy && (
            <button type="button" class="plain" onClick={upload.cancel}>
              Cancel
            </button>
          )}
        </section>
      )}
    </>
  )
}
