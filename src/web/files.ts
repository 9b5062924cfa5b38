/** The files of the pages, as they were bundled. Loaded when a page is first asked for. */
import { bundle } from './bundle.ts' with { type: 'macro' }

export const PAGE = bundle('page/index.html')
export const DOCS = bundle('docs/index.html')
export const CONSOLE = bundle('console/index.html')
