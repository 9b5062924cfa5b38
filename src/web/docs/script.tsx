/**
 * The script of the reference, which works without it. Adds the language and the programming language that
 * were chosen on the page, the address of this server in the examples, and copy buttons.
 */
import { browserLang, remember, remembered } from '../parts/browser.ts'
import { copyText } from '../parts/copy.ts'
import { LANGS } from '../parts/format.ts'

const all = <E extends Element = HTMLElement>(selector: string): E[] => [
  ...document.querySelectorAll<E>(selector),
]
const { lang } = document.documentElement
const chosen = LANGS.find(each => each === remembered('lang'))

if (/[?&]lang=/.test(location.search)) {
  // A link to another language chooses it for the page, too.
  if (lang !== (chosen ?? browserLang())) remember('lang', lang)
} else if (chosen !== undefined && chosen !== lang) {
  location.replace(`/docs?lang=${chosen}${location.hash}`)
}
for (const link of all<HTMLAnchorElement>('.switch a')) {
  link.addEventListener('click', () => {
    remember('lang', link.hreflang)
    link.hash = location.hash
  })
}

const codes = all<HTMLInputElement>('.sample [type=radio]')
const chooseCode = (code: string): void => {
  for (const input of codes) input.checked = input.value === code
}
const code = remembered('code')
if (codes.some(({ value }) => value === code)) chooseCode(code ?? '')
for (const input of codes) {
  input.addEventListener('change', () => {
    chooseCode(input.value)
    remember('code', input.value)
  })
}

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
