/**
 * Owns the small errors that could be made in a source file: each replaces one piece of its text.
 * Knows nothing of whether a mutated file compiles, or a test fails.
 */
import {
  isArrayLiteralExpression,
  isBinaryExpression,
  isBlock,
  isCallExpression,
  isConditionalExpression,
  isForStatement,
  isIfStatement,
  isImportDeclaration,
  isInterfaceDeclaration,
  isNumericLiteral,
  isObjectLiteralExpression,
  isPostfixUnaryExpression,
  isPrefixUnaryExpression,
  isPropertyAccessExpression,
  isRegularExpressionLiteral,
  isTemplateExpression,
  isTypeAliasDeclaration,
  isTypeNode,
  isWhileStatement,
  type Node,
  type SourceFile,
  SyntaxKind,
} from 'typescript/unstable/ast'

/** `text` replaces a file's characters from `start` to `end`. */
export type Mutation = { start: number; end: number; text: string }

/** Operators that are easily confused. */
const OPERATORS: ReadonlyMap<string, readonly string[]> = new Map([
  ['<', ['<=', '>=']],
  ['<=', ['<', '>']],
  ['>', ['>=', '<=']],
  ['>=', ['>', '<']],
  ['===', ['!==']],
  ['!==', ['===']],
  ['&&', ['||']],
  ['||', ['&&']],
  ['+', ['-']],
  ['-', ['+']],
  ['*', ['/']],
  ['/', ['*']],
  ['%', ['*']],
  ['&', ['|']],
  ['|', ['&']],
  ['+=', ['-=']],
  ['-=', ['+=']],
  ['||=', ['&&=']],
  ['??=', ['=']],
])
/** Signs before or after an operand. */
const SIGNS: ReadonlyMap<string, readonly string[]> = new Map([
  ['++', ['--']],
  ['--', ['++']],
  ['!', ['']],
  ['-', ['']],
])

/** Methods that are easily confused. */
const METHODS = new Map(
  Object.entries({
    max: 'min',
    min: 'max',
    floor: 'ceil',
    ceil: 'floor',
    round: 'floor',
    some: 'every',
    every: 'some',
    startsWith: 'endsWith',
    toLowerCase: 'toUpperCase',
    toUpperCase: 'toLowerCase',
    push: 'unshift',
    pop: 'shift',
    shift: 'pop',
  }),
)
/** Methods whose call is easily forgotten; the subject of the call remains. */
const FORGOTTEN = new Set(
  ['filter', 'normalize', 'replace', 'replaceAll', 'reverse', 'slice', 'sort'].concat([
    'toLowerCase',
    'toSorted',
    'toUpperCase',
    'trim',
    'trimEnd',
    'trimStart',
  ]),
)

