/** What every view has at hand: the client, the imports of this tab, and which keys are looked at. */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Client } from './client.ts'
import type { ImportQueue } from './import-queue.ts'
import type { KeyFilter } from './key-filter.ts'

type Surroundings = {
  client: Client
  imports: ImportQueue
  /** Where the page is, `''` where nobody can tell. */
  pageUrl: string
  /** Kept here, so that the list of keys is as it was after a look at one of them. */
  keyFilter: KeyFilter
  setKeyFilter(filter: KeyFilter): void
}

export const Context = createContext<Surroundings | null>(null)

/** @throws when it is not called below the provider, which is a mistake of the program */
export function useConsole(): Surroundings {
  const found = useContext(Context)
  if (found === null) throw new Error('there is no console around this view')
  return found
}
