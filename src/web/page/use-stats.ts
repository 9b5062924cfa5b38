/** Owns what the page knows of the list over time: asked for once, then gently while it is visible. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { SERVICES } from './model/query.ts'
import { askServices, askStats, type Known, LOADING, POLL_MS } from './model/service.ts'

/** The statistics as they are now. */
export function useStats(): Known {
  const [known, setKnown] = useState(LOADING)
  const tag = useRef<string | null>(null)
  useEffect(() => {
    let isOver = false
    const load = async (): Promise<void> => {
      const found = await askStats(tag.current)
      if (isOver || found === null) return
      tag.current = found.tag
      // Statistics that were loaded once stay when a later request for them fails.
      setKnown(last => (found.now.kind === 'failed' && last.stats !== null ? last : found.now))
    }
    void load()
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void load()
    }, POLL_MS)
    return () => {
      isOver = true
      clearInterval(timer)
    }
  }, [])
  return known
}

/** The names of services: of the statistics, else of the document of the API, else as usual. */
export function useServices(known: Known): { names: readonly string[]; areKnown: boolean } {
  const counted = known.stats?.counted?.dimensions.services ?? null
  const [documented, setDocumented] = useState<readonly string[] | null>(null)
  const isMissing = counted === null && known.kind !== 'loading'
  useEffect(() => {
    if (!isMissing) return
    let isOver = false
    void askServices().then(names => {
      if (!isOver) setDocumented(names ?? SERVICES)
    })
    return () => {
      isOver = true
    }
  }, [isMissing])
  const names = counted ?? documented
  return { names: names ?? SERVICES, areKnown: names !== null }
}
