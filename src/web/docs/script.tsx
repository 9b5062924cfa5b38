/**
 * The script of the reference, which works without it. It adds the language and theme of the page, the address of
 * this service in examples, and copy buttons.
 */
import { browserLang, remember, remembered } from '../parts/browser.ts'
import { copyText } from '../parts/copy.ts'
import { LANGS } from '../parts/format.ts'

const all = <E extends Element = HTMLElement>(selector: string): E[] => [
  ...document.querySelectorAll<E>(selector),
]
const root = document.documentElement
const lang = LANGS.find(each => each === root.lang) ?? 'en'

const chosen = remembered('lang')
if (/[?&]lang=/.test(location.search)) {
  // The page uses this language too.
  if (lang !== (chosen ?? browserLang())) remember('lang', lang)
} else if (LANGS.some(each => each === chosen && each !== lang)) {
  location.replace(`/docs?lang=${chosen}${location.hash}`)
}
for (const link of all<HTMLAnchorElement>('.switch a')) {
  link.addEventListener('click', () => {
    remember('lang', link.hreflang)
    link.hash = location.hash
  })
}

/** Restores a choice among radio buttons, and remembers changes. Calls `show` now and after each change. */
function follow(name: 'theme' | 'code', inputs: HTMLInputElement[], show: (value: string) => void) {
  const choose = (value: string): void => {
    for (const input of inputs) input.checked = input.value === value
    show(value)
  }
  const before = remembered(name)
  choose(inputs.find(({ value }) => value === before)?.value ?? inputs[0]?.value ?? '')
  for (const input of inputs) {
    input.addEventListener('change', () => {
      const { top } = input.getBoundingClientRect()
      choose(input.value)
      remember(name, input.value)
      // Programs above it have changed their lengths.
      scrollBy(0, input.getBoundingClientRect().top - top)
    })
  }
}
follow('theme', all<HTMLInputElement>('#themes input'), theme => {
  root.dataset.theme = theme
})
for (const hidden of all('#themes')) hidden.hidden = false
follow('code', all<HTMLInputElement>('.codes input'), () => {})

for (const pre of all('.sample pre')) {
  const texts = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const text = texts.currentNode as Text
    text.data = text.data.replaceAll('https://proxies.example.com', location.origin)
  }
}

const { copy = '', copied = '' } = document.getElementById('main')?.dataset ?? {}
for (const sample of all('.sample:has(.command)')) {
  const button = document.createElement('button')
  Object.assign(button, { type: 'button', className: 'quiet copy', textContent: copy })
  button.addEventListener('click', async () => {
    const shown = [...sample.querySelectorAll<HTMLElement>('.command')].find(
      each => each.offsetParent !== null,
    )
    if (!(await copyText(shown?.textContent ?? '', shown ?? null))) return
    button.textContent = copied
    setTimeout(() => {
      button.textContent = copy
    }, 1800)
  })
  sample.querySelector('figcaption')?.append(button)
}
