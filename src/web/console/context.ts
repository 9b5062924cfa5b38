/** What every view uses: the client, the import of this tab, and the filter of the list of keys. */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Client } from './client.ts'
import type { KeyFilter } from './key-filter.ts'
import type { Upload } from './upload.ts'

type ConsoleContext = {
  client: Client
  upload: Upload
  /** Kept here, so that the list of keys looks the same after a visit to one of them. */
  keyFilter: KeyFilter
  setKeyFilter(filter: KeyFilter): void
}

/** Every view is inside its provider. */
export const Context = createContext({} as ConsoleContext)
export const useConsole = (): ConsoleContext => useContext(Context)
