import { StreamLanguage, type StreamParser } from '@codemirror/language';
import { classHighlighter, highlightTree } from '@lezer/highlight';

export interface HighlightedCode {
  readonly code: string;
  readonly spans: readonly { readonly start: number; readonly text: string; readonly className: string }[];
}

type Mode = () => Promise<StreamParser<unknown>>;
const javascript = () => import('@codemirror/legacy-modes/mode/javascript');
const clike = () => import('@codemirror/legacy-modes/mode/clike');
const css = () => import('@codemirror/legacy-modes/mode/css');
const xml = () => import('@codemirror/legacy-modes/mode/xml');

/** Modes by the first of their names. */
const modes: Readonly<Record<string, Mode>> = {
  javascript: async () => (await javascript()).javascript,
  typescript: async () => (await javascript()).typescript,
  json: async () => (await javascript()).json,
  c: async () => (await clike()).c,
  cpp: async () => (await clike()).cpp,
  java: async () => (await clike()).java,
  csharp: async () => (await clike()).csharp,
  kotlin: async () => (await clike()).kotlin,
  scala: async () => (await clike()).scala,
  dart: async () => (await clike()).dart,
  css: async () => (await css()).css,
  scss: async () => (await css()).sCSS,
  html: async () => (await xml()).html,
  xml: async () => (await xml()).xml,
  python: async () => (await import('@codemirror/legacy-modes/mode/python')).python,
  rust: async () => (await import('@codemirror/legacy-modes/mode/rust')).rust,
  go: async () => (await import('@codemirror/legacy-modes/mode/go')).go,
  shell: async () => (await import('@codemirror/legacy-modes/mode/shell')).shell,
  powershell: async () => (await import('@codemirror/legacy-modes/mode/powershell')).powerShell,
  sql: async () => (await import('@codemirror/legacy-modes/mode/sql')).standardSQL,
  yaml: async () => (await import('@codemirror/legacy-modes/mode/yaml')).yaml,
  toml: async () => (await import('@codemirror/legacy-modes/mode/toml')).toml,
  ruby: async () => (await import('@codemirror/legacy-modes/mode/ruby')).ruby,
  swift: async () => (await import('@codemirror/legacy-modes/mode/swift')).swift,
  lua: async () => (await import('@codemirror/legacy-modes/mode/lua')).lua,
  perl: async () => (await import('@codemirror/legacy-modes/mode/perl')).perl,
  r: async () => (await import('@codemirror/legacy-modes/mode/r')).r,
  julia: async () => (await import('@codemirror/legacy-modes/mode/julia')).julia,
  haskell: async () => (await import('@codemirror/legacy-modes/mode/haskell')).haskell,
  diff: async () => (await import('@codemirror/legacy-modes/mode/diff')).diff,
  dockerfile: async () => (await import('@codemirror/legacy-modes/mode/dockerfile')).dockerFile,
  wgsl: async () => (await import('../wgsl-mode.ts')).wgslMode,
};

const otherNames: Readonly<Record<string, string>> = {
  js: 'javascript',
  jsx: 'javascript',
  mjs: 'javascript',
  ts: 'typescript',
  tsx: 'typescript',
  jsonc: 'json',
  h: 'c',
  'c++': 'cpp',
  cc: 'cpp',
  hpp: 'cpp',
  cuda: 'cpp',
  glsl: 'c',
  'c#': 'csharp',
  cs: 'csharp',
  kt: 'kotlin',
  svg: 'xml',
  py: 'python',
  rs: 'rust',
  golang: 'go',
  sh: 'shell',
  bash: 'shell',
  zsh: 'shell',
  console: 'shell',
  ps1: 'powershell',
  yml: 'yaml',
  rb: 'ruby',
  pl: 'perl',
  jl: 'julia',
  hs: 'haskell',
  patch: 'diff',
  docker: 'dockerfile',
};

/** The spans of a code with the classes of their tokens (`tok-keyword`, ...); undefined for an unknown language. */
export async function highlight(code: string, language: string): Promise<HighlightedCode | undefined> {
  const name = language.toLowerCase();
  const mode = Object.hasOwn(modes, name) ? modes[name] : modes[otherNames[name] ?? ''];
  if (!mode) return undefined;
  const tree = (await parserOf(mode)).parse(code);
  const spans: { start: number; text: string; className: string }[] = [];
  let end = 0;
  const add = (to: number, className: string) => {
    if (to > end) spans.push({ start: end, text: code.slice(end, to), className });
    end = to;
  };
  highlightTree(tree, classHighlighter, (from, to, className) => {
    add(from, '');
    add(to, className);
  });
  add(code.length, '');
  return { code, spans };
}

const parsers = new Map<Mode, Promise<StreamLanguage<unknown>['parser']>>();
function parserOf(mode: Mode): Promise<StreamLanguage<unknown>['parser']> {
  let parser = parsers.get(mode);
  if (!parser) {
    parser = mode().then((found) => StreamLanguage.define(found).parser);
    parsers.set(mode, parser);
  }
  return parser;
}
