/** Owns the form that makes and changes a plan, in the forms of the command line. */
import { useState } from 'preact/hooks'
import type { Plan } from '../../admin/wire.ts'
import { TextField } from '../parts/form.tsx'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import { FormDialog } from './dialog.tsx'
import { changesOf, fieldsOf, limitsOf, STANDARD } from './plan-fields.ts'

type Props = {
  /** `null`: a new one. */
  plan: Plan | null
  onSave(name: string, limits: { [limit: string]: string }): Promise<void>
  onClose(): void
}

export function PlanDialog({ plan, onSave, onClose }: Props) {
  const { words } = useConsole().speech
  const [name, setName] = useState(plan?.name ?? '')
  const before = plan === null ? null : fieldsOf(plan)
  const [fields, setFields] = useState(before ?? STANDARD)
  const limits = limitsOf(name)
  return (
    <FormDialog
      title={plan === null ? words.newPlan : fill(words.editPlan, { name })}
      hint={words.limitForm}
      action={plan === null ? words.makePlan : words.save}
      onSubmit={() => onSave(name.trim(), changesOf(before, fields, limits))}
      onClose={onClose}
    >
      {plan === null && (
        <TextField label={words.name} name="name" value={name} onChange={setName} />
      )}
      <div class="pairs">
        {limits.map(limit => (
          <TextField
            key={limit}
            label={words[limit]}
            name={limit}
            value={fields[limit]}
            hint={words[`${limit}Hint`]}
            onChange={value => setFields({ ...fields, [limit]: value })}
          />
        ))}
      </div>
    </FormDialog>
  )
}
