/** Owns the plans as several views show them. */
import { useCallback } from 'preact/hooks'
import type { Plan } from '../../admin/wire.ts'
import { useConsole } from './context.ts'
import { useLive } from './live.ts'

const REFRESH_SECONDS = 30

/** The plans, to be shown or chosen from. */
export function usePlans() {
  const { client } = useConsole()
  const load = useCallback(
    (signal: AbortSignal) => client.get<{ plans: Plan[] }>('/console/plans', signal),
    [client],
  )
  return useLive(load, REFRESH_SECONDS)
}
