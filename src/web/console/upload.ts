/** The import that this tab runs. */
import { useRef, useState } from 'preact/hooks'
import type { ImportLine } from '../../admin/api-types.ts'
import { type Client, messageOf } from './client.ts'

/** An import of this tab; `line` is the last line that the server sent, `null` during the upload. */
export type Import = { file: File; line: ImportLine | null }

const isRunning = ({ line }: Import): boolean => line === null || line.kind === 'progress'

export type Upload = ReturnType<typeof useUpload>

/** The last import of this tab. It continues while another view is shown. */
export function useUpload(client: Client) {
  const [current, setCurrent] = useState<Import | null>(null)
  const controller = useRef<AbortController | null>(null)
  const isBusy = current !== null && isRunning(current)

  async function start(file: File, options: URLSearchParams): Promise<void> {
    controller.current = new AbortController()
    const { signal } = controller.current
    let line: ImportLine | null = null
    setCurrent({ file, line })
    try {
      for await (line of client.upload<ImportLine>(`/console/import?${options}`, file, signal)) {
        setCurrent({ file, line })
      }
      if (line === null || line.kind === 'progress') throw new Error('The connection was lost.')
    } catch (error) {
      const message = signal.aborted ? 'cancelled; nothing was imported' : messageOf(error)
      setCurrent({ file, line: { kind: 'failed', message } })
    }
  }
  return { current, isBusy, start, cancel: () => controller.current?.abort() }
}
