import { createHash } from 'node:crypto';
import { canonicalJson } from '../signing/canonical-json.ts';
import type { KernelRegistration } from './types.ts';
import { type Token, tokenize } from './wgsl/tokens.ts';

/**
 * `sha256:<hex>` of everything that defines what a kernel computes: op, source, entry point, dispatch, overrides,
 * required features. The name, the tunables and the weight formats do not change it.
 */
export function kernelDigest(registration: KernelRegistration): string {
  // A lone surrogate has no UTF-8 encoding and no meaning in WGSL.
  return digestOf(registration, registration.source.toWellFormed());
}

/** The same of the program alone: comments, white space and the names that it declares do not change it. */
export function programDigest(registration: KernelRegistration): string {
  const tokens = tokenize(registration.source.toWellFormed());
  const names = declaredNames(tokens);
  const plain = (text: string): string => names.get(text) ?? text;
  return digestOf(
    { ...registration, entry_point: plain(registration.entry_point ?? 'main') },
    tokens.map(({ kind, text }) => (kind === 'name' ? plain(text) : text)).join(' '),
  );
}

/** Numbered names in place of declared ones. Overrides keep theirs, because the registration names them. */
function declaredNames(tokens: readonly Token[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const [at, { kind, text }] of tokens.entries()) {
    if (kind !== 'name' || names.has(text)) continue;
    const before = tokens[at - 1];
    // A variable with an address space, such as var<private>.
    const isVariable = before?.text === '>' && tokens[before.matchIndex - 1]?.text === 'var';
    const isDeclared = isVariable || /^(?:var|let|const|fn|struct|alias)$/.test(before?.text ?? '');
    // A parameter, or a member of a struct.
    const isTyped = tokens[at + 1]?.text === ':' && before?.text !== 'override';
    if (isDeclared || isTyped) names.set(text, `_${names.size}`);
  }
  return names;
}

function digestOf(registration: KernelRegistration, source: string): string {
  const { op, dispatch, overrides = {}, requires = [] } = registration;
  const { x, y = '1', z = '1' } = dispatch;
  const text = canonicalJson({
    op,
    source,
    entry_point: registration.entry_point ?? 'main',
    dispatch: { x, y, z },
    overrides,
    requires: [...new Set(requires)].sort(),
  });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}
