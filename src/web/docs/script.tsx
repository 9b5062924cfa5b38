/**
 * What a browser adds to the reference, which is whole without: language and theme as on the page, the address
 * of this service in examples, copying, where one is, searching, and the limits of the visitor's key.
 */
import { browserLang, remember, remembered } from '../parts/browser.ts'
import { copyText } from '../parts/copy.ts'
import { KEY_WORDS, type LimitLeft } from '../parts/key-report.ts'
import { createSpeech, fill, LANGS, sentencesIn } from '../parts/speech.ts'
import { handKeyOver, takeKey } from '../parts/tab.tsx'

const all = <E extends Element = HTMLElement>(selector: string): E[] => [
  ...document.querySelectorAll<E>(selector),
]
const root = document.documentElement
const lang = LANGS.find(each => each === root.lang) ?? 'en'

const chosen = remembered('lang')
if (/[?&]lang=/.test(location.search)) {
  // It holds on the page, too.
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

/** Radio buttons as what is remembered says; `show` is called with it now and after each change. */
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
      // Programs above have other lengths now.
      scrollBy(0, input.getBoundingClientRect().top - top)
    })
  }
}
follow('theme', all<HTMLInputElement>('#themes input'), theme => {
  root.dataset.theme = theme
})
for (const hidden of all('#themes, [type=search]')) hidden.hidden = false
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

// Where one is: the last place that begins above this height, below which links bring what they lead to.
const EDGE = 100
const contents = document.querySelector<HTMLElement>('.contents')
const places = all<HTMLAnchorElement>('.contents a').map(link => ({
  ...{ link, place: document.getElementById(decodeURIComponent(link.hash.slice(1))) },
}))
function locate(): void {
  const at = places.findLast(({ place }) => (place?.getBoundingClientRect().top ?? EDGE) < EDGE)
  for (const { link } of places) {
    if (link === at?.link) link.setAttribute('aria-current', 'true')
    else link.removeAttribute('aria-current')
  }
  if (at === undefined || contents === null) return
  const { offsetTop } = at.link
  const { scrollTop, clientHeight } = contents
  const isSeen = offsetTop > scrollTop && offsetTop < scrollTop + clientHeight - 40
  if (!isSeen) contents.scrollTop = offsetTop - clientHeight / 2
}
addEventListener('scroll', locate, { passive: true })
locate()

const search = document.querySelector<HTMLInputElement>('.contents [type=search]')
// Who has no mouse has no key to press.
if (search && matchMedia('(hover: none)').matches)
  search.placeholder = search.placeholder.replace(/:.*/, '')
/** What is said at a place, its name first, without its programs. */
const saidAt = ({ link, place }: (typeof places)[number]): string =>
  [link, ...(place?.querySelectorAll('p, li, dt') ?? [])]
    .map(({ textContent }) => textContent.toLowerCase())
    .join(' ')
let found: typeof places = []
function find(): void {
  const words = search?.value.toLowerCase().split(/\s+/).filter(Boolean) ?? []
  contents?.toggleAttribute('data-searched', words.length > 0)
  const firstIn = (place: (typeof places)[number]): number => saidAt(place).indexOf(words[0] ?? '')
  found = places
    .filter(place => words.every(word => saidAt(place).includes(word)))
    .sort((a, b) => firstIn(a) - firstIn(b)) // so what has this name comes first
  for (const place of places) {
    if (place.link.parentElement) place.link.parentElement.hidden = !found.includes(place)
  }
  // A section stays above what was found in it.
  for (const item of all('.contents > ul > li:has(li:not([hidden]))')) item.hidden = false
}
search?.addEventListener('input', find)
document.addEventListener('keydown', event => {
  if (search === null) return
  const isTyping = (event.target as Element).matches('input:not([type=radio])')
  if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault()
    search.select()
  }
  if (event.target !== search) return
  if (event.key === 'Escape') {
    search.value = ''
    find()
  }
  if (event.key === 'Enter') found[0]?.link.click()
})

/** The plan of the key that the page handed over, and its limits; nothing where there is none. */
async function showKey(key: string): Promise<void> {
  const answer = await fetch('/key', { headers: { authorization: `Bearer ${key}` } })
  const shown = document.getElementById('your-key')
  if (!answer.ok || shown === null) return
  const { id, label, plan, limits } = await answer.json()
  const words: { readonly [name: string]: string } = sentencesIn(lang, KEY_WORDS)
  const { number, span } = createSpeech(lang)
  const lines = limits.map(({ name, quota, left, window }: LimitLeft) => {
    const says = fill(words.left ?? '', { left: number(left), quota: number(quota) })
    return `${words[`limit_${name}`] ?? name}${window ? ` (${span(window)})` : ''}: ${says}`
  })
  const make = (tag: string, textContent: string): HTMLElement =>
    Object.assign(document.createElement(tag), { textContent })
  const list = make('ul', '')
  list.className = 'list'
  list.append(
    ...(lines.length > 0 ? lines : [words.noLimits]).map((line: string) => make('li', line)),
  )
  shown.append(make('p', [label || id, plan].filter(Boolean).join(' · ')), list)
  shown.hidden = false
}
const key = takeKey()
handKeyOver('a[href^="/"]', () => key)
if (key !== '') void showKey(key).catch(() => {})
