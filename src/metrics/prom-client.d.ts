/** The part of prom-client that the program holds: see `text.ts`. */
declare module 'prom-client/lib/registry.js' {
  import { Registry } from 'prom-client'

  export default Registry
}
