/** Owns importing lists by drop: the options, and what becomes of each file. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { CheckField, SelectField } from '../parts/form.tsx'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import { FormDialog } from './dialog.tsx'
import type { ImportItem } from './import-queue.ts'
import { ImportRow } from './import-row.tsx'
import { Alert } from './notice.tsx'
import { type ImportOptions, importPath, sendFile } from './upload.ts'

const FORMATS = ['auto', 'txt', 'csv', 'json', 'ndjson'] as const
const TYPES = ['http', 'https', 'socks4', 'socks5'] as const

type OptionsProps = { options: ImportOptions; onChange(options: ImportOptions): void }

function Options({ options, onChange }: OptionsProps) {
  const { words } = useConsole().speech
  const set = (change: Partial<ImportOptions>): void => onChange({ ...options, ...change })
  return (
    <div class="options">
      <SelectField
        label={words.format}
        name="format"
        value={options.format}
        onChange={format => set({ format })}
        options={FORMATS.map(each => [each, each === 'auto' ? words.byContent : each])}
      />
      <SelectField
        label={words.bareType}
        name="type"
        value={options.type}
        onChange={type => set({ type })}
        options={[['', words.noType], ...TYPES.map(each => [each, each] as const)]}
      />
      <div class="checks">
        <CheckField
          label={words.replace}
          name="replace"
          isOn={options.replace}
          onChange={replace => set({ replace })}
        />
        {options.replace && (
          <CheckField
            label={words.allowShrink}
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
  const { words } = useConsole().speech
  const [isOver, setOver] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const drop = (event: DragEvent): void => {
    event.preventDefault()
    setOver(false)
    onFiles([...(event.dataTransfer?.files ?? [])])
  }
  return (
    <label
      class="drop"
      data-over={isOver || undefined}
      onDragOver={event => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <input
        ref={input}
        type="file"
        class="hidden"
        multiple
        onChange={event => {
          onFiles([...(event.currentTarget.files ?? [])])
          event.currentTarget.value = ''
        }}
      />
      <b>{words.drop}</b>
      <span>{words.choose}</span>
    </label>
  )
}

/** The imports of this tab, drawn again after each change. */
function useImports(): readonly ImportItem[] {
  const { imports } = useConsole()
  const [items, setItems] = useState(imports.items())
  // Before anything can change: an effect would wait for the next frame.
  useLayoutEffect(() => imports.subscribe(() => setItems(imports.items())), [imports])
  return items
}

const START: ImportOptions = { format: 'auto', type: '', replace: false, allowShrink: false }

export function ImportView() {
  const { client, speech, imports } = useConsole()
  const { words } = speech
  const [options, setOptions] = useState(START)
  const [problem, setProblem] = useState<string | null>(null)
  const [replacing, setReplacing] = useState<File | null>(null)
  const items = useImports()
  const start = (files: readonly File[]): void =>
    imports.add(files, (index, on) => {
      const file = files[index] ?? new File([], '')
      const sentences = { broken: () => words.connectionLost }
      return sendFile(client, importPath(file.name, options), file, on, sentences)
    })
  const choose = (files: readonly File[]): void => {
    setProblem(options.replace && files.length > 1 ? words.replaceOne : null)
    const [first] = files
    if (first === undefined) return
    if (!options.replace) start(files)
    else if (files.length === 1) setReplacing(first)
  }
  return (
    <>
      <section class="card" aria-label={words.import}>
        <Options options={options} onChange={setOptions} />
        <Drop onFiles={choose} />
        {problem && <Alert>{problem}</Alert>}
      </section>
      {items.length > 0 && (
        <section class="card" aria-label={words.imports}>
          <h2>
            {words.imports}
            <button type="button" class="quiet" onClick={imports.clear}>
              {words.clearDone}
            </button>
          </h2>
          <ul class="imports">
            {items.toReversed().map(item => (
              <ImportRow key={item.id} item={item} onCancel={() => imports.cancel(item.id)} />
            ))}
          </ul>
        </section>
      )}
      {replacing !== null && (
        <FormDialog
          title={words.replaceTitle}
          hint={fill(words.replaceHint, { file: replacing.name })}
          action={words.replaceAction}
          isDangerous
          onSubmit={async () => {
            start([replacing])
            setReplacing(null)
          }}
          onClose={() => setReplacing(null)}
        />
      )}
    </>
  )
}
