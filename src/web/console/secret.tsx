/** A secret that was just made: it is shown once, with a message for its customer. */
import { useState } from 'preact/hooks'
import { remember, remembered } from '../parts/browser.ts'
import { TextField } from '../parts/form.tsx'
import { Copyable, Dialog } from './dialog.tsx'
import { customerMessage, type GivenKey } from './key-message.ts'

/** A new secret, with a hint on the old one. */
export type Secret = GivenKey & { hint?: string }

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
    {secret.hint && <p class="soft">{secret.hint}</p>}
    <Message given={secret} />
    <div class="actions">
      <button type="button" class="plain" onClick={onClose}>
        Done
      </button>
    </div>
  </Dialog>
)
