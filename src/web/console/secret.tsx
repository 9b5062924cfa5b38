/** The dialog that shows a new secret once, with a message for the customer. */
import { Copyable, Dialog } from './dialog.tsx'

/** A new secret, and until when the old one works. */
export type Secret = { key: string; hint?: string }

/** ADDRESS stays: the server does not know the name that customers use. */
const messageFor = (key: string): string =>
  [
    `Your key: ${key}`,
    `Try it: curl -H 'Authorization: Bearer ${key}' 'https://ADDRESS/api?count=10'`,
  ].join('\n')

/** Only its button closes it, because the key cannot be shown again. */
export const SecretDialog = ({ secret, onClose }: { secret: Secret; onClose(): void }) => (
  <Dialog title="The key">
    <p class="soft">Copy it now. The server stores only a hash and cannot show the key again.</p>
    <Copyable value={secret.key} action="Copy the key" />
    {secret.hint && <p class="soft">{secret.hint}</p>}
    <h3>Message for the customer</h3>
    <Copyable value={messageFor(secret.key)} action="Copy the message" />
    <div class="row actions">
      <button type="button" class="plain" onClick={onClose}>
        Done
      </button>
    </div>
  </Dialog>
)
