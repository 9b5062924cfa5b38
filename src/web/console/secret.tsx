/** Owns showing a secret once, with a button that copies it. */
import { useRef, useState } from 'preact/hooks'
import { useConsole } from './context.ts'
import { Dialog } from './dialog.tsx'

type Copied = 'no' | 'yes' | 'by hand'

/** A text that can be copied; selected where the browser gives no access to the clipboard. */
export function Copyable({ text, label }: { text: string; label: string }) {
  const { words } = useConsole().speech
  const [copied, setCopied] = useState<Copied>('no')
  const input = useRef<HTMLInputElement>(null)
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      setCopied('yes')
    } catch {
      input.current?.select() // plain http on another host than localhost has no clipboard
      setCopied('by hand')
    }
  }
  const says = { no: words.copy, yes: words.copied, 'by hand': words.copyByHand }
  return (
    <div class="copyable">
      <input
        ref={input}
        readOnly
        value={text}
        aria-label={label}
        onFocus={event => event.currentTarget.select()}
      />
      <button type="button" class="primary" onClick={copy}>
        {says[copied]}
      </button>
      <span class="hidden" role="status">
        {copied === 'no' ? '' : says[copied]}
      </span>
    </div>
  )
}

type Props = { secret: string; hint?: string; onClose(): void }

/** The dialog after a key was made: closed by its button alone, since the key is not shown again. */
export function SecretDialog({ secret, hint, onClose }: Props) {
  const { words } = useConsole().speech
  return (
    <Dialog title={words.madeTitle} onClose={onClose} isLasting>
      <p class="soft">{words.madeHint}</p>
      <Copyable text={secret} label={words.madeTitle} />
      {hint && <p class="soft">{hint}</p>}
      <div class="actions">
        <button type="button" class="plain" onClick={onClose}>
          {words.done}
        </button>
      </div>
    </Dialog>
  )
}
