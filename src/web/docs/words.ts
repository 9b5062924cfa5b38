/** What the reference page says besides the document that it shows, in both languages. */
import { BAR_WORDS } from '../parts/bar.ts'
import { type Lang, type Sentences, sentencesIn } from '../parts/speech.ts'

const WORDS = {
  ...BAR_WORDS,
  skip: 'To the content | К содержанию',
  contents: 'Contents | Содержание',
  tryIt: 'Try this | Попробовать',
  start: 'Start here | С чего начать',
  startText:
    'Put your key into the environment once; `demo` is for trying. The programs on this page read it from there. | Один раз положите ключ в окружение; `demo` — для пробы. Программы на этой странице берут его оттуда.',
  startBuild:
    'The page `/` composes a query by clicking, tries it, and writes the program for it. | Страница `/` составляет запрос по щелчкам, пробует его и пишет для него программу.',
  keys: 'Keys | Ключи',
  keysHeader:
    'Send the key in a header. It also works as `?key=KEY`, for old clients, but a URL ends up in the logs of proxies and servers, in browser histories and in chats. `/key` refuses it there. | Передавайте ключ в заголовке. Для старых клиентов работает и `?key=KEY`, но URL попадает в журналы прокси и серверов, в историю браузера и в переписку. `/key` такой ключ не принимает.',
  keysRules: 'To keep a key secret | Чтобы ключ остался секретом',
  keysRule1:
    'Keep it in an environment variable or in a file that only you can read, not in the program. | Держите его в переменной окружения или в файле, который читаете только вы, а не в программе.',
  keysRule2:
    'Do not put it into a web page or an app: everybody who has that has the key. | Не вставляйте его в веб-страницу или приложение: у всех, у кого они есть, будет и ключ.',
  keysRule3:
    'If it was seen by others, ask the operator for a new one: the old one can stay valid for a while. | Если его увидели чужие, попросите у оператора новый: старый может какое-то время действовать.',
  kindRegular: 'Your own key, with the limits of its plan. | Ваш ключ с пределами его тарифа.',
  kindTemp:
    'A temporary key: it expires, and its few requests are counted by key and by client address. | Временный ключ: у него есть срок, а его немногие запросы считаются и по ключу, и по адресу клиента.',
  kindDemo:
    'For trying an integration: masked addresses, `works=90` where `works` is not given, few requests for each client address. | Для проверки интеграции: адреса замаскированы, `works=90`, если `works` не задан, мало запросов на адрес клиента.',
  parametersAll: 'Filters and output | Фильтры и вывод',
  parametersOf: 'Only for | Только для',
  byDefault: 'default | по умолчанию',
  listOf: 'list | список',
  integer: 'integer | целое число',
  orMore: 'or more | и больше',
  oneOf: 'one of | одно из',
  text: 'text | текст',
  form_address: 'an IPv4 address with a port | адрес IPv4 с портом',
  form_country: 'two letters each | по две буквы',
  form_city: 'names, up to 100 characters each | названия, до 100 знаков каждое',
  forms: 'Forms of the answer | Виды ответа',
  record: 'Record | Запись',
  envelope: 'Envelope | Конверт',
  errors: 'Errors | Ошибки',
  errorBody: 'Body of an error | Тело ошибки',
  limits: 'Limits | Пределы',
  limitsText:
    'A limit of N requests in S seconds holds for every interval of S seconds, not only for aligned ones. Days are UTC days. A request that a limit refuses does not count; one that the service fails to answer (500, 503) is given back. | Предел N запросов за S секунд верен для любого отрезка в S секунд, а не только для ровных. Сутки — по UTC. Запрос, отклонённый из-за предела, не засчитывается; тот, на который сервис не смог ответить (500, 503), возвращается.',
  limitsHeaders:
    'Every answer to a known key says what is left in two header fields: | Каждый ответ на известный ключ говорит, что осталось, в двух полях заголовка:',
  limitsWait:
    'Every 429 says when the same request is admitted: `retry_after` in the body and the header `Retry-After`, in whole seconds. Wait that long; asking earlier changes nothing. | Каждый 429 говорит, когда тот же запрос будет принят: `retry_after` в теле и заголовок `Retry-After`, в целых секундах. Подождите столько; спрашивать раньше бесполезно.',
  headers: 'Header fields | Поля заголовка',
  clients: 'Programs and libraries | Программы и библиотеки',
  clientsText:
    'This page is made from an OpenAPI 3.1 document, which generators of clients read. It declares the header for the key only, so that what they write keeps keys out of URLs. | Эта страница сделана из документа OpenAPI 3.1, который читают генераторы клиентов. В нём объявлен только заголовок для ключа, так что их код не пишет ключи в URL.',
} as const satisfies Sentences

export type Words = ReturnType<typeof wordsOf>

export const wordsOf = (lang: Lang) => sentencesIn(lang, WORDS)
