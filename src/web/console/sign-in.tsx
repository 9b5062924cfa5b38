/** Owns what is shown without a token that the server takes. */
import { useId, useState } from 'preact/hooks'
import { Alert } from './notice.tsx'
import { tokenIn } from './session.ts'
import type { Words } from './words.ts'

type Props = {
  words: Words
  /** The server's sentence about a token that it refused. */
  problem: string | null
  onToken(token: string): void
}

export function SignIn({ words, problem, onToken }: Props) {
  const [text, setText] = useState('')
  const id = useId()
  const submit = (event: Event): void => {
    event.preventDefault()
    const token = tokenIn(text)
    if (token !== '') onToken(token)
  }
  return (
    <main id="content" class="sign-in">
      <form class="card" onSubmit={submit}>
        <h1>{words.signInTitle}</h1>
        {problem && <Alert>{problem}</Alert>}
        <p class="soft">{words.signInHow}</p>
        <pre>proxylist console</pre>
        <div class="field">
          <label for={id}>{words.signInPaste}</label>
          <input
            id={id}
            class="input secret"
            name="token"
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={text}
            aria-describedby={`${id}-hint`}
            onInput={event => setText(event.currentTarget.value)}
          />
        </div>
        <button type="submit" class="primary">
          {words.signInOpen}
        </button>
        <small id={`${id}-hint`}>{words.signInHint}</small>
      </form>
    </main>
  )
}
