/** Owns the page. */
import { render } from 'preact'

render(
  <main>
    <h1>proxylist</h1>
  </main>,
  document.body,
)
