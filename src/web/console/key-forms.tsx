/** Owns the forms that make and change a key. The server says what is wrong with a field. */
import { useState } from 'preact/hooks'
import type { KeyReport, MadeKey, Plan } from '../../admin/wire.ts'
import { SelectField, TextField } from '../parts/form.tsx'
import { useConsole } from './context.ts'
import { FormDialog } from './dialog.tsx'

type FieldProps = { value: string; onChange(value: string): void }

/** The plan of a regular key. */
function PlanField({ plans, value, onChange }: FieldProps & { plans: readonly Plan[] }) {
  const { words } = useConsole().speech
  const options = plans
    .filter(({ name }) => name !== 'demo' && name !== 'temp')
    .map(({ name }) => [name, name] as const)
  const field = { value, onChange, options }
  return <SelectField label={words.plan} name="plan" {...field} />
}

/** The end of a key, in the forms of the command line. */
function ExpiresField(field: FieldProps) {
  const { words } = useConsole().speech
  return <TextField label={words.expires} name="expires" hint={words.expiresHint} {...field} />
}

type NewKeyProps = {
  plans: readonly Plan[]
  onClose(): void
  onMade(made: MadeKey): void
}

export function NewKeyDialog({ plans, onClose, onMade }: NewKeyProps) {
  const { client, speech } = useConsole()
  const { words } = speech
  const [kind, setKind] = useState<'regular' | 'temp'>('regular')
  const [label, setLabel] = useState('')
  const [plan, setPlan] = useState('standard')
  const [expires, setExpires] = useState('')
  const [ttl, setTtl] = useState('24h')
  const submit = async (): Promise<void> => {
    const end = expires.trim()
    const rest =
      kind === 'temp' ? { ttl: ttl.trim() } : { plan, ...(end === '' ? {} : { expires: end }) }
    onMade(await client.send<MadeKey>('POST', '/console/keys', { kind, label, ...rest }))
  }
  return (
    <FormDialog title={words.newKey} action={words.makeKey} onSubmit={submit} onClose={onClose}>
      <TextField label={words.label} name="label" value={label} onChange={setLabel} />
      <fieldset class="field">
        <legend>{words.kind}</legend>
        <span class="switch">
          {(['regular', 'temp'] as const).map(each => (
            <label key={each}>
              <input
                type="radio"
                name="kind"
                value={each}
                checked={kind === each}
                onChange={() => setKind(each)}
              />
              {each === 'temp' ? words.temporaryKind : words.regular}
            </label>
          ))}
        </span>
        <small>{kind === 'temp' ? words.temporaryHint : words.regularHint}</small>
      </fieldset>
      {kind === 'temp' ? (
        <TextField
          label={words.ttl}
          name="ttl"
          value={ttl}
          onChange={setTtl}
          hint={words.ttlHint}
        />
      ) : (
        <>
          <PlanField plans={plans} value={plan} onChange={setPlan} />
          <ExpiresField value={expires} onChange={setExpires} />
        </>
      )}
    </FormDialog>
  )
}

type ChangeProps = {
  report: KeyReport
  plans: readonly Plan[]
  onClose(): void
  onChanged(): Promise<void>
}

export function ChangeKeyDialog({ report, plans, onClose, onChanged }: ChangeProps) {
  const { client, speech } = useConsole()
  const { words } = speech
  const isTemporary = report.plan === 'temp'
  const [label, setLabel] = useState(report.label)
  const [plan, setPlan] = useState(report.plan)
  const [expires, setExpires] = useState(report.expires ?? '')
  const submit = async (): Promise<void> => {
    const end = expires.trim()
    const changes = {
      ...(label === report.label ? {} : { label }),
      ...(plan === report.plan ? {} : { plan }),
      ...(end === (report.expires ?? '') ? {} : { expires: end === '' ? null : end }),
    }
    if (Object.keys(changes).length === 0) return onClose()
    await client.send('POST', `/console/keys/${report.id}`, changes)
    await onChanged()
  }
  return (
    <FormDialog title={words.changeKey} action={words.save} onSubmit={submit} onClose={onClose}>
      <TextField label={words.label} name="label" value={label} onChange={setLabel} />
      {!isTemporary && <PlanField plans={plans} value={plan} onChange={setPlan} />}
      <ExpiresField value={expires} onChange={setExpires} />
    </FormDialog>
  )
}

const OVERLAPS = ['0s', '1h', '24h', '7d'] as const

type RotateProps = { id: string; onClose(): void; onMade(made: MadeKey): void }

export function RotateDialog({ id, onClose, onMade }: RotateProps) {
  const { client, speech } = useConsole()
  const { words, unit } = speech
  const [overlap, setOverlap] = useState<string>('24h')
  const names: { [overlap: string]: string } = {
    '0s': words.overlapNow,
    '1h': unit(1, 'hour'),
    '24h': unit(24, 'hour'),
    '7d': unit(7, 'day'),
  }
  const submit = async (): Promise<void> => {
    const path = `/console/keys/${id}/rotate`
    onMade(await client.send<MadeKey>('POST', path, { overlap }))
  }
  return (
    <FormDialog
      title={words.rotateTitle}
      hint={words.rotateHint}
      action={words.rotate}
      onSubmit={submit}
      onClose={onClose}
    >
      <SelectField
        label={words.overlap}
        name="overlap"
        value={overlap}
        onChange={setOverlap}
        options={OVERLAPS.map(each => [each, names[each] ?? each])}
      />
    </FormDialog>
  )
}
