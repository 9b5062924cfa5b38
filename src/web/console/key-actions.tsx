/** Owns what can be done with one key. What cannot be undone is confirmed first. */
import { useState } from 'preact/hooks'
import type { KeyReport, MadeKey } from '../../admin/wire.ts'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import { FormDialog } from './dialog.tsx'
import { ChangeKeyDialog, RotateDialog } from './key-forms.tsx'
import { SecretDialog } from './secret.tsx'
import { usePlans } from './use-plans.ts'

const ACTIONS = ['change', 'rotate', 'reset', 'revoke', 'remove'] as const
type Action = (typeof ACTIONS)[number]

/** A key that has ended cannot be used again; only one that was revoked can be removed. */
function actionsOf({ state }: KeyReport): readonly Action[] {
  if (state === 'revoked') return ['remove']
  return ACTIONS.filter(action => action !== 'remove')
}

type Props = {
  report: KeyReport
  onChanged(): Promise<void>
  onRemoved(): void
}

/** The actions that are confirmed and need nothing else. */
const CONFIRMED = {
  reset: { title: 'resetTitle', hint: 'resetHint', method: 'POST', path: '/reset' },
  revoke: { title: 'revokeTitle', hint: 'revokeHint', method: 'POST', path: '/revoke' },
  remove: { title: 'removeTitle', hint: 'removeHint', method: 'DELETE', path: '' },
} as const

export function KeyActions({ report, onChanged, onRemoved }: Props) {
  const { client, speech } = useConsole()
  const { words, moment } = speech
  const plans = usePlans()
  const [open, setOpen] = useState<Action | null>(null)
  const [made, setMade] = useState<MadeKey | null>(null)
  const close = (): void => setOpen(null)
  /** Closes the dialog that was sent; another one may have been opened meanwhile. */
  const closeSent = (): void => setOpen(now => (now === open ? null : now))
  const changed = async (): Promise<void> => {
    await onChanged()
    closeSent()
  }
  const confirm = async (action: keyof typeof CONFIRMED): Promise<void> => {
    const { method, path } = CONFIRMED[action]
    await client.send(method, `/console/keys/${report.id}${path}`)
    if (action === 'remove') onRemoved()
    else await changed()
  }
  const until = made?.overlap_until ?? null
  return (
    <div class="key-actions">
      {actionsOf(report).map(action => (
        <button
          type="button"
          key={action}
          class={action === 'revoke' || action === 'remove' ? 'danger' : 'plain'}
          onClick={() => setOpen(action)}
        >
          {words[action]}
        </button>
      ))}
      {open === 'change' && (
        <ChangeKeyDialog
          {...{ report, plans: plans.value?.plans ?? [], onClose: close, onChanged: changed }}
        />
      )}
      {open === 'rotate' && (
        <RotateDialog
          id={report.id}
          onClose={close}
          onMade={rotated => {
            setMade(rotated)
            closeSent()
            void onChanged()
          }}
        />
      )}
      {(open === 'reset' || open === 'revoke' || open === 'remove') && (
        <FormDialog
          title={words[CONFIRMED[open].title]}
          hint={words[CONFIRMED[open].hint]}
          action={words[open]}
          isDangerous={open !== 'reset'}
          onSubmit={() => confirm(open)}
          onClose={close}
        />
      )}
      {made !== null && (
        <SecretDialog
          secret={made.key}
          hint={until === null ? words.oldEnded : fill(words.oldUntil, { time: moment(until) })}
          onClose={() => setMade(null)}
        />
      )}
    </div>
  )
}
