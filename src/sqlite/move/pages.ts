/** Owns the size of the pages in which rows are moved. */

/** Rows of a page. */
export const PAGE_ROWS = 2_000

/** Rows in pages; none is empty. */
export function* pagesOf<R>(rows: Iterable<R>): Generator<R[]> {
  let page: R[] = []
  for (const row of rows) {
    if (page.push(row) < PAGE_ROWS) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}