type Pieces = readonly (readonly [piece: RegExp, other: string])[]
const PATTERN_PIECES: Pieces = [
  [/(?<=^['`/])\^/g, ''],
  [/\$(?=['`/][a-z]*$)/g, ''],
  [/\[\^/g, '['],
  [/(?<![\\[(])\+/g, '*'],
  [/(?<![\\[(])\*/g, '+'],
  [/(?<=[)\]\w/])\?(?!\?)/g, ''],
  [/\{1,/g, '{2,'],
  [/(?<=\{\d+,)(\d+)\}/g, '$10}'],
  [/\{(\d+)\}/g, '{$1,}'],
  [/\\d/g, '\\D'],
  [/\\s/g, '\\S'],
  [/(?<=\/)[a-z]+$/g, ''],
]
const SQL_PIECES: Pieces = [
  [/\band\b/g, 'or'],
  [/\bor\b(?! ignore)/g, 'and'],
  [/\bor ignore /g, ''],
  [/ < /g, ' <= '],
  [/ > /g, ' >= '],
  [/ = /g, ' <> '],
  [/ is not /g, ' is '],
  [/\bnot in\b/g, 'in'],
  [/ \+ /g, ' - '],
  [/ desc\b/g, ''],
  [/\bmax\(/g, 'min('],
  [/\border by [\w, ]+/g, ''],
  [/ & ~/g, ' & '],
]

const SQL = /\b(?:select|insert into|update set|delete from|case when|excluded\.)/i
const isPattern = (text: string): boolean => /^['`/][[^]/.test(text)

/** Types and imports, which do not exist at run time. */
const isErased = (node: Node): boolean =>
  isTypeNode(node) ||
  isImportDeclaration(node) ||
  isInterfaceDeclaration(node) ||
  isTypeAliasDeclaration(node)

const REMOVABLE = new Set([
  SyntaxKind.ExpressionStatement,
  SyntaxKind.ThrowStatement,
  SyntaxKind.ReturnStatement,
  SyntaxKind.ContinueStatement,
  SyntaxKind.BreakStatement,
])

const FUNCTIONS = new Set([
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
])

/** Collects the mutations of a file. */
function createCollector(file: SourceFile) {
  const found: Mutation[] = []
  const startOf = (node: Node): number => node.getStart(file)
  const textOf = (node: Node): string => file.text.slice(startOf(node), node.end)
  return {
    found,
    textOf,
    /** A node replaced by each of the texts. */
    put(node: Node, ...texts: readonly string[]): void {
      for (const text of texts) found.push({ start: startOf(node), end: node.end, text })
    },
    /** Each piece of a node's text replaced. */
    putPieces(node: Node, pieces: Pieces): void {
      const [text, offset] = [textOf(node), startOf(node)]
      for (const [piece, other] of pieces) {
        for (const match of text.matchAll(piece)) {
          const start = offset + match.index
          const mutated = other.replace('$1', match[1] ?? '')
          found.push({ start, end: start + match[0].length, text: mutated })
        }
      }
    },
    /** A list without each of its items. */
    putWithout(items: readonly Node[]): void {
      for (const [i, item] of items.entries()) {
        const [before, after] = [items[i - 1], items[i + 1]]
        const start = after || !before ? startOf(item) : before.end
        found.push({ start, end: after ? startOf(after) : item.end, text: '' })
      }
    },
  }
}
type Collector = ReturnType<typeof createCollector>
type Rule = (node: Node, collector: Collector) => void

const operator: Rule = (node, { put, textOf }) => {
  if (isBinaryExpression(node)) {
    const { left, operatorToken, right } = node
    put(operatorToken, ...(OPERATORS.get(textOf(operatorToken)) ?? []))
    if (textOf(operatorToken) === '??') put(node, textOf(left), textOf(right))
  } else if (isPrefixUnaryExpression(node) || isPostfixUnaryExpression(node)) {
    const operand = textOf(node.operand)
    const sign = textOf(node).replace(operand, '')
    for (const other of SIGNS.get(sign) ?? []) {
      put(node, isPrefixUnaryExpression(node) ? other + operand : operand + other)
    }
  }
}

const call: Rule = (node, { put, textOf }) => {
  if (!isCallExpression(node) || !isPropertyAccessExpression(node.expression)) return
  const { expression: subject, name } = node.expression
  const other = METHODS.get(textOf(name))
  if (other !== undefined) put(name, other)
  if (FORGOTTEN.has(textOf(name))) put(node, textOf(subject))
}

const statement: Rule = (node, { put }) => {
  if (REMOVABLE.has(node.kind)) put(node, '{}')
  if (isBlock(node) && FUNCTIONS.has(node.parent.kind) && node.statements.length > 1) {
    put(node, '{}')
  }
}

const condition: Rule = (node, { put }) => {
  if (isIfStatement(node)) put(node.expression, 'true', 'false')
  if (isConditionalExpression(node)) put(node.condition, 'true', 'false')
  if (isWhileStatement(node)) put(node.expression, 'false')
  if (isForStatement(node) && node.condition) put(node.condition, 'false')
}

const literal: Rule = (node, { put, putPieces, putWithout, textOf }) => {
  if (node.kind === SyntaxKind.TrueKeyword) put(node, 'false')
  if (node.kind === SyntaxKind.FalseKeyword) put(node, 'true')
  if (isNumericLiteral(node)) {
    const value = Number(textOf(node).replaceAll('_', ''))
    put(node, String(value + 1), `(${value - 1})`)
  }
  if (isRegularExpressionLiteral(node)) putPieces(node, PATTERN_PIECES)
  if (isArrayLiteralExpression(node)) putWithout(node.elements)
  if (isObjectLiteralExpression(node)) putWithout(node.properties)
}

const STRINGS = new Set([SyntaxKind.StringLiteral, SyntaxKind.NoSubstitutionTemplateLiteral])

const string: Rule = (node, { put, putPieces, textOf }) => {
  if (!STRINGS.has(node.kind) && !isTemplateExpression(node)) return
  const text = textOf(node)
  const pieces = SQL.test(text) ? SQL_PIECES : isPattern(text) ? PATTERN_PIECES : null
  if (pieces === null) return put(node, text.length === 2 ? "'x'" : "''")
  const parts = isTemplateExpression(node)
    ? [node.head, ...node.templateSpans.map(span => span.literal)]
    : [node]
  for (const part of parts) putPieces(part, pieces)
}

const RULES = [operator, call, statement, condition, literal, string]

/** All mutations of a file, in order of their place. */
export function mutationsOf(file: SourceFile): Mutation[] {
  const collector = createCollector(file)
  function visit(node: Node): void {
    if (isErased(node)) return
    for (const rule of RULES) rule(node, collector)
    node.forEachChild(visit)
  }
  visit(file)
  return collector.found.sort((a, b) => a.start - b.start || a.end - b.end)
}
