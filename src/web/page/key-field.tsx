/**
 * Owns the field of a key. It is in no form that a password manager would remember, and what is
 * typed stays in the memory of the tab.
 */
import { isSendable } from './model/answer.ts'
import type { Say } from './words/say.ts'

/** The key that everybody may use. */
export const DEMO = 'demo'

type KeyFieldProps = {
  value: string
  set: (key: string) => void
  /** The id of what explains it. */
  describedBy: string
  say: Say
}

export function KeyField({ value, set, describedBy, say }: KeyFieldProps) {
  const isWrong = !isSendable(value.trim())
  return (
    <label class="field">
      <span>{say.words.keyField}</span>
      <input
        class={value === DEMO ? 'input mono' : 'input mono secret'}
        name="key"
        value={value}
        onInput={event => set(event.currentTarget.value)}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        maxLength={200}
        data-1p-ignore
        data-lpignore="true"
        data-bwignore
        data-form-type="other"
        aria-describedby={describedBy}
        aria-invalid={isWrong || undefined}
      />
      {isWrong && <span class="wrong">{say.words.keyInvalid}</span>}
    </label>
  )
}
