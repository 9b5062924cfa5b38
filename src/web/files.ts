/** The bundled files of the pages. Loaded at the first request for a page. */
import { bundle } from './bundle.ts' with { type: 'macro' }

export const PAGE = bundle('page/index.html')
export const DOCS = bundle('docs/index.html')
export const CONSOLE = bundle('console/index.html')
