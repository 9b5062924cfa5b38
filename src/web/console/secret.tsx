/** A secret that was just made: it is shown once, with a message for its customer. */
import { useState } from 'preact/hooks'
import { remember, remembered } from '../parts/browser.ts'
import { TextField } from '../parts/form.tsx'
import { RequestError } from './client.ts'
import { Alert, Copyable, Dialog } from './dialog.tsx'
import { customerMessage, type GivenKey } from './key-message.ts'

/** A new secret: of a key that is stored, or of one of which nobody knows that, and why. */
export type Secret = (GivenKey & { hint?: string }) | { key: string; problem: string }

/** The secret that a request makes, also where nobody knows whether it was stored. */
export async function secretOf<T>(made: Promise<T>, of: (made: T) => Secret): Promise<Secret> {
  try {
    return of(await made)
  } catch (error) {
    if (!(error instanceof RequestError) || error.secret === null) throw error
    return { key: error.secret, problem: error.message }
  }
}

/** What is sent to the customer, with the address that this browser remembers. */
function Message({ given }: { given: GivenKey }) {
  const [address, setAddress] = useState(remembered('service') ?? '')
  const change = (value: string): void => {
    setAddress(value)
    remember('service', value)
  }
  const label = 'Message for the customer'
  return (
    <>
      <h3>{label}</h3>
      <div class="fields">
        <TextField
          label="Address of the service"
          name="address"
          value={address}
          onChange={change}
          hint="as customers reach it, such as https://proxies.example.com; this browser remembers it"
        />
        <Copyable
          label={label}
          value={customerMessage(given, address)}
          action="Copy the message"
          isLong
        />
      </div>
    </>
  )
}

/** The dialog after a key was made: closed by its button alone, since the key is not shown again. */
export const SecretDialog = ({ secret, onClose }: { secret: Secret; onClose(): void }) => (
  <Dialog title="The key">
    <p class="soft">Copy it now: only a checksum is stored, so it cannot be shown again.</p>
    <Copyable label="The key" value={secret.key} action="Copy" />
    {'problem' in secret ? (
      <Alert>{secret.problem}</Alert>
    ) : (
      <>
        {secret.hint && <p class="soft">{secret.hint}</p>}
        <Message given={secret} />
      </>
    )}
    <div class="actions">
      <button type="button" class="plain" onClick={onClose}>
        Done
      </button>
    </div>
  </Dialog>
)
