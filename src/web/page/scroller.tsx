/** Owns a part of the page that scrolls by itself, with a name and within reach of the keyboard. */
import type { ComponentChildren } from 'preact'

/** What scrolls has to take the focus, else a keyboard cannot scroll it (WCAG 2.1.1). */
const FOCUSABLE = { tabIndex: 0 }

type ScrollerProps = { name: string; children: ComponentChildren }

export const Scroller = ({ name, children }: ScrollerProps) => (
  <section class="scroller" aria-label={name} {...FOCUSABLE}>
    {children}
  </section>
)
