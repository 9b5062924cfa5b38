/** Owns the request as one would write it: its URL, and programs in tabs with a button that copies. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { remember, remembered } from '../parts/remember.ts'
import { CODES, type Code, type RequestParts, snippet, tokensOf } from './model/snippets.ts'
import { Scroller } from './scroller.tsx'
import type { Say } from './words/say.ts'

/** The URL in pieces: where, and each parameter. */
function Url({ parts, say }: { parts: RequestParts; say: Say }) {
  const { origin, query } = parts
  const pairs = query === '' ? [] : query.split('&').map(pair => pair.split('='))
  return (
    <p class="address">
      <b aria-hidden="true">GET</b>
      <span class="hidden">{say.words.requestUrl}</span>
      <code id="request-url">
        <span class="t-soft">{origin}</span>/api
        {pairs.map(([name, value], i) => (
          <span key={name}>
            <span class="t-soft">{i === 0 ? '?' : '&'}</span>
            <span class="t-name">{name}</span>
            <span class="t-soft">=</span>
            <span class="t-string">{value}</span>
          </span>
        ))}
      </code>
    </p>
  )
}

const TAB_STEPS: { readonly [key: string]: (at: number) => number } = {
  ArrowRight: at => (at + 1) % CODES.length,
  ArrowLeft: at => (at + CODES.length - 1) % CODES.length,
  Home: () => 0,
  End: () => CODES.length - 1,
}

type TabsProps = { code: Code; choose: (code: Code) => void; say: Say }

function Tabs({ code, choose, say }: TabsProps) {
  const list = useRef<HTMLDivElement>(null)
  const step = (event: KeyboardEvent): void => {
    const next = CODES[TAB_STEPS[event.key]?.(CODES.indexOf(code)) ?? -1]
    if (next === undefined) return
    event.preventDefault()
    choose(next)
    list.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label={say.words.code} ref={list} onKeyDown={step}>
      {CODES.map(name => (
        <button
          type="button"
          role="tab"
          key={name}
          id={`tab-${name}`}
          aria-controls="code"
          aria-selected={name === code}
          tabIndex={name === code ? 0 : -1}
          onClick={() => choose(name)}
        >
          {name}
        </button>
      ))}
    </div>
  )
}

/** Copies text, also where the page is not served over HTTPS and so has no clipboard of its own. */
async function copyText(text: string, from: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    if (from === null) return false
    getSelection()?.selectAllChildren(from)
    const isCopied = document.execCommand('copy')
    if (isCopied) getSelection()?.removeAllRanges()
    return isCopied
  }
}

const COPIED_MS = 1800

function Copy({ text, from, say }: { text: string; from: () => HTMLElement | null; say: Say }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return
    const timer = setTimeout(() => setCopied(false), COPIED_MS)
    return () => clearTimeout(timer)
  }, [isCopied])
  return (
    <button
      type="button"
      class="copy"
      onClick={async () => setCopied(await copyText(text, from()))}
    >
      {isCopied ? say.words.copied : say.words.copy}
    </button>
  )
}

export function RequestCode({ parts, say }: { parts: RequestParts; say: Say }) {
  const [code, setCode] = useState<Code>(() => CODES.find(c => c === remembered('code')) ?? 'curl')
  const pre = useRef<HTMLPreElement>(null)
  const program = snippet(code, parts)
  const choose = (next: Code): void => {
    setCode(next)
    remember('code', next)
  }
  return (
    <div class="code">
      <Url parts={parts} say={say} />
      <div class="code-head">
        <Tabs code={code} choose={choose} say={say} />
        <Copy key={program} text={program} from={() => pre.current} say={say} />
      </div>
      <div id="code" role="tabpanel" aria-labelledby={`tab-${code}`}>
        <Scroller name={code}>
          <pre ref={pre}>
            {tokensOf(program).map(({ kind, text }, i) =>
              kind === 'text' ? (
                text
              ) : (
                <span key={`${i} ${text}`} class={`t-${kind}`}>
                  {text}
                </span>
              ),
            )}
          </pre>
        </Scroller>
      </div>
    </div>
  )
}
