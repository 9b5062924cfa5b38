/** The sentences of the reference in English and Russian that the OpenAPI document does not have. */
import { type Lang, type Sentences, sentencesIn } from '../parts/format.ts'
import { BAR_WORDS } from '../parts/translations.ts'

const WORDS = {
  ...BAR_WORDS,
  skip: 'Skip to the content | К содержанию',
  contents: 'Contents | Содержание',
  tryIt: 'Try this | Попробовать',
  start: 'Start here | С чего начать',
  startText:
    'Set the environment variable `PROXYLIST_KEY` to your key, or to `demo` for a trial. The examples on this page read it. | Присвойте переменной окружения `PROXYLIST_KEY` свой ключ, а для пробы — `demo`. Её используют примеры на этой странице.',
  startBuild:
    'On the page `/` you choose filters, see matching proxies, and copy the request as code. | На странице `/` можно выбрать фильтры, увидеть подходящие прокси и скопировать запрос в виде кода.',
  keys: 'Keys | Ключи',
  keysHeader:
    'Send the key in a header. For old clients, `?key=KEY` works too, but URLs end up in logs, browser histories and chats. `/key` accepts the header only. | Передавайте ключ в заголовке. Для старых клиентов работает и `?key=KEY`, но URL попадает в журналы, историю браузера и переписку. `/key` принимает только заголовок.',
  keysRules: 'Keep your key secret | Храните ключ в секрете',
  keysRule1:
    'Keep it in an environment variable or in a file that only you can read, not in your code. | Держите его в переменной окружения или в файле, доступном только вам, а не в коде.',
  keysRule2:
    'Do not put it into a web page or an app: all users can read it there. | Не вставляйте его в веб-страницу или приложение: там его прочтёт любой пользователь.',
  keysRule3:
    'If it has leaked, ask the operator for a new one. The old one can stay valid for a while. | Если ключ утёк, попросите у оператора новый. Старый может ещё какое-то время действовать.',
  kindRegular: 'Your own key, with the limits of its plan. | Ваш ключ с лимитами его тарифа.',
  kindTemp:
    'A temporary key. It expires, and its few requests are counted per key and per client address. | Временный ключ. Он действует ограниченное время, а запросов у него мало: они считаются и по ключу, и по адресу клиента.',
  kindDemo:
    'For tests: masked addresses, `works=90` unless you set `works`, few requests for each client address. | Для проверки: адреса скрыты, `works=90`, если вы не задали `works`, мало запросов на адрес клиента.',
  parametersAll: 'Filters and output | Фильтры и вывод',
  parametersOf: 'Only for | Только для',
  schemes:
    '`type=https` are HTTP proxies that tunnel (CONNECT). Clients expect them as `http://`: `https://` means TLS to the proxy itself, and fails. `line={scheme}://{ip}:{port}` writes the right scheme; `type_prefix=1` does not. | `type=https` — это HTTP-прокси с туннелем (CONNECT). Программы ждут для них `http://`: `https://` означает TLS до самого прокси и даёт ошибку. Верную схему пишет `line={scheme}://{ip}:{port}`, а `type_prefix=1` — нет.',
  byDefault: 'default | по умолчанию',
  listOf: 'list | список',
  integer: 'integer | целое число',
  orMore: 'or more | и больше',
  oneOf: 'one of | одно из',
  text: 'text | текст',
  form_address: 'an IPv4 address with a port | адрес IPv4 с портом',
  form_country: 'two letters each | по две буквы',
  form_city: 'names, up to 100 characters each | названия, до 100 знаков каждое',
  forms: 'Formats | Форматы',
  record: 'Record | Запись',
  envelope: 'Envelope | Обёртка',
  errors: 'Errors | Ошибки',
  errorBody: 'Body of an error | Тело ошибки',
  limits: 'Limits | Лимиты',
  limitsText:
    'A limit of N requests in S seconds holds for every interval of S seconds. Days are UTC days. Refused requests and failed requests (5xx) don’t count. | Лимит N запросов за S секунд действует для любого отрезка в S секунд. Сутки — по UTC. Отклонённые запросы и ошибки сервера (5xx) не засчитываются.',
  limitsHeaders:
    'Every answer to a valid key has two header fields with the limits and what is left of them: | В каждом ответе на действующий ключ есть два поля заголовка с лимитами и остатком:',
  limitsWait:
    'Every 429 has `retry_after` in the body and the header `Retry-After`, in whole seconds. After that time, the same request is admitted. | В каждом ответе 429 есть `retry_after` в теле и заголовок `Retry-After`, в целых секундах. Через это время тот же запрос будет принят.',
  headers: 'Header fields | Поля заголовка',
  clients: 'Programs and libraries | Программы и библиотеки',
  clientsText:
    'This page is generated from an OpenAPI 3.1 document, which client generators can read. It declares the key as a header, so generated clients keep keys out of URLs. | Эта страница создана из документа OpenAPI 3.1, который читают генераторы клиентов. Ключ объявлен в нём как заголовок, поэтому созданные клиенты не пишут ключи в URL.',
} as const satisfies Sentences

export type Words = ReturnType<typeof wordsOf>

export const wordsOf = (lang: Lang) => sentencesIn(lang, WORDS)
