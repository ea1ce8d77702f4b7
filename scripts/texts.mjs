/**
 * `npm run texts`: writes every text that a user of the pages can see to docs/screens/texts.md, sorted, for review. A test
 * fails while that file differs from the sources.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseSync } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
export const textsFile = 'docs/screens/texts.md';

const sources = ['web/{api,chat,console,demo,gateway,ui}/**/*.{ts,tsx}', 'src/planes/pages/sign-in.ts'];
/** Names of WGSL and MathML, and styles of the editor. */
const excluded = /(?:wgsl-mode|code-mirror-theme|render-math|service-worker)\.tsx?$/;
const pages = ['web/index.html', 'web/demo/index.html', 'web/gateway/index.html'];

/** Attributes whose texts are seen or read aloud; those of components, too. */
const visibleAttributes = new Set(
  (
    'action alt aria-description aria-label aria-roledescription aria-valuetext caption description empty head hint label ' +
    'lead name note placeholder text title what'
  ).split(' '),
);

/** Parts of a syntax tree without visible texts. */
const isCode = (node) =>
  /^(?:Import|TS(?!AsExpression|SatisfiesExpression|NonNullExpression))/.test(node.type) ||
  (node.type.startsWith('Export') && node.source) ||
  (node.type === 'BinaryExpression' && /^[!=]==?$/.test(node.operator));

/** Whether a string constant is a text for people: words, or one word that begins with a capital letter. */
const isText = (text) =>
  (/\p{L}{2,} +\S|\S +\p{L}{2,}/u.test(text) && !isNotation(text)) || /^\p{Lu}\p{Ll}+[.:…]?$/u.test(text);

/** Styles, selectors, paths, headers and queries, which have spaces, too. */
const isNotation = (text) => /^[.#@[(*:]|[{};]|^[\w-]+\/[\w-]+$|--[a-z]|\b\d+px\b|^[a-z]+-[a-z]+ /.test(text);

const clean = (text) => text.replaceAll(/\s+/g, ' ').trim();
const hasLetters = (text) => /\p{L}/u.test(text);

/** Texts of one module. */
function textsOf(path, code) {
  const { program, errors } = parseSync(path, code);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  const texts = new Set();
  const add = (text) => {
    const cleaned = clean(text);
    if (hasLetters(cleaned)) texts.add(cleaned);
  };
  /** @param isVisible whether every string here is seen, also a single lower-case word */
  const visit = (node, isVisible) => {
    if (Array.isArray(node)) {
      for (const one of node) visit(one, isVisible);
      return;
    }
    if (typeof node?.type !== 'string' || isCode(node)) return;
    if (node.type === 'JSXText') return add(node.value);
    if (node.type === 'JSXAttribute')
      return visit(node.value, visibleAttributes.has(node.name.name) ? true : undefined);
    if (node.type === 'JSXExpressionContainer') return visit(node.expression, isVisible);
    if (node.type === 'Literal' && typeof node.value === 'string') {
      if (isVisible === true || isText(clean(node.value))) add(node.value);
      return undefined;
    }
    if (node.type === 'TemplateLiteral') {
      const whole = node.quasis.map(({ value }) => value.cooked).join('{}');
      if (isText(clean(whole.replaceAll('{}', '_'))))
        add(whole.includes('<!doctype') ? textOfHtml(whole) : whole);
    }
    if (node.type === 'MemberExpression') return visit(node.object);
    const joined = joinedText(node);
    if (joined !== undefined) {
      if (isVisible === true || isText(clean(joined))) add(joined);
      return undefined;
    }
    for (const [key, value] of Object.entries(node))
      if (typeof value === 'object' && key !== 'typeAnnotation')
        visit(
          value,
          isVisible === true && /Conditional|Logical|Binary|Template/.test(node.type) ? true : undefined,
        );
    return undefined;
  };
  visit(program.body);
  return texts;
}

/** Constants that are joined with `+`; undefined for everything else. */
function joinedText(node) {
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value;
  if (node.type !== 'BinaryExpression' || node.operator !== '+') return undefined;
  const [left, right] = [joinedText(node.left), joinedText(node.right)];
  return left === undefined || right === undefined ? undefined : left + right;
}

const textOfHtml = (html) =>
  html
    .replaceAll(/<(script|style)\b[^]*?<\/\1>/g, ' ')
    .replaceAll(/<!--[^]*?-->/g, ' ')
    .replaceAll(/<[^>]*>/g, ' ');

/** The content of the file: sorted texts below the folder that has them. */
export function collectTexts() {
  const byFolder = new Map();
  const addTo = (path, texts) => {
    const folder = dirname(path);
    const all = byFolder.get(folder) ?? new Set();
    for (const text of texts) all.add(text);
    byFolder.set(folder, all);
  };
  for (const found of sources.flatMap((pattern) => globSync(pattern, { cwd: root }))) {
    const path = found.replaceAll('\\', '/');
    if (path.endsWith('.d.ts') || excluded.test(path)) continue;
    addTo(path, textsOf(path, readFileSync(join(root, path), 'utf8')));
  }
  for (const path of pages) {
    const text = textOfHtml(readFileSync(join(root, path), 'utf8'));
    addTo(path, text.split('\n\n').map(clean).filter(hasLetters));
  }
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const parts = [...byFolder]
    .filter(([, texts]) => texts.size > 0)
    .sort(([a], [b]) => order(a, b))
    .map(
      ([folder, texts]) =>
        `## ${folder}\n\n${[...texts]
          .sort(order)
          .map((text) => `    ${text}\n`)
          .join('')}`,
    );
  return `# Texts of the pages\n\nWritten by \`npm run texts\`; \`{}\` is a value.\n\n${parts.join('\n')}`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  writeFileSync(join(root, textsFile), collectTexts());
